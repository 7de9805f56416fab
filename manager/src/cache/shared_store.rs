//! The store of one projection under a lock, with its subscribers. No code awaits while it holds the lock.
//!
//! Deltas are published under the lock: every subscriber receives them in the order of the changes, and a new one receives
//! the current state and all later changes, without a gap or a repetition.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use super::index::IndexFunction;
use super::metrics::CacheStats;
use super::store::{Lookup, Partition, Rejected, StagedList, Stale, Store};
use super::subscription::{Publisher, Shared, Snapshot, channel_over};
use super::wire::{Item, RawItem};
use super::{Delta, Subscription};
use crate::object::{Key, MetaObject, Object, Resource, Uid, Version};

/// The maximum number of undecodable objects that are logged after a list.
const LOGGED_MAX: usize = 10;

/// The store of one resource in one projection.
#[derive(Debug)]
pub(super) struct SharedStore<T> {
    resource: Resource,
    state: RwLock<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    store: Store<T>,
    subscribers: Vec<Subscriber<T>>,
}

/// A subscriber of whole objects or of metadata.
#[derive(Debug)]
enum Subscriber<T> {
    Whole(Publisher<T>),
    Metadata(Publisher<MetaObject>),
}

/// The objects of a store in the form that a subscriber receives.
struct View<T, U> {
    store: Weak<SharedStore<T>>,
    view: fn(&Arc<T>) -> Arc<U>,
}

