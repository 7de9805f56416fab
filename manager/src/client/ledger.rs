//! What was written, and whether the outcome of every write is known.
//!
//! Whoever gives up the lease tells its successor how far its writes have come, and may only give it up if none can still
//! arrive: a write without an answer may be done later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::CONDITIONED;
use crate::env::Clock;
use crate::object::{Resource, Version};

/// The writes of one process behind its fence. Clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct Ledger {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    /// When the last write was given up without an answer. By the monotonic clock: it is the one that cannot say too much.
    unknown: Option<Instant>,
    written: BTreeMap<String, Version>,
}

/// A write that was sent. Dropped without an outcome, it is one that nobody knows.
#[derive(Debug)]
pub(super) struct Entry {
    ledger: Ledger,
    known: bool,
}

impl Ledger {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Arc::default(),
        }
    }

    /// Whether no write can still arrive: none is under way, and the server has given up all those without an answer.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let now = self.clock.now();
        let given_up = |since| now.saturating_duration_since(since) > CONDITIONED;
        self.state(|state| state.in_flight == 0 && state.unknown.is_none_or(given_up))
    }

    /// The highest version that was written, by resource.
    #[must_use]
    pub fn written(&self) -> BTreeMap<String, Version> {
        self.state(|state| state.written.clone())
    }

    pub(super) fn begin(&self) -> Entry {
        self.state(|state| state.in_flight += 1);
        Entry {
            ledger: self.clone(),
            known: false,
        }
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entry {
    /// It was done, and the object is at this version.
    pub(super) fn done(mut self, resource: &Resource, version: Version) {
        self.known = true;
        if version.is_none() {
            return;
        }
        self.ledger.state(|state| {
            let last = state.written.entry(resource.to_string()).or_default();
            if !last.has_reached(&version) {
                *last = version;
            }
        });
    }

    /// It was refused, or not even sent.
    pub(super) fn refused(mut self) {
        self.known = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let now = self.ledger.clock.now();
        self.ledger.state(|state| {
            state.in_flight -= 1;
            if !self.known {
                state.unknown = Some(now);
            }
        });
    }
}
