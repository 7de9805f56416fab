//! The informer of one resource: it passes one list and watch per partition to the stores of all projections.
//!
//! Each list and event is applied to all stores in one step, under a lock. So all stores that are synced have the same
//! objects in the same versions, as far as each can decode them. A store that is added after the list began receives
//! nothing before the next list, which it requests: until then, events may lack fields that its projection reads.

mod list;
mod state;
#[cfg(test)]
mod tests;

pub(super) use list::{List, ListStart};

use std::any::TypeId;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use self::state::{Projection, State};
use super::metrics::{CacheStats, Counters};
use super::pending_writes::CachePosition;
use super::shared_store::{AnyStore, SharedStore};
use super::status::Status;
use super::store::Partition;
use super::wire::RawItem;
use crate::client::View;
use crate::env::Clock;
use crate::object::{Key, MetaObject, Object, Resource, Uid, Version};
use crate::sync::watch;

/// The list and watch of one resource, and its stores.
pub(super) struct Informer {
    pub(super) resource: Resource,
    pub(super) counters: Counters,
    /// Whether the scope includes all objects of the resource.
    pub(super) includes_all: bool,
    /// By partition; an empty one is the whole cluster.
    namespaces: Vec<String>,
    /// By partition.
    relist_requests: Vec<watch::Sender<()>>,
    clock: Clock,
    state: RwLock<State>,
    /// Notifies of each change of the state or of a store.
    changes: watch::Sender<()>,
}

/// The object of an event is not known, so a relist is required.
#[derive(Debug)]
pub(super) struct Unidentified;

impl Informer {
    pub(super) fn new(
        resource: &Resource,
        namespaces: Vec<String>,
        includes_all: bool,
        clock: &Clock,
        counters: Counters,
    ) -> Self {
        Self {
            resource: resource.clone(),
            counters,
            includes_all,
            relist_requests: namespaces.iter().map(|_| watch::Sender::new(())).collect(),
            state: RwLock::new(State::new(namespaces.len(), clock.now())),
            namespaces,
            clock: clock.clone(),
            changes: watch::Sender::new(()),
        }
    }

    /// Returns the store of a projection. A new one is synced by the relist that it requests.
    pub(super) fn store<T: Object>(&self, required: bool) -> Arc<SharedStore<T>> {
        let id = TypeId::of::<T>();
        let store = self.change(|state| {
            if let Some(known) = state.stores.iter_mut().find(|it| it.id == id)
                && let Ok(store) = Arc::clone(&known.store).any().downcast::<SharedStore<T>>()
            {
                known.required |= required;
                return Ok(store);
            }
            let store = Arc::new(SharedStore::new(&self.resource, self.namespaces.len()));
            state.stores.push(Projection {
                id,
                store: Arc::clone(&store) as _,
                required,
            });
            Err(store)
        });
        store.unwrap_or_else(|new| {
            self.relist();
            new
        })
    }

    /// Returns the first store in any projection.
    pub(super) fn any_store(&self) -> Option<Arc<dyn AnyStore>> {
        self.read(|state| state.stores.first().map(|it| Arc::clone(&it.store)))
    }

    /// Drops the metadata store, unless it is required. Returns true if no store is left.
    pub(super) fn forget_metadata(&self) -> bool {
        let id = TypeId::of::<MetaObject>();
        self.change(|state| {
            state.stores.retain(|it| it.required || it.id != id);
            state.stores.is_empty()
        })
    }

    /// Returns true if [`Caches::of`](super::Caches::of) was called for the resource.
    pub(super) fn is_required(&self) -> bool {
        self.read(|state| state.stores.iter().any(|it| it.required))
    }

    /// Returns true once all stores are synced.
    pub(super) fn is_synced(&self) -> bool {
        self.read(|state| state.stores.iter().all(|it| it.store.is_synced()))
    }

    /// Returns the worst status of all partitions. `Syncing` if a store was added and is not synced yet.
    pub(super) fn status_of_all(&self) -> Status {
        let syncing = (!self.is_synced()).then_some(Status::Syncing);
        let partitions = self.read(|state| {
            let statuses = state.partitions.iter().map(|partition| partition.status.clone());
            statuses.reduce(Status::worse).unwrap_or(Status::Synced)
        });
        syncing.into_iter().fold(partitions, Status::worse)
    }

    pub(super) fn status(&self, partition: Partition) -> Status {
        self.read(|state| state.partitions[partition.index()].status.clone())
    }