/// A store in any projection.
pub(super) trait AnyStore: Send + Sync {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// Returns the number of objects per page of a list.
    fn page(&self) -> u32;
    /// Returns true once every partition was listed.
    fn is_synced(&self) -> bool;
    fn is_listed(&self, partition: Partition) -> bool;
    fn version(&self) -> Version;
    /// Returns the version that a partition has reached.
    fn reached(&self, partition: Partition) -> Version;
    fn identity(&self, key: &Key) -> Option<(Uid, Version)>;
    /// Returns the statistics of the store, without an age.
    fn stats(&self) -> CacheStats;
    fn get_meta(&self, key: &Key) -> Lookup<MetaObject>;
    fn all_meta(&self) -> Vec<Arc<MetaObject>>;
    fn subscribe_meta(self: Arc<Self>) -> Subscription<MetaObject>;
    /// Begins a list with this version. `restored` if earlier versions are not comparable.
    fn begin_list(
        self: Arc<Self>,
        partition: Partition,
        version: Version,
        restored: bool,
    ) -> Result<Box<dyn AnyList>, Stale>;
    /// Applies an ADDED or MODIFIED event. An event that is older than the store is ignored.
    fn put(&self, partition: Partition, item: &RawItem<'_>);
    /// Applies a DELETED event.
    fn remove(&self, partition: Partition, item: &RawItem<'_>);
    /// Applies a BOOKMARK event.
    fn bookmark(&self, partition: Partition, version: &Version);
}

/// A list in progress of a store in any projection.
pub(super) trait AnyList: Send {
    /// Adds an item of the page in progress.
    fn add(&mut self, item: &RawItem<'_>);
    /// Completes a page.
    fn end_page(&mut self);
    /// Removes the items of the page in progress.
    fn drop_page(&mut self);
    /// Replaces the content of the partition.
    fn commit(self: Box<Self>);
}

struct StoreList<T> {
    shared: Arc<SharedStore<T>>,
    list: StagedList<T>,
}

impl<T: Object> SharedStore<T> {
    pub(super) fn new(resource: &Resource, partitions: usize) -> Self {
        let state = State {
            store: Store::new(partitions),
            subscribers: Vec::new(),
        };
        Self {
            resource: resource.clone(),
            state: RwLock::new(state),
        }
    }

    /// Adds an index by a function. Returns its id.
    pub(super) fn add_index(&self, values: IndexFunction<T>) -> u64 {
        self.change(|state| state.store.add_index(values))
    }

    pub(super) fn remove_index(&self, id: u64) {
        self.change(|state| state.store.remove_index(id));
    }

    pub(super) fn read<R>(&self, with: impl FnOnce(&Store<T>) -> R) -> R {
        self.read_state(|state| with(&state.store))
    }

    pub(super) fn subscribe(self: &Arc<Self>) -> Subscription<T> {
        self.subscribe_as(Arc::clone, Subscriber::Whole)
    }

    fn subscribe_as<U: Object>(
        self: &Arc<Self>,
        view: fn(&Arc<T>) -> Arc<U>,
        subscriber: fn(Publisher<U>) -> Subscriber<T>,
    ) -> Subscription<U> {
        let store = Arc::downgrade(self);
        let (publisher, subscription) = channel_over(Box::new(View { store, view }));
        self.change(|state| {
            for partition in state.store.listed() {
                publisher.scan(partition);
            }
            // Without changes, nothing else removes those that have ended.
            state.subscribers.retain(Subscriber::is_open);
            state.subscribers.push(subscriber(publisher));
        });
        subscription
    }

    fn log_undecodable(&self, key: &Key) {
        tracing::warn!(object = %self.resource.logged(key), "Failed to decode object");
    }

    fn event(
        &self,
        partition: Partition,
        with: impl FnOnce(&mut Store<T>) -> Result<Vec<Delta<T>>, Rejected>,
    ) {
        self.change(|state| {
            // Rejected is a repeated event, or one of a server that lags. The informer relists after an unidentified one.
            let deltas = with(&mut state.store).unwrap_or_default();
            state.publish(partition, &deltas);
        });
    }

    fn read_state<R>(&self, with: impl FnOnce(&State<T>) -> R) -> R {
        with(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<R>(&self, with: impl FnOnce(&mut State<T>) -> R) -> R {
        with(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Object> AnyStore for SharedStore<T> {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn page(&self) -> u32 {
        T::PAGE
    }

    fn is_synced(&self) -> bool {
        self.read(Store::is_synced)
    }

    fn is_listed(&self, partition: Partition) -> bool {
        self.read(|store| store.is_listed(partition))
    }

    fn version(&self) -> Version {
        self.read(Store::version)
    }

    fn reached(&self, partition: Partition) -> Version {
        self.read(|store| store.reached(partition).clone())
    }

    fn identity(&self, key: &Key) -> Option<(Uid, Version)> {
        self.read(|store| {
            let (uid, version) = store.identity(key)?;
            Some((uid.clone(), version.clone()))
        })
    }

    fn stats(&self) -> CacheStats {
        self.read_state(|state| CacheStats {
            objects: state.store.len(),
            bytes: state.store.bytes(),
            undecodable: state.store.undecodable_len(),
            age: Duration::ZERO,
            version: state.store.version().gauge(),
            queued: { state.subscribers.iter() }
                .map(|it| it.len(&state.store))
                .max()
                .unwrap_or(0),
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

    fn subscribe_meta(self: Arc<Self>) -> Subscription<MetaObject> {
        self.subscribe_as(metadata, Subscriber::Metadata)
    }

    fn begin_list(
        self: Arc<Self>,
        partition: Partition,
        version: Version,
        restored: bool,
    ) -> Result<Box<dyn AnyList>, Stale> {
        let list = self.change(|state| state.store.begin_list(partition, version, restored))?;
        Ok(Box::new(StoreList { shared: self, list }))
    }

    fn put(&self, partition: Partition, item: &RawItem<'_>) {
        let item = item.decode();
        if let Item::Undecodable(identity) = &item
            && !matches!(self.read(|store| store.get(&identity.key)), Lookup::Undecodable)
        {
            self.log_undecodable(&identity.key);
        }
        self.event(partition, |store| store.put(partition, item));
    }

    fn remove(&self, partition: Partition, item: &RawItem<'_>) {
        let item = item.decode();
        self.event(partition, |store| store.remove(partition, item));
    }

    fn bookmark(&self, partition: Partition, version: &Version) {
        self.event(partition, |store| {
            store.bookmark(partition, version.clone())?;
            Ok(Vec::new())
        });
    }
}

impl<T: Object> AnyList for StoreList<T> {
    fn add(&mut self, item: &RawItem<'_>) {
        let Self { shared, list } = self;
        if let Some(identity) = &item.identity
            && shared.change(|state| state.store.is_unchanged(list, identity))
        {
            return;
        }
        // Decoding takes longest, and needs no lock.
        let item = item.decode();
        shared.change(|state| state.store.stage(list, item));
    }

    fn end_page(&mut self) {
        self.list.end_page();
    }

    fn drop_page(&mut self) {
        self.list.drop_page();
    }

    fn commit(self: Box<Self>) {
        let Self { shared, list } = *self;
        let partition = list.partition();
        shared.change(|state| match state.store.commit(list) {
            Some(deltas) => state.publish(partition, &deltas),
            None => state.subscribers.iter().for_each(|it| it.scan(partition)),
        });
        let (keys, undecodable) = shared.read(|store| {
            let keys: Vec<Key> = store.undecodable().take(LOGGED_MAX).collect();
            (keys, store.undecodable_len())
        });
        for key in &keys {
            shared.log_undecodable(key);
        }
        if undecodable > 0 {
            tracing::warn!(resource = %shared.resource, undecodable, "Failed to decode objects");
        }
    }
}

impl<T: Object> State<T> {
    fn publish(&mut self, partition: Partition, deltas: &[Delta<T>]) {
        for delta in deltas {
            self.subscribers
                .retain(|subscriber| subscriber.publish(partition, delta));
        }
    }
}

impl<T: Object, U: Object> Snapshot<U> for View<T, U> {
    fn next(&self, shared: &Shared<U>) -> Option<Arc<U>> {
        let store = self.store.upgrade()?;
        store
            .read(|store| shared.next(|partition, after| store.after(partition, after).next().map(self.view)))
    }

    fn remaining(&self, shared: &Shared<U>) -> usize {
        let store = self.store.upgrade();
        store.map_or(0, |store| {
            store.read(|store| shared.remaining(|partition, after| keys(store, partition, after)))
        })
    }
}

/// Returns the keys of the objects of a partition after a key.
fn keys<T: Object>(store: &Store<T>, partition: Partition, after: Option<&Key>) -> Vec<Key> {
    let objects = store.after(partition, after);
    objects.map(|object| object.meta().key()).collect()
}

impl<T: Object> Subscriber<T> {
    /// Adds the initial state of a partition.
    fn scan(&self, partition: Partition) {
        match self {
            Self::Whole(publisher) => publisher.scan(partition),
            Self::Metadata(publisher) => publisher.scan(partition),
        }
    }

    /// Returns false if the subscription has ended.
    fn is_open(&self) -> bool {
        match self {
            Self::Whole(publisher) => publisher.is_open(),
            Self::Metadata(publisher) => publisher.is_open(),
        }
    }

    /// Returns false if the subscription has ended.
    fn publish(&self, partition: Partition, delta: &Delta<T>) -> bool {
        match self {
            Self::Whole(publisher) => publisher.publish_in(partition, delta.clone()),
            Self::Metadata(publisher) => publisher.publish_in(
                partition,
                match delta {
                    Delta::Added { new, initial } => Delta::Added {
                        new: metadata(new),
                        initial: *initial,
                    },
                    Delta::Updated { old, new } => Delta::Updated {
                        old: metadata(old),
                        new: metadata(new),
                    },
                    Delta::Deleted { last } => Delta::Deleted { last: metadata(last) },
                },
            ),
        }
    }

    fn len(&self, store: &Store<T>) -> usize {
        let keys = |partition: Partition, after: Option<&Key>| keys(store, partition, after);
        match self {
            Self::Whole(publisher) => publisher.len(keys),
            Self::Metadata(publisher) => publisher.len(keys),
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
