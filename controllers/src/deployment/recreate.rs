//! The Recreate strategy: all pods of old templates end before the first pod of the new one is created.

use std::collections::BTreeMap;

use steersman_manager::object::Uid;

use super::bounds::Bounds;
use super::replica_sets::{PlannedReplicaSet, ReplicaSets};

/// Scales the old `ReplicaSets` to 0. Returns whether all their pods have ended; `running` counts the pods of each that
/// have not.
pub fn scale_down_old(sets: &mut ReplicaSets, bounds: &Bounds, running: &BTreeMap<Uid, usize>) -> bool {
    let mut ended = true;
    for set in &mut sets.old {
        if set.is_active() {
            set.scale(0, bounds);
            ended = false;
        }
        ended &= !may_have_pods(set, running);
    }
    ended
}

/// Reports whether a `ReplicaSet` may have pods: its status counts some, it has not observed its size, or pods are
/// terminating.
fn may_have_pods(set: &PlannedReplicaSet, running: &BTreeMap<Uid, usize>) -> bool {
    let object = &set.object;
    object.status.replicas > 0
        || object.status.observed_generation < object.metadata.generation
        || running.contains_key(&object.metadata.uid)
}
