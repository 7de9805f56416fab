//! Revisions, and the other annotations of `ReplicaSets`.
//!
//! Every rollout gets the next revision. A template that is rolled out again gets a new revision too, and its old one
//! is added to the revision history. Annotations of a Deployment are copied to its new `ReplicaSet`, except for those
//! with a meaning to the controller. An annotation removed from the Deployment stays on the `ReplicaSet`.

use std::collections::BTreeMap;

use steersman_manager::object::{StringMap, Text};

use super::bounds::Bounds;
use crate::support::annotations::{
    DESIRED_REPLICAS, LAST_APPLIED, MAX_REPLICAS, REVISION, REVISION_HISTORY, ROLLBACK_TO, TEMPLATE_CHANGED,
};
use crate::support::deployment::Deployment;

/// The maximum length of the revision history in bytes.
const HISTORY_BYTES_MAX: usize = 2000;

/// The maximum size of a template in an annotation. All annotations of an object are limited to 256 KiB.
pub const TEMPLATE_BYTES_MAX: usize = 64 << 10;

/// The value of [`TEMPLATE_CHANGED`] instead of a larger template.
pub const TEMPLATE_TOO_LARGE: &str = "true";

/// Returns the value of [`TEMPLATE_CHANGED`]. A template that is too large is not stored; then the name alone
/// identifies the `ReplicaSet`.
#[must_use]
pub fn template_changed(template: &str) -> Text {
    if template.len() > TEMPLATE_BYTES_MAX {
        return TEMPLATE_TOO_LARGE.into();
    }
    template.into()
}

/// Reports whether an annotation is copied from a Deployment to its `ReplicaSets`, and back by a rollback.
#[must_use]
pub fn is_copied(annotation: &str) -> bool {
    ![
        LAST_APPLIED,
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
        TEMPLATE_CHANGED,
    ]
    .contains(&annotation)
}

/// Returns the revision: 0 if there is none, and none if it is not a number.
#[must_use]
pub fn of(annotations: &StringMap) -> Option<i64> {
    match annotations.get(REVISION).map(|it| &**it) {
        None | Some("") => Some(0),
        Some(text) => text.parse().ok(),
    }
}

/// Parses an annotation as a number.
#[must_use]
pub fn number(annotations: &StringMap, annotation: &str) -> Option<i64> {
    annotations.get(annotation)?.parse().ok()
}

/// Returns the next revision.
#[must_use]
pub fn next<'a>(old: impl IntoIterator<Item = &'a StringMap>) -> i64 {
    let highest = old.into_iter().filter_map(of).max().unwrap_or(0).max(0);
    highest.saturating_add(1)
}

/// Returns the changes to the annotations of the new `ReplicaSet`; none if its revision is invalid.
#[must_use]
pub fn changes(deployment: &Deployment, present: &StringMap, next: i64) -> BTreeMap<Text, Text> {
    let Some(revision) = of(present) else {
        return BTreeMap::new();
    };
    let mut changes = copies(deployment);
    if revision < next {
        changes.insert(REVISION.into(), next.to_string().into());
        if let Some(before) = present.get(REVISION)
            && let Some(history) = history(present.get(REVISION_HISTORY), before)
        {
            changes.insert(REVISION_HISTORY.into(), history);
        }
    }
    changes.retain(|key, value| present.get(key) != Some(value));
    changes
}

/// Returns the annotations of a `ReplicaSet` to be created.
#[must_use]
pub fn initial(deployment: &Deployment, next: i64, bounds: &Bounds) -> BTreeMap<Text, Text> {
    let mut annotations = copies(deployment);
    annotations.insert(REVISION.into(), next.to_string().into());
    annotations.extend(sizes(bounds));
    annotations
}

/// Returns the annotations that record the bounds at the time of scaling.
#[must_use]
pub fn sizes(bounds: &Bounds) -> [(Text, Text); 2] {
    [
        (DESIRED_REPLICAS, bounds.replicas),
        (MAX_REPLICAS, bounds.max_replicas()),
    ]
    .map(|(key, value)| (key.into(), value.to_string().into()))
}

fn copies(deployment: &Deployment) -> BTreeMap<Text, Text> {
    let all = deployment.annotations.iter();
    all.filter(|(key, _)| is_copied(key)).cloned().collect()
}

