//! The store of one cache under a lock, with its subscribers. No code awaits while it holds the lock.
//!
//! Deltas are published under the lock: every subscriber receives them in the order of the changes, and a new one receives
//! the current state and all later changes, without a gap or a repetition.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::metrics::{CacheStats, Counters};
use super::pending_writes::CachePosition;
use super::status::Status;
use super::store::{Lookup, Partition, Rejected, Store};
use super::subscription::{Publisher, channel};
use super::wire::Item;
use super::{Delta, Subscription};
use crate::env::Clock;
use crate::object::{Key, MetaObject, Object, Resource, Text, Uid, Version};

/// The maximum number of undecodable objects that are logged after a list.
const LOGGED_MAX: usize = 10;

/// The store of one cache.
#[derive(Debug)]
pub(super) struct SharedStore<T> {
    pub(super) resource: Resource,
    pub(super) counters: Counters,
    /// Whether the scope includes all objects of the resource.
    pub(super) includes_all: bool,
    /// By partition; an empty one is the whole cluster.
    namespaces: Vec<String>,
    /// By partition.
    relist_requests: Vec<watch::Sender<()>>,
    clock: Clock,
    state: RwLock<State<T>>,
    /// Notifies of each change of the state.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct State<T> {
    store: Store<T>,
    partitions: Vec<Progress>,
    subscribers: Vec<Subscriber<T>>,
}

/// The progress of the reflector of a partition.
#[derive(Debug)]
struct Progress {
    status: Status,
    /// The API server did not serve the resource at the last request: cached objects may be deleted.
    unserved: bool,
    /// The time of the last event, bookmark or list, or of the start.
    last_update: Instant,
    /// The time of the last update or opened watch, or of the start.
    last_contact: Instant,
    /// The number of lists that were started.
    lists_started: u64,
    /// The last list that was applied to the store.
    applied: Option<ListStart>,
    /// The number of unidentified items in that list.
    unidentified: usize,
}

/// The start of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListStart {
    /// Counts the lists of the partition from 1.
    number: u64,
    at: Instant,
}

/// The object of an event is not known, so a relist is required.
#[derive(Debug)]
pub(super) struct Unidentified;

/// A subscriber of whole objects or of metadata.
#[derive(Debug)]
enum Subscriber<T> {
    Whole(Publisher<T>),
    Metadata(Publisher<MetaObject>),
}

/// A cache of any object type.
pub(super) trait AnyCache: Send + Sync {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn resource(&self) -> &Resource;
    fn includes_all(&self) -> bool;
    fn is_synced(&self) -> bool;
    fn status_of_all(&self) -> Status;
    fn silence(&self) -> Option<Duration>;
    fn version(&self) -> Version;
    fn position(&self) -> CachePosition;
    fn identity(&self, key: &Key) -> Option<(Uid, Version)>;
    fn relist(&self);
    fn relist_partition(&self, partition: usize);
    fn changes(&self) -> watch::Receiver<()>;
    fn namespaces(&self) -> &[String];
    fn lists_started(&self, partition: usize) -> u64;
    /// Returns true if a partition has reached a version, or if a list after the first `lists` ones was applied.
    fn has_caught_up(&self, partition: usize, version: &Version, lists: u64) -> bool;
    fn status(&self, partition: usize) -> Status;
    fn stats(&self) -> CacheStats;
    fn get_meta(&self, key: &Key) -> Lookup<MetaObject>;
    fn all_meta(&self) -> Vec<Arc<MetaObject>>;
    fn subscribe_meta(&self) -> Subscription<MetaObject>;
}

impl<T: Object> SharedStore<T> {
    pub(super) fn new(
        resource: &Resource,
        namespaces: Vec<String>,
        includes_all: bool,
        labels: impl IntoIterator<Item = Text>,
        clock: &Clock,
        counters: Counters,
    ) -> Self {
        let partitions = namespaces.iter().map(|_| Progress {
            status: Status::Syncing,
            unserved: false,
            last_update: clock.now(),
            last_contact: clock.now(),
            lists_started: 0,
            applied: None,
            unidentified: 0,
        });
        let state = State {
            store: Store::new(namespaces.len(), labels),
            partitions: partitions.collect(),
            subscribers: Vec::new(),
        };
        Self {
            resource: resource.clone(),
            counters,
            includes_all,
            relist_requests: namespaces.iter().map(|_| watch::Sender::new(())).collect(),
            namespaces,
            clock: clock.clone(),
            state: RwLock::new(state),
            changes: watch::Sender::new(()),
        }
    }

    /// Adds an index for each of these labels, unless it exists.
    pub(super) fn index(&self, labels: &[&str]) {
        let missing = |label: &&&str| !self.read(|store| store.has_index(label));
        let missing: Vec<&str> = labels.iter().filter(missing).copied().collect();
        for label in missing {
            self.change(|state| state.store.index(Text::from(label)));
        }
    }

    pub(super) fn read<R>(&self, with: impl FnOnce(&Store<T>) -> R) -> R {
        self.read_state(|state| with(&state.store))
    }