    pub(super) fn is_unserved(&self) -> bool {
        self.read(|state| state.partitions.iter().any(|partition| partition.unserved))
    }

    /// Returns the longest time since a partition of a served resource had contact.
    pub(super) fn silence(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.read(|state| {
            let served = state.partitions.iter().filter(|partition| !partition.unserved);
            let silences = served.map(|partition| now.saturating_duration_since(partition.last_contact));
            silences.max()
        })
    }

    pub(super) fn position(&self) -> CachePosition {
        self.read(|state| CachePosition {
            version: state.synced().map(AnyStore::version).unwrap_or_default(),
            epoch: state.epoch,
            // None if one of the partitions has none.
            list_started_at: { state.partitions.iter() }
                .map(|partition| partition.applied.map(|(_, at)| at))
                .min()
                .flatten(),
        })
    }

    /// Returns the uid and the latest version of the object under a key, decoded or not.
    pub(super) fn identity(&self, key: &Key) -> Option<(Uid, Version)> {
        self.read(|state| state.synced()?.identity(key))
    }

    pub(super) fn stats(&self) -> CacheStats {
        let now = self.clock.now();
        self.read(|state| {
            let stores: Vec<CacheStats> = state.stores.iter().map(|it| it.store.stats()).collect();
            let unidentified = state.partitions.iter().map(|partition| partition.unidentified);
            let ages = { state.partitions.iter() }
                .map(|partition| now.saturating_duration_since(partition.last_update));
            CacheStats {
                objects: stores.iter().map(|it| it.objects).sum(),
                bytes: stores.iter().map(|it| it.bytes).sum(),
                undecodable: stores.iter().map(|it| it.undecodable).chain(unidentified).sum(),
                age: ages.max().unwrap_or_default(),
                version: stores.iter().map(|it| it.version).min().unwrap_or_default(),
                queued: stores.iter().map(|it| it.queued).max().unwrap_or_default(),
            }
        })
    }

    /// Requests a relist of all partitions.
    pub(super) fn relist(&self) {
        for request in &self.relist_requests {
            request.send_replace(());
        }
    }

    pub(super) fn relist_partition(&self, partition: Partition) {
        self.relist_requests[partition.index()].send_replace(());
    }

    /// Notifies of requests to relist a partition.
    pub(super) fn relist_requests(&self, partition: Partition) -> watch::Receiver<()> {
        self.relist_requests[partition.index()].subscribe()
    }

