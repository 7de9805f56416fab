//! Revisions, and what else `ReplicaSets` carry in annotations.
//!
//! Every template that is rolled out gets the next number, also one that had a number before: that one is added to its
//! history. Annotations of a Deployment are copied to its new `ReplicaSet`, but for those that have a meaning of their own.
//! What is taken from the Deployment stays on the `ReplicaSet`.

use std::collections::BTreeMap;

use coxswain_manager::object::{StringMap, Text};

use super::bounds::Bounds;
use crate::support::annotations::{CHANGED, DESIRED, HISTORY, LAST_APPLIED, MAX, REVISION, ROLLBACK};
use crate::support::deployment::Deployment;
use crate::support::pod_template::normalized;

/// How long a history may be.
const LONGEST_HISTORY: usize = 2000;

/// The longest template that is kept in an annotation: all annotations of an object together have 256 KiB.
const LONGEST_MARK: usize = 64 << 10;

/// The value of [`CHANGED`] for a template. A template that is too long is not kept: such a `ReplicaSet` is known by its name
/// alone.
#[must_use]
pub fn mark(template: &str) -> Text {
    let text = normalized(template).to_string();
    if text.len() > LONGEST_MARK {
        return "true".into();
    }
    text.into()
}

/// Whether an annotation is copied from a Deployment to its `ReplicaSets` and back.
#[must_use]
pub fn is_copied(annotation: &str) -> bool {
    ![LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, ROLLBACK, CHANGED].contains(&annotation)
}

/// The revision in these annotations: 0 if there is none; none if it is no number.
#[must_use]
pub fn of(annotations: &StringMap) -> Option<i64> {
    match annotations.get(REVISION).map(|it| &**it) {
        None | Some("") => Some(0),
        Some(text) => text.parse().ok(),
    }
}

/// A number in these annotations.
#[must_use]
pub fn number(annotations: &StringMap, annotation: &str) -> Option<i64> {
    annotations.get(annotation)?.parse().ok()
}

/// The number of the next rollout.
#[must_use]
pub fn next<'a>(old: impl IntoIterator<Item = &'a StringMap>) -> i64 {
    let highest = old.into_iter().filter_map(of).max().unwrap_or(0).max(0);
    highest.saturating_add(1)
}

/// What to write into the `ReplicaSet` of the present template, which has these annotations. Nothing if its revision is
/// something that is not understood.
#[must_use]
pub fn changes(deployment: &Deployment, present: &StringMap, next: i64) -> BTreeMap<Text, Text> {
    let Some(revision) = of(present) else {
        return BTreeMap::new();
    };
    let mut changes = copies(deployment);
    if revision < next {
        changes.insert(REVISION.into(), next.to_string().into());
        if let Some(before) = present.get(REVISION)
            && let Some(history) = history(present.get(HISTORY), before)
        {
            changes.insert(HISTORY.into(), history);
        }
    }
    changes.retain(|key, value| present.get(key) != Some(value));
    changes
}

/// The annotations of a new `ReplicaSet` of this size.
#[must_use]
pub fn initial(deployment: &Deployment, next: i64, bounds: &Bounds) -> BTreeMap<Text, Text> {
    let mut annotations = copies(deployment);
    annotations.insert(REVISION.into(), next.to_string().into());
    annotations.extend(sizes(bounds));
    annotations
}

/// What a `ReplicaSet` says of the Deployment that scaled it.
#[must_use]
pub fn sizes(bounds: &Bounds) -> [(Text, Text); 2] {
    [(DESIRED, bounds.replicas), (MAX, bounds.limit())]
        .map(|(key, value)| (key.into(), value.to_string().into()))
}

fn copies(deployment: &Deployment) -> BTreeMap<Text, Text> {
    let all = deployment.annotations.iter();
    all.filter(|(key, _)| is_copied(key)).cloned().collect()
}

/// The history with another number at its end, cut at its beginning if it is too long; none if it is even then.
fn history(present: Option<&Text>, before: &str) -> Option<Text> {
    let mut history = match present {
        Some(present) if !present.is_empty() => format!("{present},{before}"),
        _ => before.to_owned(),
    };
    while history.len() > LONGEST_HISTORY {
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
    fn the_next_revision_is_higher_than_all() {
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
    fn annotations_are_copied_and_never_taken_away() {
        let deployment = deployment(&[
            ("a", "1"),
            ("b", "2"),
            (REVISION, "9"),
            (DESIRED, "9"),
            (ROLLBACK, "1"),
        ]);
        let present = pairs(&[("a", "1"), ("old", "x"), (REVISION, "3")]);
        assert_eq!(as_pairs(changes(&deployment, &present, 3)), pairs(&[("b", "2")]));
        let there = pairs(&[("a", "1"), ("b", "2"), (REVISION, "3")]);
        assert!(changes(&deployment, &there, 3).is_empty());
        assert!(changes(&deployment, &there, 2).is_empty(), "never back");
        let odd = pairs(&[(REVISION, "three")]);
        assert!(changes(&deployment, &odd, 4).is_empty(), "it is somebody else's");
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
                (DESIRED, "4"),
                (MAX, "5")
            ])
        );
    }

    #[test]
    fn a_revision_that_comes_back_remembers_its_numbers() {
        let nothing = deployment(&[]);
        let change = |present: &[(&str, &str)]| as_pairs(changes(&nothing, &pairs(present), 9));
        assert_eq!(change(&[]), pairs(&[(REVISION, "9")]), "it had none");
        assert_eq!(
            change(&[(REVISION, "1")]),
            pairs(&[(REVISION, "9"), (HISTORY, "1")])
        );
        assert_eq!(
            change(&[(REVISION, "3"), (HISTORY, "1,2")]),
            pairs(&[(REVISION, "9"), (HISTORY, "1,2,3")])
        );
        let long = vec!["1000"; 400].join(",");
        let after = change(&[(REVISION, "3"), (HISTORY, &long)]);
        let history = after.get(HISTORY).expect("a history");
        assert!(history.len() <= LONGEST_HISTORY && history.ends_with("1000,3"));
        assert_eq!(history.split(',').count(), 400);
        let one = "1".repeat(LONGEST_HISTORY + 1);
        assert_eq!(
            super::history(Some(&one.as_str().into()), "3").as_deref(),
            Some("3")
        );
        assert_eq!(super::history(None, &one), None);
    }
}
