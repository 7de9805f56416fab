//! The store: every object of every collection, one revision counter, a bounded history.
//!
//! Mirrors etcd and the etcd3 store in front of it; the watch cache (cacher) reads from the same history.
//!
//! Promises:
//! - every write that changes something takes the next revision, and revisions are never used twice;
//! - a write names the version that it replaces, and fails if that is no longer the present one;
//! - reads see a state that existed at exactly one revision, the present one or any that is still retained;
//! - reading the changes after the revision of such a read gives every later state, in order, without gap.
//!
//! It knows nothing of kinds, schemas or policies, and it never blocks: [`Store::subscribe`] wakes a caller on changes.

pub(crate) mod changes;
mod history;
pub(crate) mod lag;
mod object;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::storage::changes::{Changed, Changes};

use history::History;
pub use history::{Change, Limits};
pub(crate) use object::write;
pub use object::{Draft, Object};

/// Why a write or a read of the past was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The key is taken.
    #[error("the key exists already")]
    Exists,
    /// There is no such key.
    #[error("there is no such key")]
    Missing,
    /// The present version is another than the one named.
    #[error("the object has changed since it was read")]
    Changed,
    /// The condition of the write did not hold at commit.
    #[error("the condition of the write does not hold")]
    Refused,
    /// That revision is no longer retained.
    #[error("revision {asked} has been compacted; the oldest retained is {oldest}")]
    Compacted {
        /// The requested revision.
        asked: u64,
        /// The oldest retained revision.
        oldest: u64,
    },
}

/// The present content of a range of keys, and the revision at which it is exact.
pub struct Snapshot {
    /// Objects in the order of their keys.
    pub objects: Vec<Arc<Object>>,
    /// The revision.
    pub revision: u64,
}

/// A condition that is checked in the same critical section as the write: this object must pass this test.
pub struct Guard<'a> {
    /// Collection of the other object.
    pub collection: &'a str,
    /// Its key.
    pub key: &'a str,
    /// The test that it must pass.
    pub holds: &'a dyn Fn(Option<&Object>) -> bool,
}

/// See the module's contract.
pub struct Store {
    inner: Mutex<Inner>,
    limits: Limits,
    /// Changes on every commit, whatever the collection.
    newest: Changes,
}

struct Inner {
    /// Shared with every fork; the first write after a fork copies the part that it changes.
    state: Arc<State>,
    /// Per collection, a counter that every commit advances.
    wakes: BTreeMap<String, Changes>,
}

#[derive(Clone)]
struct State {
    revision: u64,
    collections: BTreeMap<String, Arc<Collection>>,
}

