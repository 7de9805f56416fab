//! The objects of a cache, and the deltas that each list and event makes.
//!
//! A plain value: no lock, no clock, no I/O. Its methods return the deltas to publish; applied in order, they result in the
//! content of [`Store::iter`]. Events of a partition follow its first list, which makes no deltas: all its objects are new.
//!
//! An event or list that is older than the store is rejected, except after a restore. A list that is not older replaces the
//! content, whatever the versions of its objects: lists are consistent reads, so an object with an older version than
//! the cached one means that the storage was restored and its revision raised. Only a delete event, or a complete list with
//! a resourceVersion, deletes an object.

mod entry;
mod list;
#[cfg(test)]
mod tests;

pub(super) use list::StagedList;

use std::cmp::Ordering;
use std::sync::Arc;

use entry::{Entries, Entry, Readable, State, Undecodable};

use super::Delta;
use super::index::{IndexFunction, Indexes};
use super::wire::{Identity, Item};
use crate::object::{Interner, Key, Object, Uid, Version};
use crate::revived;

/// The part of a store that one reflector writes: a namespace, or the whole cluster. Partitions have no key in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition(pub(super) u32);

impl Partition {
    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A list or event that is older than the store was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion {offered} is older than {reached} of the cache")]
pub(super) struct Stale {
    pub(super) reached: Version,
    pub(super) offered: Version,
}

/// The reason why an event was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejected {
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The object of the event is not known, so a relist is required.
    #[error("watch event has no readable name or uid")]
    Unidentified,
}

/// The result of a lookup in a cache.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// The object is not in the cache: it does not exist, or is not cached yet.
    Absent,
    /// The object exists but could not be decoded.
    Undecodable,
    #[expect(missing_docs, reason = "plain data")]
    Present(Arc<T>),
}

impl<T> Lookup<T> {
    /// Returns the object, if it is in the cache and could be decoded.
    #[must_use]
    pub fn present(self) -> Option<Arc<T>> {
        match self {
            Self::Present(object) => Some(object),
            Self::Absent | Self::Undecodable => None,
        }
    }
}

/// The cached objects of one resource.
#[derive(Debug)]
pub(super) struct Store<T> {
    entries: Entries<T>,
    partitions: Vec<PartitionState>,
    indexes: Indexes<T>,
    interner: Interner,
    bytes: usize,
    /// The number of entries with a decoded state.
    decoded: usize,
    /// The number of entries whose latest state could not be decoded.
    undecodable: usize,
    /// The number of the last list that began.
    lists: u32,
}

/// The state of a partition.
#[derive(Debug, Default)]
struct PartitionState {
    version: Version,
    synced: bool,
}

/// Whether an older state of an object is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Forward,
    Any,
}

/// The change of one key: another object was deleted, then the current one changed.
struct Change<T> {
    deleted: Option<Arc<T>>,
    changed: Option<Delta<T>>,
}

