//! What the engine remembers of owners, in one term.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use coxswain_manager::client::Term;
use coxswain_manager::object::{Key, Uid};
use tokio::time::Instant;

use super::Engine;
use crate::replicaset::backoff::Backoff;

/// What is remembered from sync to sync, in one term.
#[derive(Debug, Default)]
pub(super) struct Memory {
    term: Option<Term>,
    owners: BTreeMap<Key, Known>,
}

#[derive(Debug)]
pub(super) struct Known {
    uid: Uid,
    pub(super) backoff: Backoff,
    /// Since when the status is another one than was written.
    pub(super) unwritten: Option<Instant>,
}

impl Engine {
    /// What another term remembers does not count.
    pub(super) fn enter(&self, term: Term) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.term != Some(term) {
            memory.term = Some(term);
            memory.owners.clear();
            self.expectations.clear();
            self.written.clear();
        }
    }

    /// An owner under a name that another one had starts with nothing.
    pub(super) fn know(&self, key: &Key, uid: &Uid, now: Instant) {
        if self.with(key, |known| known.uid != *uid) == Some(true) {
            self.forget(key);
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.owners.entry(key.clone()).or_insert_with(|| Known {
            uid: uid.clone(),
            backoff: Backoff::starting_at(now),
            unwritten: None,
        });
    }

    pub(super) fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.owners.remove(key);
        self.expectations.forget(key);
        self.written.forget(key);
    }

    pub(super) fn with<T>(&self, key: &Key, with: impl FnOnce(&mut Known) -> T) -> Option<T> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.owners.get_mut(key).map(with)
    }
}
