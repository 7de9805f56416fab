//! Tracks the writes of a process: the highest resourceVersion written, and writes with an unknown outcome.
//!
//! A leader releases its lease only if no write can still reach the API server, and hands the written versions over to the
//! next leader. A write without a response may still be executed later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::env::{Clock, later};
use crate::object::Version;

/// The fenced writes of one process. Clones share their state.
#[derive(Clone, Debug)]
pub struct WriteTracker {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

/// The writes of the previous leader, as far as the new one knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// The previous leader released the Lease with the highest resourceVersions it had written, per resource. A cache
    /// that has reached them contains all its writes.
    Clean(BTreeMap<String, String>),
    /// The previous leader, if any, may have written until its fence closed.
    Unclean,
}

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    /// The time by which the server has abandoned every write without a response. On the monotonic clock, which cannot jump
    /// ahead.
    unknown: Option<Instant>,
    written: BTreeMap<String, Version>,
    /// The resources with a write whose resourceVersion is unknown.
    unversioned: BTreeSet<String>,
}

/// A write in flight. Dropping it without an outcome makes the outcome unknown.
#[derive(Debug)]
pub(super) struct TrackedWrite {
    writes: WriteTracker,
    resource: String,
    /// The maximum time for which the server works on it.
    deadline: Duration,
    known: bool,
}

impl WriteTracker {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Arc::default(),
        }
    }

    /// Returns true if no write can still be executed: none is in flight, and the server has abandoned those without a
    /// response.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let now = self.clock.now();
        let abandoned = |at| now > at;
        self.state(|state| state.in_flight == 0 && state.unknown.is_none_or(abandoned))
    }

    /// Returns the highest resourceVersion written, by resource.
    #[must_use]
    pub fn written(&self) -> BTreeMap<String, Version> {
        self.state(|state| state.written.clone())
    }

    /// Returns the resources with a write whose resourceVersion is unknown: its response was a `Status`, or there was none.
    /// The version in [`WriteTracker::written`] may be older than such a write.
    #[must_use]
    pub fn unversioned(&self) -> BTreeSet<String> {
        self.state(|state| state.unversioned.clone())
    }

    pub(super) fn begin(&self, resource: String, deadline: Duration) -> TrackedWrite {
        self.state(|state| state.in_flight += 1);
        TrackedWrite {
            writes: self.clone(),
            resource,
            deadline,
            known: false,
        }
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TrackedWrite {
    /// Records a successful write and the resourceVersion in its response, which may be none.
    pub(super) fn executed(mut self, version: Version) {
        self.known = true;
        let resource = std::mem::take(&mut self.resource);
        self.writes.state(|state| {
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

    /// Records a write that was rejected or not sent.
    pub(super) fn not_executed(mut self) {
        self.known = true;
    }
}

impl Drop for TrackedWrite {
    fn drop(&mut self) {
        let abandoned = later(self.writes.clock.now(), self.deadline);
        let resource = std::mem::take(&mut self.resource);
        self.writes.state(|state| {
            state.in_flight -= 1;
            if !self.known {
                state.unknown = state.unknown.max(Some(abandoned));
                state.unversioned.insert(resource);
            }
        });
    }
}