#[derive(Clone, Default)]
struct Collection {
    objects: BTreeMap<String, Arc<Object>>,
    history: History,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        // Clients take "0" for "any version", so the first write must not be there.
        let state = State {
            revision: 1,
            collections: BTreeMap::new(),
        };
        Self::with_state(Arc::new(state), limits)
    }

    fn with_state(state: Arc<State>, limits: Limits) -> Self {
        let wakes = BTreeMap::new();
        Self {
            inner: Mutex::new(Inner { state, wakes }),
            limits,
            newest: Changes::default(),
        }
    }

    /// An independent store with the same objects, history and revision. Takes constant time: both share the state until
    /// one of them writes.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::with_state(self.lock().state.clone(), self.limits)
    }

    /// Every object, by collection, and the revision at which that is exact.
    #[must_use]
    pub fn dump(&self) -> (BTreeMap<String, Vec<Arc<Object>>>, u64) {
        let state = self.lock().state.clone();
        let objects = |coll: &Arc<Collection>| coll.objects.values().cloned().collect();
        let collections = state.collections.iter();
        let all = collections.map(|(name, coll)| (name.clone(), objects(coll)));
        (all.collect(), state.revision)
    }

    /// Replaces all content by `objects` (collection, key, revision, object) at `revision`, without a history. Watches
    /// that are open end.
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
            let object = Object::seal(&key, version.min(revision), draft);
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

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().state.revision
    }

    /// The present version of an object.
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

    /// The version that an object had at `revision`.
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

    /// Creates an object under a free key.
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
        if inner
            .state
            .collections
            .get(collection)
            .is_some_and(|c| c.objects.contains_key(key))
        {
            return Err(StoreError::Exists);
        }
        let object = Arc::new(Object::seal(key, inner.state.revision + 1, draft));
        self.commit(&mut inner, collection, key, Some(object.clone()), None);
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
        inner.check(collection, key, expected)?;
        let object = Arc::new(Object::seal(key, inner.state.revision + 1, draft));
        self.commit(&mut inner, collection, key, Some(object.clone()), None);
        Ok(object)
    }

    /// Removes the version `expected` of an object; `last` is the state that watchers are told.
    pub fn remove(
        &self,
        collection: &str,
        key: &str,
        expected: u64,
        last: Draft,
    ) -> Result<Arc<Object>, StoreError> {
        let mut inner = self.lock();
        inner.check(collection, key, expected)?;
        let removed = Arc::new(Object::seal(key, inner.state.revision + 1, last));
        self.commit(&mut inner, collection, key, None, Some(removed.clone()));
        Ok(removed)
    }

    fn commit(
        &self,
        inner: &mut Inner,
        collection: &str,
        key: &str,
        after: Option<Arc<Object>>,
        removed: Option<Arc<Object>>,
    ) {
        let state = Arc::make_mut(&mut inner.state);
        state.revision += 1;
        let revision = state.revision;
        if !state.collections.contains_key(collection) {
            state.collections.insert(collection.to_owned(), Arc::default());
        }
        let Some(coll) = state.collections.get_mut(collection) else {
            return;
        };
        let coll = Arc::make_mut(coll);
        let before = match &after {
            Some(object) => coll.objects.insert(key.to_owned(), object.clone()),
            None => coll.objects.remove(key),
        };
        coll.history.push(
            Change {
                revision,
                before,
                after,
                removed,
            },
            self.limits,
        );
        if let Some(wake) = inner.wakes.get(collection) {
            wake.bump();
        }
        self.newest.bump();
    }

    /// Everything under `prefix` from key `start` on, now or as it was at revision `at`.
    pub fn snapshot(
        &self,
        collection: &str,
        prefix: &str,
        start: Option<&str>,
        at: Option<u64>,
    ) -> Result<Snapshot, StoreError> {
        let inner = self.lock();
        let revision = at.unwrap_or(inner.state.revision).min(inner.state.revision);
        let Some(coll) = inner.state.collections.get(collection) else {
            return Ok(Snapshot {
                objects: Vec::new(),
                revision,
            });
        };
        coll.check_retained(revision)?;
        let wanted = |key: &str| key.starts_with(prefix) && start.is_none_or(|s| key >= s);
        let from = start.filter(|s| *s > prefix).unwrap_or(prefix);
        let present = coll
            .objects
            .range::<str, _>((Bound::Included(from), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        if revision == inner.state.revision {
            return Ok(Snapshot {
                objects: present.map(|(_, o)| o.clone()).collect(),
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
        Ok(Snapshot {
            objects: past.into_values().collect(),
            revision,
        })
    }

    /// Up to `max` changes of a collection after `revision`, and the revision up to which that is all there is.
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

    /// Whether there is any object under a prefix now.
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

    /// The oldest revision after which every change of the collection is known.
    #[must_use]
    pub fn compacted(&self, collection: &str) -> u64 {
        self.lock()
            .state
            .collections
            .get(collection)
            .map_or(0, |c| c.history.compacted)
    }

    /// Wakes its reader on every change of the collection.
    #[must_use]
    pub fn subscribe(&self, collection: &str) -> Changed {
        let mut inner = self.lock();
        let wake = inner.wakes.entry(collection.to_owned()).or_default();
        wake.subscribe()
    }

    /// Wakes its reader on every commit.
    #[must_use]
    pub fn subscribe_all(&self) -> Changed {
        self.newest.subscribe()
    }

    /// Forgets what happened up to `revision`, in every collection.
    pub fn compact(&self, revision: u64) {
        let mut inner = self.lock();
        let revision = revision.min(inner.state.revision);
        for coll in Arc::make_mut(&mut inner.state).collections.values_mut() {
            Arc::make_mut(coll).history.compact(revision);
        }
    }

    /// Number of objects and their bytes, over all collections.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let inner = self.lock();
        let objects = inner.state.collections.values().flat_map(|c| c.objects.values());
        objects.fold((0, 0), |(n, bytes), o| (n + 1, bytes + o.json.len()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn check(&self, collection: &str, key: &str, expected: u64) -> Result<(), StoreError> {
        let present = self
            .state
            .collections
            .get(collection)
            .and_then(|c| c.objects.get(key));
        match present {
            None => Err(StoreError::Missing),
            Some(object) if object.revision != expected => Err(StoreError::Changed),
            Some(_) => Ok(()),
        }
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
