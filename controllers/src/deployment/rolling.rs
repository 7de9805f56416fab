//! The `RollingUpdate` strategy.
//!
//! The new `ReplicaSet` grows up to the maximum number of pods; the old ones shrink while enough pods are available
//! without the removed ones. Unavailable pods are removed first, then those of the oldest `ReplicaSet`.

use super::bounds::Bounds;
use super::new_replica_set::rolling_size;
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};

/// Plans the sizes of the next step. `created` is the size of a new `ReplicaSet` that this step creates.
pub fn step(sets: &mut ReplicaSets, bounds: &Bounds, created: i64) {
    let grown = rolling_size(bounds, sets);
    if let Some(new) = &mut sets.new {
        if new.replicas > bounds.replicas {
            new.scale(bounds.replicas, bounds);
        } else if new.replicas < bounds.replicas && grown != new.replicas {
            new.scale(grown, bounds);
        }
    }
    shrink(sets, bounds, created);
}

fn shrink(sets: &mut ReplicaSets, bounds: &Bounds, created: i64) {
    let unavailable = created + sets.new.as_ref().map_or(0, |it| it.replicas - it.available());
    let spare = sets.replicas() + created - bounds.min_available() - unavailable;
    remove(&mut sets.old, spare, bounds, |it| it.replicas - it.available());
    let spare = if spare > 0 {
        sets.available() - bounds.min_available()
    } else {
        0
    };
    remove(&mut sets.old, spare, bounds, |it| it.replicas);
}

/// Removes `count` pods, at most `most` of each `ReplicaSet`.
fn remove(
    sets: &mut [PlannedReplicaSet],
    mut count: i64,
    bounds: &Bounds,
    most: impl Fn(&PlannedReplicaSet) -> i64,
) {
    for set in sets.iter_mut().filter(|it| it.is_active()) {
        let part = most(set).min(count);
        if part > 0 {
            set.scale(set.replicas - part, bounds);
            count -= part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use serde_json::json;

    fn set(size: i64, available: i64) -> PlannedReplicaSet {
        let json = json!({"spec": {"replicas": size}, "status": {"availableReplicas": available}});
        PlannedReplicaSet::of(Arc::new(serde_json::from_value(json).expect("a set")))
    }

    /// Returns the sizes after a step with 10 replicas, maxSurge 3 and maxUnavailable 2, the new `ReplicaSet` first.
    fn sizes(new: Option<(i64, i64)>, old: &[(i64, i64)], created: i64) -> Vec<i64> {
        let bounds = Bounds {
            replicas: 10,
            surge: 3,
            unavailable: 2,
            rolling: true,
        };
        let mut sets = ReplicaSets {
            new: new.map(|(size, available)| set(size, available)),
            old: old
                .iter()
                .map(|(size, available)| set(*size, *available))
                .collect(),
        };
        step(&mut sets, &bounds, created);
        sets.all().map(|it| it.replicas).collect()
    }

    /// An outage delayed the status of the new `ReplicaSet`, which was shrunk before.
    #[test]
    fn pods_above_the_present_size_are_not_available() {
        assert_eq!(sizes(Some((4, 8)), &[(7, 7)], 0), [6, 4]);
    }

    #[test]
    fn new_set_grows_to_max_replicas() {
        assert_eq!(sizes(Some((0, 0)), &[(10, 10)], 0), [3, 8]);
        assert_eq!(sizes(Some((3, 0)), &[(8, 8)], 0), [5, 8]);
        assert_eq!(sizes(Some((5, 3)), &[(8, 8)], 0), [5, 5]);
        assert_eq!(sizes(Some((10, 10)), &[(3, 3)], 0), [10, 0]);
        assert_eq!(sizes(Some((12, 12)), &[], 0), [10]);
        assert_eq!(sizes(Some((8, 8)), &[], 0), [10], "maxSurge is not used");
        assert_eq!(sizes(None, &[(10, 10)], 3), [8], "a new one is created");
    }

    #[test]
    fn set_that_keeps_its_size_keeps_its_annotations() {
        let bounds = Bounds {
            replicas: 10,
            surge: 3,
            unavailable: 2,
            rolling: true,
        };
        for (new, old) in [(set(5, 0), vec![set(8, 8)]), (set(10, 10), vec![])] {
            let mut sets = ReplicaSets { new: Some(new), old };
            step(&mut sets, &bounds, 0);
            for set in sets.all() {
                assert_eq!(set.replicas, set.object.replicas());
                assert!(set.annotations.is_empty(), "{set:?}");
            }
        }
    }

    #[test]
    fn unavailable_pods_are_removed_first_then_those_of_the_oldest_set() {
        assert_eq!(sizes(Some((3, 3)), &[(5, 5), (5, 3)], 0), [3, 2, 3]);
        assert_eq!(sizes(Some((3, 3)), &[(1, 1), (9, 9)], 0), [3, 0, 5]);
    }

    #[test]
    fn unavailable_pods_that_may_become_available_are_kept() {
        // Five old pods and all new pods are unavailable; the old ones may still become available.
        assert_eq!(sizes(Some((3, 0)), &[(10, 5)], 0), [3, 8]);
        assert_eq!(sizes(None, &[(10, 5)], 3), [8]);
        assert_eq!(sizes(Some((5, 0)), &[(8, 2)], 0), [5, 8]);
    }

    #[test]
    fn unobserved_scale_down_is_not_counted_twice() {
        assert_eq!(sizes(Some((3, 3)), &[(8, 10)], 0), [5, 5]);
    }
}
