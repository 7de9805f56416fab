//! How far one API service's watch cache is behind the store.
//!
//! Behind a load balancer, API servers answer from caches of different age: a client may see a newer state first and
//! an older one next. An API service that is held shows watches, and reads that accept a cached state, a past of our choosing;
//! writes and reads of the present are never held.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::storage::changes::{Changed, Changes};

/// See the module's contract. A fresh one holds nothing.
#[derive(Debug, Default)]
pub struct Lag {
    held: Mutex<Held>,
    moved: Changes,
}

#[derive(Debug, Default)]
struct Held {
    all: Option<u64>,
    collections: BTreeMap<String, u64>,
}

impl Lag {
    /// Shows everything as it was at `revision`, until told otherwise.
    pub fn hold_all_at(&self, revision: u64) {
        self.change(|held| held.all = Some(revision));
    }

    /// Shows one collection (`pods`, `deployments.apps`) as it was at `revision`.
    pub fn hold_at(&self, collection: &str, revision: u64) {
        self.change(|held| {
            held.collections.insert(collection.to_owned(), revision);
        });
    }

    /// Catches up with the store.
    pub fn release(&self) {
        self.change(|held| *held = Held::default());
    }

    /// The revision that is shown of a collection when the store is at `newest`.
    #[must_use]
    pub fn visible(&self, collection: &str, newest: u64) -> u64 {
        let held = self.held();
        let of_collection = held.collections.get(collection).copied();
        of_collection.into_iter().chain(held.all).fold(newest, u64::min)
    }

    /// Wakes its reader when something is held or released.
    pub(crate) fn subscribe(&self) -> Changed {
        self.moved.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        change(&mut self.held());
        self.moved.bump();
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
