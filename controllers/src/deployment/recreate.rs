//! All pods of the old templates go before the first of the new one comes.

use std::collections::BTreeMap;

use coxswain_manager::object::Uid;

use super::bounds::Bounds;
use super::sets::{Set, Sets};

/// Takes all pods from the old ones. Whether they are gone, as far as `running` pods of each are known: until then nothing
/// new may come.
pub fn retire(sets: &mut Sets, bounds: &Bounds, running: &BTreeMap<Uid, usize>) -> bool {
    let mut gone = true;
    for set in &mut sets.old {
        if set.is_active() {
            set.scale(0, bounds);
            gone = false;
        }
        gone &= !may_run(set, running);
    }
    gone
}

/// Whether it may have pods: it says so, or does not know yet that it is to have none, or they are still on their way out.
fn may_run(set: &Set, running: &BTreeMap<Uid, usize>) -> bool {
    let object = &set.object;
    object.status.replicas > 0
        || object.status.observed_generation < object.metadata.generation
        || running.contains_key(&object.metadata.uid)
}