/// Appends a revision to the history and drops the oldest ones if it is too long. Returns none if the revision alone
/// is.
fn history(present: Option<&Text>, before: &str) -> Option<Text> {
    let mut history = match present {
        Some(present) if !present.is_empty() => format!("{present},{before}"),
        _ => before.to_owned(),
    };
    while history.len() > HISTORY_BYTES_MAX {
        let oldest = history.find(',')?;
        history.drain(..=oldest);
    }
    Some(history.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    fn deployment(annotations: &[(&str, &str)]) -> Deployment {
        let mut deployment = Deployment::default();
        deployment.annotations = pairs(annotations);
        deployment
    }

    fn as_pairs(changes: BTreeMap<Text, Text>) -> StringMap {
        changes.into_iter().collect()
    }

    #[test]
    fn next_revision_is_higher_than_all() {
        let old = |texts: &[&str]| {
            let all: Vec<StringMap> = texts.iter().map(|it| pairs(&[(REVISION, *it)])).collect();
            next(&all)
        };
        assert_eq!(old(&[]), 1);
        assert_eq!(old(&["3", "7", "x", ""]), 8);
        assert_eq!(old(&["-5"]), 1);
        assert_eq!(old(&["3546343826724305832"]), 3_546_343_826_724_305_833);
        assert_eq!(old(&["9223372036854775807"]), i64::MAX);
        assert_eq!(next([&StringMap::default()]), 1);
    }

    #[test]
    fn annotations_are_copied_and_never_removed() {
        let deployment = deployment(&[
            ("a", "1"),
            ("b", "2"),
            (REVISION, "9"),
            (DESIRED_REPLICAS, "9"),
            (ROLLBACK_TO, "1"),
        ]);
        let present = pairs(&[("a", "1"), ("old", "x"), (REVISION, "3")]);
        assert_eq!(as_pairs(changes(&deployment, &present, 3)), pairs(&[("b", "2")]));
        let there = pairs(&[("a", "1"), ("b", "2"), (REVISION, "3")]);
        assert!(changes(&deployment, &there, 3).is_empty());
        assert!(
            changes(&deployment, &there, 2).is_empty(),
            "a revision never decreases"
        );
        let invalid = pairs(&[(REVISION, "three")]);
        assert!(changes(&deployment, &invalid, 4).is_empty(), "invalid revision");
        let bounds = Bounds {
            replicas: 4,
            surge: 1,
            unavailable: 1,
            rolling: true,
        };
        assert_eq!(
            as_pairs(initial(&deployment, 4, &bounds)),
            pairs(&[
                ("a", "1"),
                ("b", "2"),
                (REVISION, "4"),
                (DESIRED_REPLICAS, "4"),
                (MAX_REPLICAS, "5")
            ])
        );
    }

    #[test]
    fn repeated_rollout_extends_the_revision_history() {
        let nothing = deployment(&[]);
        let change = |present: &[(&str, &str)]| as_pairs(changes(&nothing, &pairs(present), 9));
        assert_eq!(change(&[]), pairs(&[(REVISION, "9")]), "no revision before");
        assert_eq!(
            change(&[(REVISION, "1")]),
            pairs(&[(REVISION, "9"), (REVISION_HISTORY, "1")])
        );
        assert_eq!(
            change(&[(REVISION, "3"), (REVISION_HISTORY, "1,2")]),
            pairs(&[(REVISION, "9"), (REVISION_HISTORY, "1,2,3")])
        );
        let long = vec!["1000"; 400].join(",");
        let after = change(&[(REVISION, "3"), (REVISION_HISTORY, &long)]);
        let history = after.get(REVISION_HISTORY).expect("a history");
        assert!(history.len() <= HISTORY_BYTES_MAX && history.ends_with("1000,3"));
        assert_eq!(history.split(',').count(), 400);
        let one = "1".repeat(HISTORY_BYTES_MAX + 1);
        assert_eq!(
            super::history(Some(&one.as_str().into()), "3").as_deref(),
            Some("3")
        );
        assert_eq!(super::history(None, &one), None);
        let full = one[..HISTORY_BYTES_MAX - 2].into();
        let history = super::history(Some(&full), "3").expect("a history");
        assert_eq!(history.len(), HISTORY_BYTES_MAX);
        assert_eq!(
            super::history(Some(&Text::default()), "3").as_deref(),
            Some("3"),
            "an empty history"
        );
    }

    #[test]
    fn large_template_is_not_stored() {
        let stored = |bytes: usize| {
            let around = r#"{"spec":{"image":""}}"#.len();
            let image = "x".repeat(bytes - around);
            let template = format!(r#"{{"spec":{{"image":"{image}"}}}}"#);
            (template_changed(&template), template)
        };
        let (text, template) = stored(TEMPLATE_BYTES_MAX);
        assert_eq!(*text, *template);
        let (text, _) = stored(TEMPLATE_BYTES_MAX + 1);
        assert_eq!(&*text, TEMPLATE_TOO_LARGE);
    }
}
