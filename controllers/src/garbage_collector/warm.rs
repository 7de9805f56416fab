//! Fills the caches of all kinds before the collector works, so that a standby that begins to lead has read everything.
//!
//! While the collector works, a kind that goes is its own affair: it follows it a little longer.

use std::collections::BTreeSet;
use std::sync::Arc;

use coxswain_manager::cache::Caches;
use coxswain_manager::object::Resource;
use tokio::sync::watch;

use super::collector::Current;
use super::kinds::Kinds;

/// Keeps a cache of each kind that is collected, from when `free` resolves.
pub(super) async fn keep(
    caches: Caches,
    mut kinds: watch::Receiver<Option<Arc<Kinds>>>,
    floor: Current,
    free: impl Future<Output = ()>,
) {
    free.await;
    kinds.mark_changed();
    let mut kept: BTreeSet<Resource> = BTreeSet::new();
    while kinds.changed().await.is_ok() {
        let served = kinds.borrow_and_update().clone();
        let Some(served) = served else { continue };
        for kind in served.collected() {
            if kept.insert(kind.resource.clone()) {
                drop(caches.metadata(&kind.resource));
            }
        }
        kept.retain(|resource| {
            let stays = served.watched(resource).is_some() || floor.get().is_some();
            if !stays {
                caches.forget_metadata(resource);
            }
            stays
        });
    }
}
