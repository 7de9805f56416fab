//! One template gives way to another pod by pod.
//!
//! The new `ReplicaSet` grows as far as there is room; the old ones shrink as far as enough pods serve without what they
//! give up. First what does not serve anyway, then the oldest. No step makes more pods than the limit, and none takes a
//! pod that serves from the least there must be.

use super::bounds::Bounds;
use super::new_replica_set::size;
use super::sets::{Set, Sets};

/// Sizes of all of them, one step further; the new one, if it is only about to be made, has `made` pods.
pub fn step(sets: &mut Sets, bounds: &Bounds, made: i64) {
    let wanted = size(bounds, sets);
    if let Some(new) = &mut sets.new {
        if new.replicas > bounds.replicas {
            new.scale(bounds.replicas, bounds);
        } else if new.replicas < bounds.replicas && wanted != new.replicas {
            new.scale(wanted, bounds);
        }
    }
    shrink(sets, bounds, made);
}

fn shrink(sets: &mut Sets, bounds: &Bounds, made: i64) {
    let waiting = made + sets.new.as_ref().map_or(0, |it| it.replicas - it.available());
    let spare = sets.replicas() + made - bounds.min_available() - waiting;
    take(&mut sets.old, spare, bounds, |it| it.replicas - it.available());
    let spare = if spare > 0 {
        sets.available() - bounds.min_available()
    } else {
        0
    };
    take(&mut sets.old, spare, bounds, |it| it.replicas);
}

/// Takes so many pods, from each no more than `most`.
fn take(sets: &mut [Set], mut count: i64, bounds: &Bounds, most: impl Fn(&Set) -> i64) {
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

    fn set(size: i64, available: i64) -> Set {
        let json = json!({"spec": {"replicas": size}, "status": {"availableReplicas": available}});
        Set::of(Arc::new(serde_json::from_value(json).expect("a set")))
    }

    /// Ten pods, three may be too many, two may be missing: the sizes after a step, the new one first.
    fn sizes(new: Option<(i64, i64)>, old: &[(i64, i64)], made: i64) -> Vec<i64> {
        let bounds = Bounds {
            replicas: 10,
            surge: 3,
            unavailable: 2,
            rolling: true,
        };
        let mut sets = Sets {
            new: new.map(|(size, available)| set(size, available)),
            old: old
                .iter()
                .map(|(size, available)| set(*size, *available))
                .collect(),
        };
        step(&mut sets, &bounds, made);
        sets.all().map(|it| it.replicas).collect()
    }

    #[test]
    fn the_new_one_grows_as_far_as_there_is_room() {
        assert_eq!(sizes(Some((0, 0)), &[(10, 10)], 0), [3, 8]);
        assert_eq!(sizes(Some((3, 0)), &[(8, 8)], 0), [5, 8]);
        assert_eq!(sizes(Some((5, 3)), &[(8, 8)], 0), [5, 5]);
        assert_eq!(sizes(Some((10, 10)), &[(3, 3)], 0), [10, 0]);
        assert_eq!(sizes(Some((12, 12)), &[], 0), [10]);
        assert_eq!(sizes(None, &[(10, 10)], 3), [8], "it is only about to be made");
    }

    #[test]
    fn what_does_not_serve_goes_first_then_the_oldest() {
        assert_eq!(sizes(Some((3, 3)), &[(5, 5), (5, 3)], 0), [3, 2, 3]);
        assert_eq!(sizes(Some((3, 3)), &[(1, 1), (9, 9)], 0), [3, 0, 5]);
    }

    #[test]
    fn as_many_as_must_serve_are_left_to_try() {
        // Five of the old ones do not serve yet, and none of the new ones does: some of the five may still.
        assert_eq!(sizes(Some((3, 0)), &[(10, 5)], 0), [3, 8]);
        assert_eq!(sizes(None, &[(10, 5)], 3), [8]);
        assert_eq!(sizes(Some((5, 0)), &[(8, 2)], 0), [5, 8]);
    }

    #[test]
    fn what_has_not_followed_yet_is_not_counted_twice() {
        assert_eq!(sizes(Some((3, 3)), &[(8, 10)], 0), [5, 5]);
    }
}
