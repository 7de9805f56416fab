//! Per-object state of a controller between syncs.
//!
//! State is bound to one leader term and one uid: another term clears all of it, and a new object with a reused name
//! starts without state.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steersman_manager::cache::{Caches, PendingWrites, Readiness, Write};
use steersman_manager::client::Term;
use steersman_manager::object::{Key, Meta, Resource, Uid};
use tokio::time::Instant;

/// The time that a sync waits for the caches to show earlier writes, unless an event comes first.
pub(crate) const BEHIND: Duration = Duration::from_millis(500);

/// The state `T` of each object, and the writes that the caches do not show yet.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    pub(crate) written: PendingWrites,
    objects: Mutex<Objects<T>>,
}

#[derive(Debug)]
struct Objects<T> {
    term: Option<Term>,
    states: BTreeMap<Key, (Uid, T)>,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self {
            written: PendingWrites::default(),
            objects: Mutex::new(Objects {
                term: None,
                states: BTreeMap::new(),
            }),
        }
    }
}

impl<T> Memory<T> {
    /// Begins a sync of this term. The first sync of a term clears all state and calls `on_new_term` before any other
    /// begins.
    pub(crate) fn enter(&self, term: Term, on_new_term: impl FnOnce()) {
        let mut objects = self.lock();
        if objects.term != Some(term) {
            objects.term = Some(term);
            objects.states.clear();
            self.written.clear();
            on_new_term();
        }
    }

    /// Tracks an object. Returns whether another object of the same name was tracked before.
    pub(crate) fn track(&self, key: &Key, uid: &Uid, initial: impl FnOnce() -> T) -> bool {
        let mut objects = self.lock();
        if objects.states.get(key).is_some_and(|(tracked, _)| tracked == uid) {
            return false;
        }
        let replaced = objects
            .states
            .insert(key.clone(), (uid.clone(), initial()))
            .is_some();
        if replaced {
            self.written.forget(key);
        }
        replaced
    }

    /// Drops the state of an object that does not exist.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().states.remove(key);
        self.written.forget(key);
    }

    /// Calls `access` with the state of an object; returns none if the object is not tracked.
    pub(crate) fn with<R>(&self, key: &Key, access: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().states.get_mut(key).map(|(_, it)| access(it))
    }

    /// Returns the resource whose cache does not show the writes of an object yet. A cache that should show them by now
    /// is relisted.
    pub(crate) fn behind(&self, key: &Key, now: Instant, caches: &Caches) -> Option<Resource> {
        match self.written.ready(key, now, caches) {
            Readiness::Ready => None,
            Readiness::Behind { resource, .. } => Some(resource),
            Readiness::Stuck { resource } => {
                tracing::warn!(%resource, "Cache does not show a write, relisting");
                caches.relist(&resource);
                Some(resource)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Objects<T>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes a write at `at` after which an object has this metadata. `seen` says whether the cache showed the object
/// before.
pub(crate) fn write_of(object: &Meta, at: Instant, seen: bool) -> Write {
    Write {
        object: object.key(),
        uid: object.uid.clone(),
        version: object.resource_version.clone(),
        at,
        seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;
    use steersman_manager::cache::{CachePosition, CachePositions};
    use steersman_manager::client::Fence;
    use steersman_manager::env::Clock;
    use steersman_manager::object::Version;

    static PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

    /// A cache that never shows a write.
    struct EmptyCache;

    impl CachePositions for EmptyCache {
        fn position(&self, _: &Resource) -> Option<CachePosition> {
            Some(CachePosition {
                version: Version::none(),
                epoch: 0,
                list_started_at: None,
            })
        }

        fn identity(&self, _: &Resource, _: &Key) -> Option<(Uid, Version)> {
            None
        }
    }

    struct Fixture {
        clock: Clock,
        fence: Fence,
        memory: Memory<u32>,
        key: Key,
    }

    impl Fixture {
        /// The object with uid `a` has state and a recorded write.
        fn new() -> Self {
            let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
            let fence = Fence::new(clock.clone());
            let fixture = Self {
                memory: Memory::default(),
                key: Key::new("ns", "web"),
                clock,
                fence,
            };
            fixture.memory.enter(fixture.fence.open_forever(), || {});
            assert!(!fixture.track("a"));
            fixture.memory.with(&fixture.key, |it| *it += 7);
            let write = Write {
                object: Key::new("ns", "web-1"),
                uid: "p".into(),
                version: "5".into(),
                at: fixture.clock.now(),
                seen: false,
            };
            fixture
                .memory
                .written
                .record(&fixture.key, &PODS, write, &EmptyCache);
            assert_eq!(fixture.state(), (Some(7), true));
            fixture
        }

        fn track(&self, uid: &str) -> bool {
            self.memory.track(&self.key, &uid.into(), || 0)
        }

        /// Returns the state, and whether a write is not shown yet.
        fn state(&self) -> (Option<u32>, bool) {
            let ready = self
                .memory
                .written
                .ready(&self.key, self.clock.now(), &EmptyCache);
            let number = self.memory.with(&self.key, |it| *it);
            (number, ready != Readiness::Ready)
        }
    }

    #[test]
    fn new_term_clears_the_state() {
        let fixture = Fixture::new();
        let (term, mut times) = (fixture.fence.term().expect("a term"), 0);
        fixture.memory.enter(term, || times += 1);
        assert_eq!((fixture.state(), times), ((Some(7), true), 0), "the same term");
        let next = fixture.fence.open_forever();
        fixture.memory.enter(next, || times += 1);
        fixture.memory.enter(next, || times += 1);
        assert_eq!((fixture.state(), times), ((None, false), 1), "the next term");
    }

    #[test]
    fn new_uid_clears_the_state() {
        let fixture = Fixture::new();
        assert!(!fixture.track("a"));
        assert_eq!(fixture.state(), (Some(7), true), "the same object");
        assert!(fixture.track("b"));
        assert_eq!(fixture.state(), (Some(0), false), "another object of that name");
    }

    #[test]
    fn forget_clears_the_state() {
        let fixture = Fixture::new();
        fixture.memory.forget(&fixture.key);
        assert_eq!(fixture.state(), (None, false));
    }
}
