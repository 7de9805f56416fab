//! The store of one projection under a lock, with its subscribers. No code awaits while it holds the lock.
//!
//! Deltas are published under the lock: every subscriber receives them in the order of the changes, and a new one receives
//! the current state and all later changes, without a gap or a repetition.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::metrics::CacheStats;
use super::store::{Lookup, Partition, Rejected, StagedList, Stale, Store};
use super::subscription::{Publisher, channel};
use super::wire::{Item, RawItem};
use super::{Delta, Subscription};
use crate::object::{Key, MetaObject, Object, Resource, Text, Uid, Version};

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
    fn subscribe_meta(&self) -> Subscription<MetaObject>;
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
    /// Adds the items of a page.
    fn add(&mut self, items: &[RawItem<'_>]);
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
    pub(super) fn add_index(&self, values: Box<dyn Fn(&T) -> Vec<Text> + Send + Sync>) -> u64 {
        self.change(|state| state.store.add_index(values))
    }

    pub(super) fn remove_index(&self, id: u64) {
        self.change(|state| state.store.remove_index(id));
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

    fn log_undecodable(&self, key: &Key) {
        tracing::warn!(object = %self.resource.logged(key), "Failed to decode object");
    }

    fn event(&self, with: impl FnOnce(&mut Store<T>) -> Result<Vec<Delta<T>>, Rejected>) {
        // Rejected is a repeated event, or one of a server that lags. The informer relists after an unidentified one.
        self.apply(|store| with(store).unwrap_or_default());
    }

    /// Changes the store, and publishes the deltas.
    fn apply(&self, with: impl FnOnce(&mut Store<T>) -> Vec<Delta<T>>) {
        self.change(|state| {
            for delta in with(&mut state.store) {
                state.subscribers.retain(|subscriber| subscriber.publish(&delta));
            }
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
        self.event(|store| store.put(partition, item));
    }

    fn remove(&self, partition: Partition, item: &RawItem<'_>) {
        let item = item.decode();
        self.event(|store| store.remove(partition, item));
    }

    fn bookmark(&self, partition: Partition, version: &Version) {
        self.event(|store| {
            store.bookmark(partition, version.clone())?;
            Ok(Vec::new())
        });
    }
}

impl<T: Object> AnyList for StoreList<T> {
    fn add(&mut self, items: &[RawItem<'_>]) {
        let Self { shared, list } = self;
        let changed: Vec<&RawItem<'_>> = shared.change(|state| {
            let is_changed = |item: &&RawItem<'_>| match &item.identity {
                Some(identity) => !state.store.is_unchanged(list, identity),
                None => true,
            };
            items.iter().filter(is_changed).collect()
        });
        // Decoding takes longest, and needs no lock.
        let changed: Vec<Item<T>> = changed.into_iter().map(RawItem::decode).collect();
        shared.change(|state| {
            for item in changed {
                state.store.stage(list, item);
            }
        });
    }

    fn commit(self: Box<Self>) {
        let Self { shared, list } = *self;
        shared.apply(|store| store.commit(list));
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
