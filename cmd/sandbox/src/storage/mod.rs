//! The store: all objects of all collections, one revision counter, and a bounded history.
//!
//! Mirrors etcd and the etcd3 store in front of it. The watch cache (cacher) reads from the same history.
//!
//! Guarantees:
//! - every write that changes an object gets the next revision, and revisions are never reused;
//! - a write names the version that it replaces, and fails if that is not the current version;
//! - a read returns the state at exactly one revision, either the current one or a retained one;
//! - the changes after the revision of a read contain every later state, in order and without gaps.
//!
//! The store does not know kinds, schemas or policies, and never blocks: [`Store::subscribe`] wakes readers on changes.

pub(crate) mod changes;
mod encode;
mod history;
pub(crate) mod journal;
pub(crate) mod lag;
mod object;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::json::Lookup;
use crate::storage::changes::{Changed, Changes};
use crate::storage::journal::Commit;

use history::History;
pub use history::{Change, Limits};
pub use object::{Draft, Object};

/// The reason why a write, or a read at an old revision, failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The key already exists.
    #[error("the key exists already")]
    Exists,
    /// The key was not found.
    #[error("there is no such key")]
    Missing,
    /// Conflict: the current version is not the expected version.
    #[error("the object has changed since it was read")]
    Changed,
    /// A guard of the write failed at commit.
    #[error("the condition of the write does not hold")]
    Refused,
    /// The revision was compacted.
    #[error("revision {asked} has been compacted; the oldest retained is {oldest}")]
    Compacted {
        /// The requested revision.
        asked: u64,
        /// The oldest retained revision.
        oldest: u64,
    },
}

/// The objects of a key range at one revision.
pub struct Snapshot {
    /// The objects, sorted by key.
    pub objects: Vec<Arc<Object>>,
    /// The number of objects that follow, if the read was limited.
    pub remaining: usize,
    /// The revision at which the snapshot is exact.
    pub revision: u64,
}

/// A precondition on another object, checked in the same critical section as the write.
pub struct Guard<'a> {
    /// The collection of the other object.
    pub collection: &'a str,
    /// The key of the other object.
    pub key: &'a str,
    /// The predicate on the other object; `None` if that object does not exist.
    pub holds: &'a dyn Fn(Option<&Object>) -> bool,
}

/// A store of versioned objects. The module documentation lists its guarantees.
pub struct Store {
    inner: Mutex<Inner>,
    limits: Limits,
    /// Counts the commits to all collections.
    newest: Changes,
}

struct Inner {
    /// Shared with every fork. The first write after a fork copies the part that it changes.
    state: Arc<State>,
    /// The commit counter of each collection.
    wakes: BTreeMap<String, Changes>,
    /// The commits since the last [`Store::take_commits`]; `None` if the store has no journal.
    journal: Option<Vec<Commit>>,
}

/// The parts of the store that a commit to one collection changes.
struct Commitment<'a> {
    /// The revision of the commit.
    revision: u64,
    coll: &'a mut Collection,
    newest: &'a mut u64,
    journal: &'a mut Option<Vec<Commit>>,
    wake: Option<&'a Changes>,
}

#[derive(Clone)]
struct State {
    revision: u64,
    collections: Lookup<Arc<Collection>, String>,
}

#[derive(Clone, Default)]
struct Collection {
    objects: BTreeMap<String, Arc<Object>>,
    history: History,
}