    pub(super) fn subscribe(&self) -> Subscription<T> {
        let (publisher, subscription) = channel();
        self.add_subscriber(Subscriber::Whole(publisher));
        subscription
    }

    fn add_subscriber(&self, subscriber: Subscriber<T>) {
        self.change(|state| {
            for object in state.store.iter() {
                let new = Arc::clone(object);
                subscriber.publish(&Delta::Added { new, initial: true });
            }
            state.subscribers.push(subscriber);
        });
    }

    pub(super) fn namespace(&self, partition: usize) -> &str {
        &self.namespaces[partition]
    }

    /// Notifies of requests to relist a partition.
    pub(super) fn relist_requests(&self, partition: usize) -> watch::Receiver<()> {
        self.relist_requests[partition].subscribe()
    }

    /// Returns the version that a partition has reached.
    pub(super) fn reached(&self, partition: usize) -> Version {
        self.read(|store| store.reached(Partition(partition)).clone())
    }

    pub(super) fn set_status(&self, partition: usize, status: Status) {
        self.change(|state| state.partitions[partition].status = status);
        self.changes.send_replace(());
    }

    /// Records that the API server has accepted a watch.
    pub(super) fn set_watching(&self, partition: usize) {
        let now = self.clock.now();
        self.change(|state| {
            let progress = &mut state.partitions[partition];
            progress.status = Status::Synced;
            progress.last_contact = now;
        });
        self.changes.send_replace(());
    }

    pub(super) fn set_unserved(&self, partition: usize) {
        self.change(|state| state.partitions[partition].unserved = true);
    }

    pub(super) fn is_unserved(&self) -> bool {
        self.read_state(|state| state.partitions.iter().any(|partition| partition.unserved))
    }

    pub(super) fn begin_list(&self, partition: usize) -> ListStart {
        let at = self.clock.now();
        self.change(|state| {
            let progress = &mut state.partitions[partition];
            progress.lists_started += 1;
            let number = progress.lists_started;
            ListStart { number, at }
        })
    }

    /// Replaces the content of a partition by a list. `restored` if earlier versions are not comparable.
    pub(super) fn replace(
        &self,
        partition: usize,
        items: Vec<Item<T>>,
        version: Version,
        start: ListStart,
        restored: bool,
    ) {
        let unidentified = items
            .iter()
            .filter(|item| matches!(item, Item::Unidentified))
            .count();
        let undecodable = self.apply(partition, |state| {
            let deltas = if restored {
                state.store.reset(Partition(partition), items, version)
            } else {
                // The reflector, the only writer of this partition, has compared the versions.
                state
                    .store
                    .replace(Partition(partition), items, version)
                    .unwrap_or_default()
            };
            let progress = &mut state.partitions[partition];
            progress.applied = Some(start);
            progress.unidentified = unidentified;
            progress.unserved = false;
            // After a failure, the next watch sets the status.
            if progress.status == Status::Syncing {
                progress.status = Status::Synced;
            }
            let keys = state.store.undecodable().take(LOGGED_MAX);
            let keys: Vec<Key> = keys.cloned().collect();
            (deltas, (keys, state.store.undecodable_len()))
        });
        let (keys, count) = undecodable;
        if count + unidentified > 0 {
            for key in &keys {
                self.log_undecodable(key);
            }
            tracing::warn!(
                resource = %self.resource,
                undecodable = count,
                unidentified,
                "Failed to decode objects"
            );
        }
    }

    /// Applies an ADDED or MODIFIED event. An event that is older than the cache is ignored.
    pub(super) fn put(&self, partition: usize, item: Item<T>) -> Result<(), Unidentified> {
        if let Item::Undecodable(identity) = &item
            && !matches!(self.read(|store| store.get(&identity.key)), Lookup::Undecodable)
        {
            self.log_undecodable(&identity.key);
        }
        self.event(partition, |store| store.put(Partition(partition), item))
    }

    fn log_undecodable(&self, key: &Key) {
        tracing::warn!(object = %self.resource.logged(key), "Failed to decode object");
    }

    /// Applies a DELETED event.
    pub(super) fn remove(&self, partition: usize, item: Item<T>) -> Result<(), Unidentified> {
        self.event(partition, |store| store.remove(Partition(partition), item))
    }

    /// Applies a BOOKMARK event.
    pub(super) fn bookmark(&self, partition: usize, version: Version) -> Result<(), Unidentified> {
        self.event(partition, |store| {
            store.bookmark(Partition(partition), version)?;
            Ok(Vec::new())
        })
    }

    fn event(
        &self,
        partition: usize,
        with: impl FnOnce(&mut Store<T>) -> Result<Vec<Delta<T>>, Rejected>,
    ) -> Result<(), Unidentified> {
        self.apply(partition, |state| match with(&mut state.store) {
            Ok(deltas) => (deltas, Ok(())),
            // A repeated event, or one of a server that lags.
            Err(Rejected::Stale(_)) => (Vec::new(), Ok(())),
            Err(Rejected::Unidentified) => (Vec::new(), Err(Unidentified)),
        })
    }

