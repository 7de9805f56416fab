//! Rollback to an earlier revision, requested by the deprecated annotation. `kubectl rollout undo` does not use it.

use serde_json::{Map, Value, json};

use super::replica_sets::{PlannedReplicaSet, ReplicaSets};
use super::revision;
use crate::support::annotations::ROLLBACK_TO;
use crate::support::deployment::Deployment;
use crate::support::pod_template::{difference, unlabel};

/// The answer to a rollback request.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "plain data")]
pub struct Rollback {
    /// The patch of the Deployment: the old template if granted, and the removal of the request.
    pub patch: Value,
    pub reason: &'static str,
    pub message: String,
    pub granted: bool,
}

/// Returns the requested revision; 0 is the previous one. An invalid number is ignored.
#[must_use]
pub fn requested(deployment: &Deployment) -> Option<i64> {
    revision::number(&deployment.annotations, ROLLBACK_TO)
}

/// Plans the rollback to revision `to`.
#[must_use]
pub fn plan(deployment: &Deployment, sets: &ReplicaSets, to: i64) -> Rollback {
    const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
    let name = &deployment.metadata.name;
    let revision_of = |it: &&PlannedReplicaSet| revision::of(&it.object.annotations);
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
    if set.object.template().hash == deployment.template().hash {
        let message =
            format!("The rollback revision contains the same template as current deployment \"{name}\"");
        return refuse(deployment, "DeploymentRollbackTemplateUnchanged", message);
    }
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut target = read(&set.object.template().text);
    unlabel(&mut target);
    let mut patch = remove_request(deployment);
    patch["spec"] = json!({"template": difference(&read(&deployment.template().text), &target)});
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
    annotations.insert(ROLLBACK_TO.to_owned(), Value::Null);
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
        patch: remove_request(deployment),
        reason,
        message,
        granted: false,
    }
}

/// Returns the patch that removes the request.
fn remove_request(deployment: &Deployment) -> Value {
    let mut metadata = deployment.metadata.preconditions();
    metadata["annotations"] = json!({ROLLBACK_TO: null});
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use crate::support::annotations::{DESIRED_REPLICAS, REVISION};

    fn deployment(image: &str) -> Deployment {
        let json = json!({
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "7",
                         "annotations": {ROLLBACK_TO: "0", "mine": "1", "both": "2", REVISION: "3"}},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": image, "new": true}}},
        });
        serde_json::from_value(json).expect("a Deployment")
    }

    fn set(name: &str, revision: &str, template: &Value) -> PlannedReplicaSet {
        let json = json!({
            "metadata": {"name": name, "uid": name,
                         "annotations": {REVISION: revision, "both": "3", "theirs": "4", DESIRED_REPLICAS: "1"}},
            "spec": {"template": template},
        });
        PlannedReplicaSet::of(Arc::new(serde_json::from_value(json).expect("a set")))
    }

    fn request(old: Vec<PlannedReplicaSet>, to: i64) -> Rollback {
        let deployment = deployment("two");
        let new = set(
            "new",
            "3",
            &json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "n"}},
                                          "spec": {"image": "two", "new": true}}),
        );
        plan(&deployment, &ReplicaSets { new: Some(new), old }, to)
    }

    fn old(revision: &str) -> PlannedReplicaSet {
        let template = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "o"}}, "spec": {"image": "one"}});
        set("old", revision, &template)
    }

    #[test]
    fn rollback_restores_template_and_annotations_in_one_patch() {
        for to in [0, 2] {
            let rollback = request(vec![old("2")], to);
            assert!(rollback.granted);
            assert_eq!(rollback.message, r#"Rolled back deployment "web" to revision 2"#);
            assert_eq!(
                rollback.patch,
                json!({
                    "metadata": {"uid": "u", "resourceVersion": "7",
                                 "annotations": {ROLLBACK_TO: null, "mine": null, "both": "3", "theirs": "4"}},
                    "spec": {"template": {"spec": {"image": "one", "new": null}}},
                })
            );
        }
    }

    #[test]
    fn impossible_rollback_only_removes_the_request() {
        let nothing_else =
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {ROLLBACK_TO: null}}});
        for (old, to, reason) in [
            (vec![], 0, "DeploymentRollbackRevisionNotFound"),
            (vec![old("0")], 0, "DeploymentRollbackRevisionNotFound"),
            (vec![old("2")], 9, "DeploymentRollbackRevisionNotFound"),
            (vec![old("2")], 3, "DeploymentRollbackTemplateUnchanged"),
        ] {
            let rollback = request(old, to);
            assert_eq!((rollback.reason, rollback.granted), (reason, false));
            assert_eq!(rollback.patch, nothing_else);
        }
    }

    #[test]
    fn invalid_number_is_ignored() {
        let asking = |text: &str| {
            let mut deployment = Deployment::default();
            deployment.annotations = [(ROLLBACK_TO, text)].into_iter().collect();
            requested(&deployment)
        };
        assert_eq!(
            (asking("0"), asking("5"), asking("x"), asking("")),
            (Some(0), Some(5), None, None)
        );
    }
}
