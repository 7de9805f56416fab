//! What was written, and whether the outcome of every write is known.
//!
//! Whoever gives up the lease tells its successor how far its writes have come, and may only give it up if none can still
//! arrive: a write without an answer may be done later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::env::{Clock, later};
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
    /// When the server has given up every write without an answer. By the monotonic clock: it is the one that cannot say
    /// too much.
    unknown: Option<Instant>,
    written: BTreeMap<String, Version>,
    /// The resources with a write that has no known version.
    unversioned: BTreeSet<String>,
}

/// A write that was sent. Dropped without an outcome, it is one that nobody knows.
#[derive(Debug)]
pub(super) struct Entry {
    ledger: Ledger,
    resource: String,
    /// How long the server works on it, counted from its last moment here.
    deadline: Duration,
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
        let given_up = |at| now > at;
        self.state(|state| state.in_flight == 0 && state.unknown.is_none_or(given_up))
    }

    /// The highest version that was written, by resource.
    #[must_use]
    pub fn written(&self) -> BTreeMap<String, Version> {
        self.state(|state| state.written.clone())
    }

    /// The resources with a write of which the version is not known: the answer was a `Status`, or there was none. A
    /// version in [`Ledger::written`] does not cover it.
    #[must_use]
    pub fn unversioned(&self) -> BTreeSet<String> {
        self.state(|state| state.unversioned.clone())
    }

    pub(super) fn begin(&self, resource: &Resource, deadline: Duration) -> Entry {
        self.state(|state| state.in_flight += 1);
        Entry {
            ledger: self.clone(),
            resource: resource.to_string(),
            deadline,
            known: false,
        }
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entry {
    /// It was done, and the object is at this version; none if the answer does not say.
    pub(super) fn done(mut self, version: Version) {
        self.known = true;
        let resource = std::mem::take(&mut self.resource);
        self.ledger.state(|state| {
            if version.is_none() {
                state.unversioned.insert(resource);
                return;
            }
            let last = state.written.entry(resource).or_default();
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
        let given_up = later(self.ledger.clock.now(), self.deadline);
        let resource = std::mem::take(&mut self.resource);
        self.ledger.state(|state| {
            state.in_flight -= 1;
            if !self.known {
                state.unknown = state.unknown.max(Some(given_up));
                state.unversioned.insert(resource);
            }
        });
    }
}