impl Store {
    /// Creates an empty store without a journal.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        // Clients interpret resourceVersion "0" as "any version", so the first write must have a higher revision.
        let state = State {
            revision: 1,
            collections: Lookup::default(),
        };
        Self::with_state(Arc::new(state), limits, None)
    }

    /// Returns the store with an empty journal.
    #[must_use]
    pub fn with_journal(self) -> Self {
        let state = self.lock().state.clone();
        Self::with_state(state, self.limits, Some(Vec::new()))
    }

    fn with_state(state: Arc<State>, limits: Limits, journal: Option<Vec<Commit>>) -> Self {
        let inner = Inner {
            state,
            wakes: BTreeMap::new(),
            journal,
        };
        Self {
            inner: Mutex::new(inner),
            limits,
            newest: Changes::default(),
        }
    }

    /// Returns an independent store with the same objects, history and revision, in constant time: both share the state until
    /// one of them writes. The journal of the fork is empty.
    #[must_use]
    pub fn fork(&self) -> Self {
        let inner = self.lock();
        let journal = inner.journal.as_ref().map(|_| Vec::new());
        Self::with_state(inner.state.clone(), self.limits, journal)
    }

    /// Returns the commits since the last call, and removes them from the journal.
    pub fn take_commits(&self) -> Vec<Commit> {
        self.lock()
            .journal
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns all objects by collection, and the revision at which they are exact.
    #[must_use]
    pub fn dump(&self) -> (BTreeMap<String, Vec<Arc<Object>>>, u64) {
        let state = self.lock().state.clone();
        let objects = |coll: &Arc<Collection>| coll.objects.values().cloned().collect();
        let collections = state.collections.iter();
        let all = collections.map(|(name, coll)| (name.clone(), objects(coll)));
        (all.collect(), state.revision)
    }

    /// Replaces all content with `objects` (collection, key, revision, object) at `revision`, with an empty history. Open
    /// watches end.
    pub fn load(&self, objects: Vec<(String, String, u64, Draft)>, revision: u64) {
        let mut collections: BTreeMap<String, Collection> = BTreeMap::new();
        let mut inner = self.lock();
        let revision = revision.max(inner.state.revision);
        for name in inner.state.collections.keys() {
            collections.entry(name.clone()).or_default().history.compacted = revision;
        }
        for (collection, key, version, draft) in objects {
            let coll = collections.entry(collection).or_default();
            coll.history.compacted = revision;
            let object = Object::seal(&key, version.min(revision), draft, None);
            coll.objects.insert(key, Arc::new(object));
        }
        let collections = collections
            .into_iter()
            .map(|(name, c)| (name, Arc::new(c)))
            .collect();
        inner.state = Arc::new(State {
            revision,
            collections,
        });
        inner.wakes.values().for_each(Changes::bump);
        self.newest.bump();
    }

    /// Returns the revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().state.revision
    }

    /// Returns the current version of an object.
    #[must_use]
    pub fn get(&self, collection: &str, key: &str) -> Option<Arc<Object>> {
        self.lock()
            .state
            .collections
            .get(collection)?
            .objects
            .get(key)
            .cloned()
    }

    /// Returns the version of an object at `revision`.
    pub fn get_at(
        &self,
        collection: &str,
        key: &str,
        revision: u64,
    ) -> Result<Option<Arc<Object>>, StoreError> {
        let inner = self.lock();
        let Some(coll) = inner.state.collections.get(collection) else {
            return Ok(None);
        };
        coll.check_retained(revision)?;
        let undone = coll.history.after(revision).find(|c| c.key() == key);
        Ok(match undone {
            Some(change) => change.before.clone(),
            None => coll.objects.get(key).cloned(),
        })
    }

    /// Creates an object. Fails if the key already exists.
    pub fn create(
        &self,
        collection: &str,
        key: &str,
        draft: Draft,
        guards: &[Guard<'_>],
    ) -> Result<Arc<Object>, StoreError> {
        let mut inner = self.lock();
        for guard in guards {
            let other = inner
                .state
                .collections
                .get(guard.collection)
                .and_then(|c| c.objects.get(guard.key));
            if !(guard.holds)(other.map(AsRef::as_ref)) {
                return Err(StoreError::Refused);
            }
        }
        let next = inner.next(collection, key, None)?;
        let Entry::Vacant(entry) = next.coll.objects.entry(key.to_owned()) else {
            return Err(StoreError::Exists);
        };
        let object = Arc::new(Object::seal(key, next.revision, draft, None));
        entry.insert(object.clone());
        let change = Change {
            revision: next.revision,
            before: None,
            after: Some(object.clone()),
            removed: None,
        };
        next.commit(collection, change, self.limits);
        self.newest.bump();
        Ok(object)
    }

    /// Replaces the version `expected` of an object.
    pub fn replace(
        &self,
        collection: &str,
        key: &str,
        expected: u64,
        draft: Draft,
    ) -> Result<Arc<Object>, StoreError> {
        let mut inner = self.lock();
        let next = inner.next(collection, key, Some(expected))?;
        let last = next.coll.objects.get_mut(key).ok_or(StoreError::Missing)?;
        check_version(last, expected)?;
        let object = Arc::new(Object::seal(key, next.revision, draft, Some(last)));
        let change = Change {
            revision: next.revision,
            before: Some(std::mem::replace(last, object.clone())),
            after: Some(object.clone()),
            removed: None,
        };
        next.commit(collection, change, self.limits);
        self.newest.bump();
        Ok(object)
    }

    /// Removes the version `expected` of an object. Watchers receive it with the revision of the removal.
    pub fn remove(&self, collection: &str, key: &str, expected: u64) -> Result<Arc<Object>, StoreError> {
        let mut inner = self.lock();
        let next = inner.next(collection, key, Some(expected))?;
        let Entry::Occupied(entry) = next.coll.objects.entry(key.to_owned()) else {
            return Err(StoreError::Missing);
        };
        check_version(entry.get(), expected)?;
        let last = entry.remove();
        let removed = Arc::new(last.at_revision(next.revision));
        let change = Change {
            revision: next.revision,
            before: Some(last),
            after: None,
            removed: Some(removed.clone()),
        };
        next.commit(collection, change, self.limits);
        self.newest.bump();
        Ok(removed)
    }

    /// Returns the objects under `prefix`, starting at key `start`, now or at revision `at`.
    pub fn snapshot(
        &self,
        collection: &str,
        prefix: &str,
        start: Option<&str>,
        at: Option<u64>,
    ) -> Result<Snapshot, StoreError> {
        self.page(collection, prefix, start, at, usize::MAX)
    }

    /// Returns up to `max` objects under `prefix`, starting at key `start`, now or at revision `at`.
    pub fn page(
        &self,
        collection: &str,
        prefix: &str,
        start: Option<&str>,
        at: Option<u64>,
        max: usize,
    ) -> Result<Snapshot, StoreError> {
        let inner = self.lock();
        let revision = at.unwrap_or(inner.state.revision).min(inner.state.revision);
        let Some(coll) = inner.state.collections.get(collection) else {
            return Ok(Snapshot {
                objects: Vec::new(),
                remaining: 0,
                revision,
            });
        };
        coll.check_retained(revision)?;
        let wanted = |key: &str| key.starts_with(prefix) && start.is_none_or(|s| key >= s);
        let from = start.filter(|s| *s > prefix).unwrap_or(prefix);
        let mut present = coll
            .objects
            .range::<str, _>((Bound::Included(from), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        // Commits to other collections do not change this one.
        if coll.history.after(revision).next().is_none() {
            let objects = present.by_ref().take(max).map(|(_, o)| o.clone()).collect();
            return Ok(Snapshot {
                objects,
                remaining: present.count(),
                revision,
            });
        }
        let mut past: BTreeMap<&str, Arc<Object>> = present
            .map(|(key, object)| (key.as_str(), object.clone()))
            .collect();
        for change in coll.history.after(revision).rev().filter(|c| wanted(c.key())) {
            match &change.before {
                Some(before) => past.insert(change.key(), before.clone()),
                None => past.remove(change.key()),
            };
        }
        let mut objects: Vec<_> = past.into_values().collect();
        let remaining = objects.len().saturating_sub(max);
        objects.truncate(max);
        Ok(Snapshot {
            objects,
            remaining,
            revision,
        })
    }

    /// Returns up to `max` changes of a collection after `revision`, and the revision up to which they are complete.
    pub fn changes(
        &self,
        collection: &str,
        revision: u64,
        max: usize,
    ) -> Result<(Vec<Arc<Change>>, u64), StoreError> {
        let inner = self.lock();
        let Some(coll) = inner.state.collections.get(collection) else {
            return Ok((Vec::new(), inner.state.revision));
        };
        coll.check_retained(revision)?;
        let changes: Vec<_> = coll.history.after(revision).take(max).cloned().collect();
        let known = if changes.len() == max {
            changes.last().map_or(revision, |c| c.revision)
        } else {
            inner.state.revision
        };
        Ok((changes, known))
    }

    /// Reports whether any object exists under a prefix.
    #[must_use]
    pub fn has_any(&self, collection: &str, prefix: &str) -> bool {
        let inner = self.lock();
        let Some(coll) = inner.state.collections.get(collection) else {
            return false;
        };
        let first = coll
            .objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .next();
        first.is_some_and(|(key, _)| key.starts_with(prefix))
    }

    /// Returns the oldest revision after which all changes of the collection are retained.
    #[must_use]
    pub fn compacted(&self, collection: &str) -> u64 {
        self.lock()
            .state
            .collections
            .get(collection)
            .map_or(0, |c| c.history.compacted)
    }

    /// Returns a reader that wakes on every change of the collection.
    #[must_use]
    pub fn subscribe(&self, collection: &str) -> Changed {
        let mut inner = self.lock();
        let wake = inner.wakes.entry(collection.to_owned()).or_default();
        wake.subscribe()
    }

    /// Returns a reader that wakes on every commit.
    #[must_use]
    pub fn subscribe_all(&self) -> Changed {
        self.newest.subscribe()
    }

    /// Drops the changes up to `revision` from the history of every collection.
    pub fn compact(&self, revision: u64) {
        let mut inner = self.lock();
        let revision = revision.min(inner.state.revision);
        for coll in Arc::make_mut(&mut inner.state).collections.values_mut() {
            Arc::make_mut(coll).history.compact(revision);
        }
    }

    /// Returns the number of all objects and their total size in bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let inner = self.lock();
        let objects = inner.state.collections.values().flat_map(|c| c.objects.values());
        objects.fold((0, 0), |(n, bytes), o| (n + 1, bytes + o.json().len()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Prepares a commit of a change of `key`. A collection that a fork shares is copied, unless
    /// the write fails: the current version is not `expected`, or the key of a create (`None`) exists.
    fn next(
        &mut self,
        collection: &str,
        key: &str,
        expected: Option<u64>,
    ) -> Result<Commitment<'_>, StoreError> {
        if self.is_shared(collection) {
            let current = self.state.collections.get(collection);
            let current = current.and_then(|coll| coll.objects.get(key));
            match (current, expected) {
                (None, None) => {}
                (Some(_), None) => return Err(StoreError::Exists),
                (None, Some(_)) => return Err(StoreError::Missing),
                (Some(current), Some(expected)) => check_version(current, expected)?,
            }
        }
        let state = Arc::make_mut(&mut self.state);
        let coll = state.collections.entry(collection.to_owned()).or_default();
        Ok(Commitment {
            revision: state.revision + 1,
            coll: Arc::make_mut(coll),
            newest: &mut state.revision,
            journal: &mut self.journal,
            wake: self.wakes.get(collection),
        })
    }

    /// Reports whether a change of the collection copies or creates it.
    fn is_shared(&mut self, collection: &str) -> bool {
        let state = Arc::get_mut(&mut self.state);
        let coll = state.and_then(|state| state.collections.get_mut(collection));
        coll.and_then(Arc::get_mut).is_none()
    }
}

impl Commitment<'_> {
    /// Records the change, makes its revision the current one, and wakes the readers of the collection.
    fn commit(self, collection: &str, change: Change, limits: Limits) {
        *self.newest = self.revision;
        if let Some(journal) = self.journal {
            journal.push(Commit::new(collection, &change));
        }
        self.coll.history.push(change, limits);
        if let Some(wake) = self.wake {
            wake.bump();
        }
    }
}

/// Fails if the current version is not the expected one.
fn check_version(current: &Object, expected: u64) -> Result<(), StoreError> {
    if current.revision == expected {
        Ok(())
    } else {
        Err(StoreError::Changed)
    }
}

impl Collection {
    fn check_retained(&self, revision: u64) -> Result<(), StoreError> {
        let oldest = self.history.compacted;
        if revision < oldest {
            Err(StoreError::Compacted {
                asked: revision,
                oldest,
            })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
