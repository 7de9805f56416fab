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