    /// Notifies of each change of the state or of a store.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.namespaces.len()).map(Partition::new)
    }

    /// Returns the namespace of a partition; empty if it is the whole cluster.
    pub(super) fn namespace(&self, partition: Partition) -> &str {
        &self.namespaces[partition.index()]
    }

    pub(super) fn lists_started(&self, partition: Partition) -> u64 {
        self.read(|state| state.partitions[partition.index()].lists_started)
    }

    /// Returns true if all stores have reached a version of a partition, or include a list after the first `lists` ones.
    pub(super) fn has_caught_up(&self, partition: Partition, version: &Version, lists: u64) -> bool {
        self.read(|state| {
            let mut stores = state.stores.iter();
            stores.all(|it| it.store.is_listed(partition)) && state.includes(partition, version, lists)
        })
    }

    /// From here on a partition has to reach a version, or to include a list after the first `lists` ones, before a controller may
    /// start.
    pub(super) fn require(&self, partition: Partition, version: Version, lists: u64) {
        self.change(|state| state.partitions[partition.index()].required = Some((version, lists)));
    }

    /// Returns the partitions that have not reached the state that a new leader has to read.
    pub(super) fn behind(&self) -> Vec<Partition> {
        let is_behind = |state: &State, partition: Partition| {
            let required = state.partitions[partition.index()].required.as_ref();
            required.is_some_and(|(version, lists)| !state.includes(partition, version, *lists))
        };
        self.read(|state| self.partitions().filter(|it| is_behind(state, *it)).collect())
    }

    /// Returns the version that a partition has reached.
    pub(super) fn reached(&self, partition: Partition) -> Version {
        self.read(|state| state.reached(partition))
    }

    pub(super) fn set_status(&self, partition: Partition, status: Status) {
        self.change(|state| state.partitions[partition.index()].status = status);
        self.changes.send_replace(());
    }

    /// Records that the API server has accepted a watch.
    pub(super) fn set_watching(&self, partition: Partition) {
        let now = self.clock.now();
        self.change(|state| {
            let progress = &mut state.partitions[partition.index()];
            progress.status = Status::Synced;
            progress.last_contact = now;
        });
        self.changes.send_replace(());
    }

    /// Records that the API server has sent a page of a list that continues.
    pub(super) fn record_contact(&self, partition: Partition) {
        let now = self.clock.now();
        self.change(|state| state.partitions[partition.index()].last_contact = now);
    }

    /// Returns the number of lists and watches of the served resource that have failed.
    pub(super) fn failures(&self) -> u64 {
        self.read(|state| state.failures)
    }

    /// Records that a list or watch of the served resource has failed.
    pub(super) fn record_failure(&self) {
        self.change(|state| state.failures += 1);
        self.changes.send_replace(());
    }

    pub(super) fn set_unserved(&self, partition: Partition) {
        self.change(|state| state.partitions[partition.index()].unserved = true);
    }

    /// Returns the representation that all stores can decode.
    pub(super) fn view(&self) -> View {
        self.read(State::view)
    }

    /// Starts a list for the stores that exist now.
    pub(super) fn start_list(&self, partition: Partition) -> ListStart {
        let at = self.clock.now();
        self.change(|state| {
            let progress = &mut state.partitions[partition.index()];
            progress.lists_started += 1;
            let stores: Vec<_> = state.stores.iter().map(|it| Arc::clone(&it.store)).collect();
            ListStart {
                number: progress.lists_started,
                at,
                view: state.view(),
                page: stores.iter().map(|store| store.page()).min().unwrap_or_default(),
                stores,
            }
        })
    }

    /// Replaces the content of a partition by a list.
    pub(super) fn apply_list(&self, partition: Partition, start: &ListStart, list: List) {
        self.apply(partition, |state| {
            let is_cached = |store: &Arc<dyn AnyStore>| {
                let mut stores = state.stores.iter();
                // A store may have been dropped since the list started.
                stores.any(|it| ptr::addr_eq(Arc::as_ptr(&it.store), Arc::as_ptr(store)))
            };
            for (store, list) in list.stores {
                if is_cached(&store) {
                    list.commit();
                }
            }
            state.epoch += u64::from(list.restored);
            let progress = &mut state.partitions[partition.index()];
            progress.applied = Some((start.number, start.at));
            progress.unidentified = list.unidentified;
            progress.unserved = false;
            // After a failure, the next watch sets the status.
            if progress.status == Status::Syncing {
                progress.status = Status::Synced;
            }
        });
        if list.unidentified > 0 {
            let (resource, unidentified) = (&self.resource, list.unidentified);
            tracing::warn!(%resource, unidentified, "Failed to decode objects");
        }
    }

    /// Applies an ADDED or MODIFIED event. An event that is older than the stores is ignored.
    pub(super) fn put(&self, partition: Partition, item: &RawItem<'_>) -> Result<(), Unidentified> {
        self.event(partition, item, |store| store.put(partition, item))
    }

    /// Applies a DELETED event.
    pub(super) fn remove(&self, partition: Partition, item: &RawItem<'_>) -> Result<(), Unidentified> {
        self.event(partition, item, |store| store.remove(partition, item))
    }

    /// Applies a BOOKMARK event.
    pub(super) fn bookmark(&self, partition: Partition, version: &Version) {
        self.apply(partition, |state| {
            state.each(partition, |store| store.bookmark(partition, version));
        });
    }

    fn event(
        &self,
        partition: Partition,
        item: &RawItem<'_>,
        apply: impl FnMut(&dyn AnyStore),
    ) -> Result<(), Unidentified> {
        self.apply(partition, |state| {
            item.identity.as_ref().ok_or(Unidentified)?;
            state.each(partition, apply);
            Ok(())
        })
    }

    /// Applies a list or event, and notifies of it.
    fn apply<R>(&self, partition: Partition, with: impl FnOnce(&mut State) -> R) -> R {
        let now = self.clock.now();
        let result = self.change(|state| {
            let result = with(state);
            let progress = &mut state.partitions[partition.index()];
            (progress.last_update, progress.last_contact) = (now, now);
            result
        });
        self.changes.send_replace(());
        result
    }

    fn read<R>(&self, with: impl FnOnce(&State) -> R) -> R {
        with(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<R>(&self, with: impl FnOnce(&mut State) -> R) -> R {
        with(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}