    /// Changes the store, and publishes the deltas.
    fn apply<R>(&self, partition: usize, with: impl FnOnce(&mut State<T>) -> (Vec<Delta<T>>, R)) -> R {
        let now = self.clock.now();
        let result = self.change(|state| {
            let (deltas, result) = with(state);
            let progress = &mut state.partitions[partition];
            (progress.last_update, progress.last_contact) = (now, now);
            for delta in &deltas {
                state.subscribers.retain(|subscriber| subscriber.publish(delta));
            }
            result
        });
        self.changes.send_replace(());
        result
    }

    fn read_state<R>(&self, with: impl FnOnce(&State<T>) -> R) -> R {
        with(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<R>(&self, with: impl FnOnce(&mut State<T>) -> R) -> R {
        with(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Object> AnyCache for SharedStore<T> {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn includes_all(&self) -> bool {
        self.includes_all
    }

    fn is_synced(&self) -> bool {
        self.read(Store::is_synced)
    }

    fn status_of_all(&self) -> Status {
        self.read_state(|state| {
            let statuses = state.partitions.iter().map(|partition| partition.status.clone());
            statuses.reduce(Status::worse).unwrap_or(Status::Synced)
        })
    }

    fn silence(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.read_state(|state| {
            let served = state.partitions.iter().filter(|partition| !partition.unserved);
            let silences = served.map(|partition| now.saturating_duration_since(partition.last_contact));
            silences.max()
        })
    }

    fn version(&self) -> Version {
        self.read(Store::version)
    }

    fn position(&self) -> CachePosition {
        self.read_state(|state| CachePosition {
            version: state.store.version(),
            epoch: state.store.epoch(),
            // None if one of the partitions has none.
            list_started_at: state
                .partitions
                .iter()
                .map(|partition| partition.applied.map(|start| start.at))
                .min()
                .flatten(),
        })
    }

    fn identity(&self, key: &Key) -> Option<(Uid, Version)> {
        self.read(|store| {
            let (uid, version) = store.identity(key)?;
            Some((uid.clone(), version.clone()))
        })
    }

    fn relist(&self) {
        for request in &self.relist_requests {
            request.send_replace(());
        }
    }

    fn relist_partition(&self, partition: usize) {
        self.relist_requests[partition].send_replace(());
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    fn lists_started(&self, partition: usize) -> u64 {
        self.read_state(|state| state.partitions[partition].lists_started)
    }

    fn has_caught_up(&self, partition: usize, version: &Version, lists: u64) -> bool {
        self.read_state(|state| {
            state.store.reached(Partition(partition)).has_reached(version)
                || state.partitions[partition]
                    .applied
                    .is_some_and(|list| list.number > lists)
        })
    }

    fn status(&self, partition: usize) -> Status {
        self.read_state(|state| state.partitions[partition].status.clone())
    }

    fn stats(&self) -> CacheStats {
        let now = self.clock.now();
        self.read_state(|state| CacheStats {
            objects: state.store.len(),
            bytes: state.store.bytes(),
            undecodable: state.store.undecodable_len()
                + state
                    .partitions
                    .iter()
                    .map(|partition| partition.unidentified)
                    .sum::<usize>(),
            age: state
                .partitions
                .iter()
                .map(|partition| now.saturating_duration_since(partition.last_update))
                .max()
                .unwrap_or_default(),
            version: state.store.version().gauge(),
            queued: state.subscribers.iter().map(Subscriber::len).max().unwrap_or(0),
        })
    }

    fn get_meta(&self, key: &Key) -> Lookup<MetaObject> {
        match self.read(|store| store.get(key)) {
            Lookup::Absent => Lookup::Absent,
            Lookup::Undecodable => Lookup::Undecodable,
            Lookup::Present(object) => Lookup::Present(metadata(&object)),
        }
    }

    fn all_meta(&self) -> Vec<Arc<MetaObject>> {
        self.read(|store| store.iter().map(metadata).collect())
    }

    fn subscribe_meta(&self) -> Subscription<MetaObject> {
        let (publisher, subscription) = channel();
        self.add_subscriber(Subscriber::Metadata(publisher));
        subscription
    }
}

impl<T: Object> Subscriber<T> {
    /// Returns false if the subscription has ended.
    fn publish(&self, delta: &Delta<T>) -> bool {
        match self {
            Self::Whole(publisher) => publisher.publish(delta.clone()),
            Self::Metadata(publisher) => publisher.publish(match delta {
                Delta::Added { new, initial } => Delta::Added {
                    new: metadata(new),
                    initial: *initial,
                },
                Delta::Updated { old, new } => Delta::Updated {
                    old: metadata(old),
                    new: metadata(new),
                },
                Delta::Deleted { last } => Delta::Deleted { last: metadata(last) },
            }),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Whole(publisher) => publisher.len(),
            Self::Metadata(publisher) => publisher.len(),
        }
    }
}

/// Returns the metadata of an object: the object itself, if it is a `MetaObject`.
fn metadata<T: Object>(object: &Arc<T>) -> Arc<MetaObject> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(object) as _;
    any.downcast().unwrap_or_else(|_| {
        Arc::new(MetaObject {
            metadata: object.meta().clone(),
        })
    })
}
