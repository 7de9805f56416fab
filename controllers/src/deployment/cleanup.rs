//! Deletion of old `ReplicaSets` beyond `revisionHistoryLimit`, lowest revisions first. A `ReplicaSet` that may have
//! pods is kept, and no other is deleted in its place.

use std::sync::Arc;

use super::ReplicaSet;
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};
use super::revision;

/// Returns the `ReplicaSets` to delete.
#[must_use]
pub fn excess(sets: &ReplicaSets, limit: Option<usize>) -> Vec<Arc<ReplicaSet>> {
    let Some(limit) = limit else {
        return Vec::new();
    };
    let not_terminating = |it: &&PlannedReplicaSet| !it.object.metadata.is_terminating();
    let mut old: Vec<&PlannedReplicaSet> = sets.old.iter().filter(not_terminating).collect();
    let excess = old.len().saturating_sub(limit);
    old.sort_by_cached_key(|it| (revision::of(&it.object.annotations).unwrap_or(0), it.age()));
    let first = old.into_iter().take(excess).filter(|it| is_empty(it));
    first.map(|it| Arc::clone(&it.object)).collect()
}

fn is_empty(set: &PlannedReplicaSet) -> bool {
    let ReplicaSet { metadata, status, .. } = &*set.object;
    let sizes = [set.replicas, set.object.replicas(), status.replicas];
    sizes == [0; 3] && status.observed_generation >= metadata.generation
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::support::annotations::REVISION;

    /// A `ReplicaSet` of generation 2.
    fn old(
        name: &str,
        (revision, size, pods, observed, terminating): (&str, i64, i64, i64, bool),
    ) -> PlannedReplicaSet {
        let mut json = json!({
            "metadata": {"name": name, "uid": name, "generation": 2, "annotations": {REVISION: revision}},
            "spec": {"replicas": size}, "status": {"replicas": pods, "observedGeneration": observed},
        });
        if terminating {
            json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        PlannedReplicaSet::of(Arc::new(serde_json::from_value(json).expect("a set")))
    }

    fn names(old: Vec<PlannedReplicaSet>, limit: Option<usize>) -> Vec<String> {
        let sets = ReplicaSets { new: None, old };
        let excess = excess(&sets, limit);
        excess.iter().map(|it| it.metadata.name.to_string()).collect()
    }

    #[test]
    fn lowest_revisions_are_deleted_first() {
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
    fn set_with_possible_pods_is_kept_without_replacement() {
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
        // A terminating ReplicaSet is not counted.
        let all = vec![old("odd", ("1", 0, 0, 2, true)), old("b", ("2", 0, 0, 2, false))];
        assert_eq!(names(all, Some(1)), [""; 0]);
    }
}
