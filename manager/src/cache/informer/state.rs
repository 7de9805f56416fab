//! The state of an informer: the progress of each partition, and the stores. Guarded by the lock of the informer.

use std::any::TypeId;
use std::sync::Arc;

use tokio::time::Instant;

use crate::cache::shared_store::AnyStore;
use crate::cache::status::Status;
use crate::cache::store::Partition;
use crate::client::View;
use crate::object::{MetaObject, Version};

pub(super) struct State {
    pub(super) partitions: Vec<Progress>,
    pub(super) stores: Vec<Projection>,
    /// The number of restores: versions of different epochs are not comparable.
    pub(super) epoch: u64,
    /// The number of lists and watches of the served resource that have failed.
    pub(super) failures: u64,
}

pub(super) struct Projection {
    pub(super) id: TypeId,
    pub(super) store: Arc<dyn AnyStore>,
    /// It was requested by [`Caches::of`](crate::cache::Caches::of), not only for its metadata.
    pub(super) required: bool,
}

/// The progress of the reflector of a partition.
pub(super) struct Progress {
    pub(super) status: Status,
    /// The API server did not serve the resource at the last request: cached objects may be deleted.
    pub(super) unserved: bool,
    /// The time of the last event, bookmark or list, or of the start.
    pub(super) last_update: Instant,
    /// The time of the last update, opened watch or page of a list, or of the start.
    pub(super) last_contact: Instant,
    /// The number of lists that were started.
    pub(super) lists_started: u64,
    /// The number and the start of the last list that was applied to the stores.
    pub(super) applied: Option<(u64, Instant)>,
    /// The number of unidentified items in that list.
    pub(super) unidentified: usize,
    /// The version that a new leader has to read, or the number of lists after which any list includes it.
    pub(super) required: Option<(Version, u64)>,
}

impl State {
    /// Returns the state without stores, before the first list.
    pub(super) fn new(partitions: usize, now: Instant) -> Self {
        let partitions = (0..partitions).map(|_| Progress {
            status: Status::Syncing,
            unserved: false,
            last_update: now,
            last_contact: now,
            lists_started: 0,
            applied: None,
            unidentified: 0,
            required: None,
        });
        Self {
            partitions: partitions.collect(),
            stores: Vec::new(),
            epoch: 0,
            failures: 0,
        }
    }

    /// Returns the representation that all stores can decode.
    pub(super) fn view(&self) -> View {
        let id = TypeId::of::<MetaObject>();
        if self.stores.iter().all(|it| it.id == id) {
            View::Metadata
        } else {
            View::Full
        }
    }

    /// Returns one of the synced stores, which all have the same objects and versions.
    pub(super) fn synced(&self) -> Option<&dyn AnyStore> {
        let mut stores = self.stores.iter().map(|it| &*it.store);
        stores.find(|store| store.is_synced())
    }

    pub(super) fn reached(&self, partition: Partition) -> Version {
        let mut stores = self.stores.iter();
        let listed = stores.find(|it| it.store.is_listed(partition));
        listed.map_or_else(Version::none, |it| it.store.reached(partition))
    }

    /// Returns true if the listed stores have reached a version of a partition, or include a list after the first `lists` ones.
    pub(super) fn includes(&self, partition: Partition, version: &Version, lists: u64) -> bool {
        let applied = self.partitions[partition.index()].applied;
        self.reached(partition).has_reached(version) || applied.is_some_and(|(number, _)| number > lists)
    }

    /// Calls `with` for the stores that include a list of the partition.
    pub(super) fn each(&self, partition: Partition, mut with: impl FnMut(&dyn AnyStore)) {
        for it in &self.stores {
            if it.store.is_listed(partition) {
                with(&*it.store);
            }
        }
    }
}