impl<T: Object> Store<T> {
    /// Returns an empty store with this number of partitions.
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            entries: Entries::new(),
            partitions: (0..partitions).map(|_| PartitionState::default()).collect(),
            indexes: Indexes::new(),
            interner: Interner::default(),
            bytes: 0,
            decoded: 0,
            undecodable: 0,
            lists: 0,
        }
    }

    /// Adds an index by a function. Returns its id.
    pub(super) fn add_index(&mut self, values: IndexFunction<T>) -> u64 {
        let objects = self.entries.iter();
        let objects = objects.filter_map(|(.., entry)| entry.state.last());
        self.indexes.add(values, objects)
    }

    pub(super) fn remove_index(&mut self, id: u64) {
        self.indexes.remove(id);
    }

    /// Applies an ADDED or MODIFIED event.
    pub(super) fn put(&mut self, partition: Partition, item: Item<T>) -> Result<Vec<Delta<T>>, Rejected> {
        let item = self.admit(item).ok_or(Rejected::Unidentified)?;
        let identity = item.identity();
        reject_older(&self.partition(partition).version, &identity.version)?;
        if let Some(entry) = self.entry(&identity.key) {
            reject_older(entry.state.version(), &identity.version)?;
        }
        self.partitions[partition.index()].advance(identity.version);
        let change = self.apply(partition, item, Order::Forward);
        Ok(change.into_iter().collect())
    }

    /// Applies a DELETED event: the item is the last state, with the resourceVersion of the deletion.
    pub(super) fn remove(&mut self, partition: Partition, item: Item<T>) -> Result<Vec<Delta<T>>, Rejected> {
        let item = self.admit(item).ok_or(Rejected::Unidentified)?;
        let identity = item.identity();
        reject_older(&self.partition(partition).version, &identity.version)?;
        if let Some(entry) = self.entry(&identity.key) {
            reject_older(entry.state.version(), &identity.version)?;
        }
        self.partitions[partition.index()].advance(identity.version);
        let old = self
            .swap(&identity.key, None)
            .and_then(|entry| entry.state.into_last());
        let last = match item {
            Readable::Decoded(object) => Some(object),
            Readable::Undecodable(_) => None,
        };
        // An earlier object of that name is deleted, too.
        let old = old.filter(|old| last.as_ref().is_none_or(|last| last.meta().uid != old.meta().uid));
        Ok([old, last]
            .into_iter()
            .flatten()
            .map(|last| Delta::Deleted { last })
            .collect())
    }

    /// Applies a BOOKMARK event.
    pub(super) fn bookmark(&mut self, partition: Partition, version: Version) -> Result<(), Stale> {
        let partition = &mut self.partitions[partition.index()];
        reject_older(&partition.version, &version)?;
        partition.advance(version);
        Ok(())
    }

    /// Returns the version that a partition has reached, where its watch continues.
    pub(super) fn reached(&self, partition: Partition) -> &Version {
        &self.partition(partition).version
    }

    /// Returns true once a partition was listed.
    pub(super) fn is_listed(&self, partition: Partition) -> bool {
        self.partition(partition).synced
    }

    /// Returns the version that all partitions have reached; none before all are synced, or if they are not comparable.
    pub(super) fn version(&self) -> Version {
        let mut partitions = self.partitions.iter();
        let Some(first) = partitions.next().filter(|_| self.is_synced()) else {
            return Version::none();
        };
        let least = partitions.try_fold(&first.version, |least, partition| {
            match partition.version.partial_cmp(least) {
                Some(Ordering::Less) => Some(&partition.version),
                Some(_) => Some(least),
                None => (partition.version == *least).then_some(least),
            }
        });
        least.cloned().unwrap_or_default()
    }

    /// Returns true once every partition was listed.
    pub(super) fn is_synced(&self) -> bool {
        self.partitions.iter().all(|partition| partition.synced)
    }

    pub(super) fn get(&self, key: &Key) -> Lookup<T> {
        match self.entry(key).map(|entry| &entry.state) {
            None => Lookup::Absent,
            Some(State::Undecodable(_)) => Lookup::Undecodable,
            Some(State::Decoded(object)) => Lookup::Present(object.clone()),
        }
    }

    /// Returns the uid and the latest version of the object under a key, decoded or not.
    pub(super) fn identity(&self, key: &Key) -> Option<(&Uid, &Version)> {
        let state = &self.entry(key)?.state;
        Some((state.uid(), state.version()))
    }

    /// Iterates over all objects in the order of their keys. An undecodable object has its last decoded state.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries.iter().filter_map(|(.., entry)| entry.state.last())
    }

    /// Iterates over the objects of a partition after a key, as [`Store::iter`].
    pub(super) fn after(&self, partition: Partition, key: Option<&Key>) -> impl Iterator<Item = &Arc<T>> {
        let entries = self.entries.after(key);
        entries
            .filter(move |entry| entry.partition == partition)
            .filter_map(|entry| entry.state.last())
    }

    /// Returns the partitions that were listed.
    pub(super) fn listed(&self) -> impl Iterator<Item = Partition> {
        let partitions = (0..self.partitions.len()).map(Partition::new);
        partitions.filter(|partition| self.is_listed(*partition))
    }

    /// Returns the objects of a namespace, as [`Store::iter`].
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let entries = self.entries.in_namespace(namespace);
        entries.filter_map(|entry| entry.state.last().cloned()).collect()
    }

    /// Returns the objects whose controller has this uid, as [`Store::iter`].
    pub(super) fn owned(&self, owner: &Uid) -> Vec<Arc<T>> {
        self.indexes.owned(owner).to_vec()
    }

    /// Returns the objects with this value of an index by a function, as [`Store::iter`].
    pub(super) fn indexed(&self, id: u64, value: &str) -> Vec<Arc<T>> {
        self.indexes.indexed(id, value).to_vec()
    }

    /// Returns the objects of a namespace without a controller, as [`Store::iter`]. Slow without an index.
    pub(super) fn unmanaged(&self, namespace: &str) -> Vec<Arc<T>> {
        if let Some(objects) = self.indexes.unmanaged(namespace) {
            return objects.to_vec();
        }
        let mut all = self.in_namespace(namespace);
        all.retain(|object| object.meta().controller().is_none());
        all
    }

    /// Returns the number of objects of [`Store::iter`].
    pub(super) fn len(&self) -> usize {
        self.decoded
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the keys of the objects whose latest state could not be decoded.
    pub(super) fn undecodable(&self) -> impl Iterator<Item = Key> {
        let undecodable = |entry: &Entry<T>| matches!(entry.state, State::Undecodable(_));
        let undecodable = self.entries.iter().filter(move |(.., entry)| undecodable(entry));
        // Usually there are none: avoid the iteration.
        let undecodable = undecodable.take(self.undecodable);
        undecodable.map(|(namespace, name, _)| Key::new(namespace.clone(), name.clone()))
    }

    pub(super) fn undecodable_len(&self) -> usize {
        self.undecodable
    }

    fn entry(&self, key: &Key) -> Option<&Entry<T>> {
        self.entries.get(&key.namespace, &key.name)
    }

    fn partition(&self, partition: Partition) -> &PartitionState {
        &self.partitions[partition.index()]
    }

    /// Compacts an object; returns none if it is not identified.
    fn admit(&mut self, item: Item<T>) -> Option<Readable<T>> {
        match item {
            Item::Decoded(mut object) => {
                if object.meta().name.is_empty() || object.meta().uid.is_empty() {
                    return None;
                }
                object.meta_mut().keep_annotations(T::ANNOTATIONS);
                object.intern(&mut self.interner);
                // Shares the name with the key.
                let meta = object.meta_mut();
                if let Some(name) = self.entries.name(&meta.namespace, &meta.name) {
                    meta.name = name.clone();
                }
                Some(Readable::Decoded(Arc::new(object)))
            }
            Item::Undecodable(identity) if identity.key.name.is_empty() || identity.uid.is_empty() => None,
            Item::Undecodable(identity) => Some(Readable::Undecodable(identity)),
            Item::Unidentified => None,
        }
    }

    fn apply(&mut self, partition: Partition, item: Readable<T>, order: Order) -> Change<T> {
        let Identity { key, uid, version } = item.identity();
        let entry = self.entry(&key);
        let (old, listed_in) = (
            entry.map(|entry| &entry.state),
            entry.map_or(0, |entry| entry.list),
        );
        let same = old.filter(|old| old.uid() == &uid);
        if order == Order::Forward
            && let Some(old) = same
        {
            let decoded = matches!((old, &item), (State::Undecodable(_), Readable::Decoded(_)));
            let is_older = revived!(A8) && *old.version() > version;
            if is_older || *old.version() == version && !version.is_none() && !decoded {
                return Change {
                    deleted: None,
                    changed: None,
                };
            }
        }
        let last = same.and_then(State::last).cloned();
        let deleted = old.filter(|_| same.is_none()).and_then(State::last).cloned();
        let (state, changed) = match item {
            Readable::Decoded(new) => {
                let changed = match last {
                    Some(old) => Delta::Updated {
                        old,
                        new: new.clone(),
                    },
                    None => Delta::Added {
                        new: new.clone(),
                        initial: false,
                    },
                };
                (State::Decoded(new), Some(changed))
            }
            Readable::Undecodable(_) => (
                State::Undecodable(Box::new(Undecodable { uid, version, last })),
                None,
            ),
        };
        let entry = Entry {
            partition,
            list: listed_in,
            state,
        };
        self.swap(&key, Some(entry));
        Change { deleted, changed }
    }

    /// Clears the version of an object from before a restore: any other state is newer.
    fn forget_version(&mut self, key: &Key) {
        let Some(&Entry {
            partition,
            list,
            ref state,
        }) = self.entry(key)
        else {
            return;
        };
        let undecodable = Undecodable {
            uid: state.uid().clone(),
            version: Version::none(),
            last: state.last().cloned(),
        };
        let entry = Entry {
            partition,
            list,
            state: State::Undecodable(Box::new(undecodable)),
        };
        self.swap(key, Some(entry));
    }

    /// Replaces an entry, and updates counts and indexes. No other function changes entries.
    fn swap(&mut self, key: &Key, new: Option<Entry<T>>) -> Option<Entry<T>> {
        let undecodable = |entry: Option<&Entry<T>>| {
            entry.is_some_and(|entry| matches!(entry.state, State::Undecodable(_)))
        };
        let next = new.as_ref().and_then(|entry| entry.state.last()).cloned();
        self.undecodable += usize::from(undecodable(new.as_ref()));
        let old = match new {
            Some(new) => self.entries.insert(key, new),
            None => self.entries.remove(key),
        };
        self.undecodable -= usize::from(undecodable(old.as_ref()));
        let last = old.as_ref().and_then(|entry| entry.state.last());
        if let Some(next) = &next {
            self.bytes += next.bytes();
            self.decoded += 1;
        }
        if let Some(last) = last {
            self.bytes -= last.bytes();
            self.decoded -= 1;
        }
        self.indexes.change(last, next.as_ref());
        old
    }
}

impl PartitionState {
    /// Moves to the version of an event. A version that is not comparable does not replace one that is.
    fn advance(&mut self, version: Version) {
        let compares = |version: &Version| version.partial_cmp(version).is_some();
        if compares(&version) || !compares(&self.version) && !version.is_none() {
            self.version = version;
        }
    }
}

impl<T> IntoIterator for Change<T> {
    type Item = Delta<T>;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<Delta<T>>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        let deleted = self.deleted.map(|last| Delta::Deleted { last });
        [deleted, self.changed].into_iter().flatten()
    }
}

fn reject_older(reached: &Version, offered: &Version) -> Result<(), Stale> {
    if reached > offered {
        return Err(Stale {
            reached: reached.clone(),
            offered: offered.clone(),
        });
    }
    Ok(())
}
