//! The lag of one API server's watch cache behind the store.
//!
//! API servers behind a load balancer answer from watch caches of different age: a client may first read a newer state and
//! then an older one. While an API server lags, its watches and its reads from the cache return the state at a chosen
//! revision. Writes and quorum reads never lag.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::storage::changes::{Changed, Changes};

/// The revisions at which a watch cache lags. The default has no lag.
#[derive(Debug, Default)]
pub struct Lag {
    state: Mutex<LagState>,
    moved: Changes,
}

#[derive(Debug, Default)]
struct LagState {
    held: HeldRevisions,
    /// The newest revision of each collection that the cache has served.
    served: BTreeMap<String, u64>,
    /// The newest revision of the collections that are not in `served`.
    started: u64,
}

#[derive(Debug, Default)]
struct HeldRevisions {
    all: Option<u64>,
    collections: BTreeMap<String, u64>,
    /// The revision of the collections that are not in `collections`.
    others: Option<u64>,
}

impl Lag {
    /// Returns a cache without lag that has served the state at `revision`.
    pub(crate) fn starting_at(revision: u64) -> Self {
        let lag = Self::default();
        lag.state().started = revision;
        lag
    }

    /// Stops the cache of all collections at `revision` until [`Lag::release`].
    pub fn hold_all_at(&self, revision: u64) {
        self.change(|state| state.held.all = Some(revision));
    }

    /// Stops the cache of one collection (`pods`, `deployments.apps`) at `revision`.
    pub fn hold_at(&self, collection: &str, revision: u64) {
        self.change(|state| {
            state.held.collections.insert(collection.to_owned(), revision);
        });
    }

    /// Stops the cache of each collection at the newest revision that it has [served](Self::served): clients see nothing
    /// new, and nothing older than before. A collection that is held at an older revision stays there.
    pub fn hold_served(&self) {
        self.change(|state| {
            for (collection, revision) in &state.served {
                let held = state
                    .held
                    .collections
                    .entry(collection.clone())
                    .or_insert(*revision);
                *held = *revision.min(held);
            }
            state.held.others = Some(state.started);
        });
    }

    /// Ends the lag of all collections.
    pub fn release(&self) {
        self.change(|state| state.held = HeldRevisions::default());
    }

    /// Returns the newest revision of a collection that this API server has served from its cache: the last sent event of
    /// its watches, or the revision of a list or GET with `resourceVersion`. Without those, the revision of the store when
    /// the API server was started.
    #[must_use]
    pub fn served(&self, collection: &str) -> u64 {
        let state = self.state();
        state.served.get(collection).copied().unwrap_or(state.started)
    }

    /// Returns the visible revision of a collection when the store is at `newest`.
    #[must_use]
    pub fn visible(&self, collection: &str, newest: u64) -> u64 {
        let HeldRevisions {
            all,
            collections,
            others,
        } = &self.state().held;
        let of_collection = collections.get(collection).or(others.as_ref());
        of_collection
            .into_iter()
            .chain(all)
            .fold(newest, |a, b| a.min(*b))
    }

    /// Records that the cache has served the state of a collection at `revision`.
    pub(crate) fn serve(&self, collection: &str, revision: u64) {
        let mut state = self.state();
        if let Some(newest) = state.served.get_mut(collection) {
            *newest = revision.max(*newest);
        } else {
            let newest = revision.max(state.started);
            state.served.insert(collection.to_owned(), newest);
        }
    }

    /// Returns a reader that wakes when the lag changes.
    pub(crate) fn subscribe(&self) -> Changed {
        self.moved.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut LagState)) {
        change(&mut self.state());
        self.moved.bump();
    }

    fn state(&self) -> MutexGuard<'_, LagState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
