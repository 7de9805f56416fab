//! Back to the template of an earlier revision, asked for by the annotation of old. `kubectl rollout undo` does the same
//! itself, from the same annotations, and needs nothing of this.

use serde_json::{Map, Value, json};

use super::revision;
use super::sets::{Set, Sets};
use crate::support::annotations::ROLLBACK;
use crate::support::deployment::Deployment;
use crate::support::pod_template::{Canonical, difference, unlabel};

/// What becomes of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollback {
    /// What is written to the Deployment: the template, or only that the request is done with.
    pub patch: Value,
    /// What is said of it.
    pub reason: &'static str,
    /// The same for people.
    pub message: String,
    /// Whether it was granted.
    pub granted: bool,
}

/// The revision that is asked for: 0 is the one before the present. A text that is no number asks for nothing.
#[must_use]
pub fn requested(deployment: &Deployment) -> Option<i64> {
    revision::number(&deployment.annotations, ROLLBACK)
}

/// What to do about a request for `to`, if the present template has this form.
#[must_use]
pub fn plan(deployment: &Deployment, template: &Canonical, sets: &Sets, to: i64) -> Rollback {
    const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
    let name = &deployment.metadata.name;
    let revision_of = |it: &&Set| revision::of(&it.object.annotations);
    let to = match to {
        0 => {
            let mut revisions: Vec<i64> = sets.all().filter_map(|it| revision_of(&it)).collect();
            revisions.sort_unstable();
            match revisions.iter().rev().nth(1).copied() {
                None | Some(0) => {
                    return refuse(deployment, NOT_FOUND, "Unable to find last revision.".to_owned());
                }
                Some(last) => last,
            }
        }
        other => other,
    };
    let Some(set) = sets.all().find(|it| revision_of(it) == Some(to)) else {
        return refuse(
            deployment,
            NOT_FOUND,
            "Unable to find the revision to rollback to.".to_owned(),
        );
    };
    if Canonical::of(&set.object.template().text) == *template {
        let message =
            format!("The rollback revision contains the same template as current deployment \"{name}\"");
        return refuse(deployment, "DeploymentRollbackTemplateUnchanged", message);
    }
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut wanted = read(&set.object.template().text);
    unlabel(&mut wanted);
    let mut patch = cleared(deployment);
    patch["spec"] = json!({"template": difference(&read(&deployment.template().text), &wanted)});
    let mut annotations = Map::new();
    for (key, _) in deployment
        .annotations
        .iter()
        .filter(|(key, _)| revision::is_copied(key))
    {
        annotations.insert(key.to_string(), Value::Null);
    }
    for (key, value) in set
        .object
        .annotations
        .iter()
        .filter(|(key, _)| revision::is_copied(key))
    {
        annotations.insert(key.to_string(), json!(value));
    }
    annotations.insert(ROLLBACK.to_owned(), Value::Null);
    patch["metadata"]["annotations"] = Value::Object(annotations);
    Rollback {
        patch,
        reason: "DeploymentRollback",
        message: format!("Rolled back deployment \"{name}\" to revision {to}"),
        granted: true,
    }
}

fn refuse(deployment: &Deployment, reason: &'static str, message: String) -> Rollback {
    Rollback {
        patch: cleared(deployment),
        reason,
        message,
        granted: false,
    }
}

/// The patch that takes the request away, and nothing else.
fn cleared(deployment: &Deployment) -> Value {
    let mut metadata = deployment.metadata.preconditions();
    metadata["annotations"] = json!({ROLLBACK: null});
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use crate::support::annotations::{DESIRED, REVISION};

    fn deployment(image: &str) -> Deployment {
        let json = json!({
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "7",
                         "annotations": {ROLLBACK: "0", "mine": "1", "both": "2", REVISION: "3"}},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": image, "new": true}}},
        });
        serde_json::from_value(json).expect("a Deployment")
    }

    fn set(name: &str, revision: &str, template: &Value) -> Set {
        let json = json!({
            "metadata": {"name": name, "uid": name,
                         "annotations": {REVISION: revision, "both": "3", "theirs": "4", DESIRED: "1"}},
            "spec": {"template": template},
        });
        Set::of(Arc::new(serde_json::from_value(json).expect("a set")))
    }

    fn asked(old: Vec<Set>, to: i64) -> Rollback {
        let deployment = deployment("two");
        let template = Canonical::of(&deployment.template().text);
        let new = set(
            "new",
            "3",
            &json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "n"}},
                                          "spec": {"image": "two", "new": true}}),
        );
        plan(&deployment, &template, &Sets { new: Some(new), old }, to)
    }

    fn old(revision: &str) -> Set {
        let template = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "o"}}, "spec": {"image": "one"}});
        set("old", revision, &template)
    }

    #[test]
    fn the_template_and_the_annotations_come_back_in_one_write() {
        for to in [0, 2] {
            let rollback = asked(vec![old("2")], to);
            assert!(rollback.granted);
            assert_eq!(rollback.message, r#"Rolled back deployment "web" to revision 2"#);
            assert_eq!(
                rollback.patch,
                json!({
                    "metadata": {"uid": "u", "resourceVersion": "7",
                                 "annotations": {ROLLBACK: null, "mine": null, "both": "3", "theirs": "4"}},
                    "spec": {"template": {"spec": {"image": "one", "new": null}}},
                })
            );
        }
    }

    #[test]
    fn what_cannot_be_had_is_said_and_done_with() {
        let nothing_else =
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {ROLLBACK: null}}});
        for (old, to, reason) in [
            (vec![], 0, "DeploymentRollbackRevisionNotFound"),
            (vec![old("0")], 0, "DeploymentRollbackRevisionNotFound"),
            (vec![old("2")], 9, "DeploymentRollbackRevisionNotFound"),
            (vec![old("2")], 3, "DeploymentRollbackTemplateUnchanged"),
        ] {
            let rollback = asked(old, to);
            assert_eq!((rollback.reason, rollback.granted), (reason, false));
            assert_eq!(rollback.patch, nothing_else);
        }
    }

    #[test]
    fn only_a_number_asks() {
        let asking = |text: &str| {
            let mut deployment = Deployment::default();
            deployment.annotations = [(ROLLBACK, text)].into_iter().collect();
            requested(&deployment)
        };
        assert_eq!(
            (asking("0"), asking("5"), asking("x"), asking("")),
            (Some(0), Some(5), None, None)
        );
    }
}
