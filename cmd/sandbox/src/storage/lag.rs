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
    held: Mutex<LagState>,
    moved: Changes,
}

#[derive(Debug, Default)]
struct LagState {
    all: Option<u64>,
    collections: BTreeMap<String, u64>,
}

impl Lag {
    /// Stops the cache of all collections at `revision` until [`Lag::release`].
    pub fn hold_all_at(&self, revision: u64) {
        self.change(|held| held.all = Some(revision));
    }

    /// Stops the cache of one collection (`pods`, `deployments.apps`) at `revision`.
    pub fn hold_at(&self, collection: &str, revision: u64) {
        self.change(|held| {
            held.collections.insert(collection.to_owned(), revision);
        });
    }

    /// Ends the lag of all collections.
    pub fn release(&self) {
        self.change(|held| *held = LagState::default());
    }

    /// Returns the visible revision of a collection when the store is at `newest`.
    #[must_use]
    pub fn visible(&self, collection: &str, newest: u64) -> u64 {
        let held = self.held();
        let of_collection = held.collections.get(collection).copied();
        of_collection.into_iter().chain(held.all).fold(newest, u64::min)
    }

    /// Returns a reader that wakes when the lag changes.
    pub(crate) fn subscribe(&self) -> Changed {
        self.moved.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut LagState)) {
        change(&mut self.held());
        self.moved.bump();
    }

    fn held(&self) -> MutexGuard<'_, LagState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
