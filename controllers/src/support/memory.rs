//! What a controller remembers of its objects from sync to sync.
//!
//! It holds in one term and for one uid: what was written or counted in another term says nothing about this one, and an
//! object starts with nothing under a name that another one had.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coxswain_manager::cache::{Caches, PendingWrites, Readiness, Write};
use coxswain_manager::client::Term;
use coxswain_manager::object::{Key, Meta, Resource, Uid};
use tokio::time::Instant;

/// How long a sync that the caches are not ready for waits, if no event comes before.
pub(crate) const BEHIND: Duration = Duration::from_millis(500);

/// What is remembered; `T` of each object.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    /// What was written and may not be seen yet.
    pub(crate) written: PendingWrites,
    objects: Mutex<Objects<T>>,
}

#[derive(Debug)]
struct Objects<T> {
    term: Option<Term>,
    known: BTreeMap<Key, (Uid, T)>,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self {
            written: PendingWrites::default(),
            objects: Mutex::new(Objects {
                term: None,
                known: BTreeMap::new(),
            }),
        }
    }
}

impl<T> Memory<T> {
    /// A sync of this term begins. The first one forgets everything, and calls `also` before any other begins.
    pub(crate) fn enter(&self, term: Term, also: impl FnOnce()) {
        let mut objects = self.lock();
        if objects.term != Some(term) {
            objects.term = Some(term);
            objects.known.clear();
            self.written.clear();
            also();
        }
    }

    /// This is the object of the name. Answers whether another one had it before.
    pub(crate) fn know(&self, key: &Key, uid: &Uid, start: impl FnOnce() -> T) -> bool {
        let mut objects = self.lock();
        if objects.known.get(key).is_some_and(|(known, _)| known == uid) {
            return false;
        }
        let another = objects
            .known
            .insert(key.clone(), (uid.clone(), start()))
            .is_some();
        if another {
            self.written.forget(key);
        }
        another
    }

    /// There is no object of that name.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().known.remove(key);
        self.written.forget(key);
    }

    /// With what is remembered of an object; none if it is not known.
    pub(crate) fn with<R>(&self, key: &Key, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().known.get_mut(key).map(|(_, it)| with(it))
    }

    /// The kind whose cache does not show yet what was written for an object. One that should have shown it by now is listed
    /// again.
    pub(crate) fn behind(&self, key: &Key, now: Instant, caches: &Caches) -> Option<Resource> {
        match self.written.ready(key, now, caches) {
            Readiness::Ready => None,
            Readiness::Behind { resource, .. } => Some(resource),
            Readiness::Stuck { resource } => {
                tracing::warn!(%resource, "The cache does not show what was written: listing again");
                caches.relist(&resource);
                Some(resource)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Objects<T>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes a write at `at` after which an object has this metadata. `seen` says whether the cache showed the object before.
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

    use coxswain_manager::cache::{CachePosition, CachePositions};
    use coxswain_manager::client::Fence;
    use coxswain_manager::env::Clock;
    use coxswain_manager::object::Version;
    use jiff::Timestamp;

    static PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

    /// A cache that shows nothing of what was written.
    struct Blind;

    impl CachePositions for Blind {
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

    struct Bed {
        clock: Clock,
        fence: Fence,
        memory: Memory<u32>,
        key: Key,
    }

    impl Bed {
        /// Something is remembered, and was written, of an object with the uid `a`.
        fn new() -> Self {
            let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
            let fence = Fence::new(clock.clone());
            let bed = Self {
                memory: Memory::default(),
                key: Key::new("ns", "web"),
                clock,
                fence,
            };
            bed.memory.enter(bed.fence.open_forever(), || {});
            assert!(!bed.know("a"));
            bed.memory.with(&bed.key, |it| *it += 7);
            let write = Write {
                object: Key::new("ns", "web-1"),
                uid: "p".into(),
                version: "5".into(),
                at: bed.clock.now(),
                seen: false,
            };
            bed.memory.written.record(&bed.key, &PODS, write, &Blind);
            assert_eq!(bed.remembered(), (Some(7), true));
            bed
        }

        fn know(&self, uid: &str) -> bool {
            self.memory.know(&self.key, &uid.into(), || 0)
        }

        /// What is remembered, and whether a write is waited for.
        fn remembered(&self) -> (Option<u32>, bool) {
            let ready = self.memory.written.ready(&self.key, self.clock.now(), &Blind);
            let number = self.memory.with(&self.key, |it| *it);
            (number, ready != Readiness::Ready)
        }
    }

    #[test]
    fn it_holds_in_one_term() {
        let bed = Bed::new();
        let (term, mut times) = (bed.fence.term().expect("a term"), 0);
        bed.memory.enter(term, || times += 1);
        assert_eq!((bed.remembered(), times), ((Some(7), true), 0), "the same term");
        let next = bed.fence.open_forever();
        bed.memory.enter(next, || times += 1);
        bed.memory.enter(next, || times += 1);
        assert_eq!((bed.remembered(), times), ((None, false), 1), "the next one");
    }

    #[test]
    fn it_holds_for_one_uid() {
        let bed = Bed::new();
        assert!(!bed.know("a"));
        assert_eq!(bed.remembered(), (Some(7), true), "the same object");
        assert!(bed.know("b"));
        assert_eq!(bed.remembered(), (Some(0), false), "another one of that name");
    }

    #[test]
    fn it_ends_with_the_object() {
        let bed = Bed::new();
        bed.memory.forget(&bed.key);
        assert_eq!(bed.remembered(), (None, false));
    }
}
