//! Old `ReplicaSets` beyond the number that is kept go, the lowest revisions first. One that may have pods is not taken,
//! and none in its place.

use std::sync::Arc;

use super::ReplicaSet;
use super::revision;
use super::sets::{Set, Sets};

/// Those that go, if so many are kept.
#[must_use]
pub fn excess(sets: &Sets, limit: Option<usize>) -> Vec<Arc<ReplicaSet>> {
    let Some(limit) = limit else {
        return Vec::new();
    };
    let staying = |it: &&Set| !it.object.metadata.is_terminating();
    let mut old: Vec<&Set> = sets.old.iter().filter(staying).collect();
    let excess = old.len().saturating_sub(limit);
    old.sort_by_cached_key(|it| (revision::of(&it.object.annotations).unwrap_or(0), it.age()));
    let first = old.into_iter().take(excess).filter(|it| is_empty(it));
    first.map(|it| Arc::clone(&it.object)).collect()
}

fn is_empty(set: &Set) -> bool {
    let ReplicaSet { metadata, status, .. } = &*set.object;
    let sizes = [set.replicas, set.object.replicas(), status.replicas];
    sizes == [0; 3] && status.observed_generation >= metadata.generation
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::support::annotations::REVISION;

    /// Revision, size, pods, generation that it knows of its second, whether it goes.
    fn old(name: &str, (revision, size, pods, observed, going): (&str, i64, i64, i64, bool)) -> Set {
        let mut json = json!({
            "metadata": {"name": name, "uid": name, "generation": 2, "annotations": {REVISION: revision}},
            "spec": {"replicas": size}, "status": {"replicas": pods, "observedGeneration": observed},
        });
        if going {
            json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Set::of(Arc::new(serde_json::from_value(json).expect("a set")))
    }

    fn names(old: Vec<Set>, limit: Option<usize>) -> Vec<String> {
        let sets = Sets { new: None, old };
        let excess = excess(&sets, limit);
        excess.iter().map(|it| it.metadata.name.to_string()).collect()
    }

    #[test]
    fn the_lowest_revisions_go_first() {
        let all = || {
            ["10", "9", "x", "2"]
                .map(|it| old(it, (it, 0, 0, 2, false)))
                .to_vec()
        };
        assert_eq!(names(all(), None), [""; 0]);
        assert_eq!(names(all(), Some(4)), [""; 0]);
        assert_eq!(names(all(), Some(2)), ["x", "2"]);
        assert_eq!(names(all(), Some(0)), ["x", "2", "9", "10"]);
    }

    #[test]
    fn one_that_may_have_pods_stays_and_none_goes_in_its_place() {
        for odd in [
            ("1", 1, 0, 2, false),
            ("1", 0, 1, 2, false),
            ("1", 0, 0, 1, false),
        ] {
            let all = vec![
                old("odd", odd),
                old("b", ("2", 0, 0, 2, false)),
                old("c", ("3", 0, 0, 2, false)),
            ];
            assert_eq!(names(all, Some(1)), ["b"], "{odd:?}");
        }
        // One that goes already is not counted.
        let all = vec![old("odd", ("1", 0, 0, 2, true)), old("b", ("2", 0, 0, 2, false))];
        assert_eq!(names(all, Some(1)), [""; 0]);
    }
}
