//! The election as this process observes it, for status pages.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::Config;
use crate::env::Clock;
use crate::object::Key;

/// The observed state of an election. Clones share it.
#[derive(Clone, Debug)]
pub struct ElectionStatus {
    clock: Clock,
    identity: Arc<str>,
    lease: Key,
    state: Arc<Mutex<ObservedElection>>,
}

/// A copy of the state at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedElection {
    /// The identity in the Lease. Empty if it has no holder, or was not read yet.
    pub holder: String,
    /// The number of times that the Lease changed its holder.
    pub transitions: i64,
    /// The start of the current term of this process; none on a standby.
    pub leading_since: Option<Timestamp>,
    /// The number of terms of this process.
    pub terms: u64,
}

impl ElectionStatus {
    pub(super) fn new(clock: &Clock, config: &Config) -> Self {
        Self {
            clock: clock.clone(),
            identity: config.identity.as_str().into(),
            lease: Key::new(config.namespace.as_str(), config.name.as_str()),
            state: Arc::default(),
        }
    }

    /// The identity of this process.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The namespace and the name of the Lease.
    #[must_use]
    pub fn lease(&self) -> &Key {
        &self.lease
    }

    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn observed(&self) -> ObservedElection {
        self.update(|state| state.clone())
    }

    pub(super) fn observe(&self, holder: &str, transitions: i64) {
        self.update(|state| {
            if state.holder != holder {
                holder.clone_into(&mut state.holder);
            }
            state.transitions = transitions;
        });
    }

    pub(super) fn begin_term(&self) {
        let now = self.clock.wall();
        self.update(|state| {
            state.leading_since = Some(now);
            state.terms += 1;
        });
    }

    pub(super) fn end_term(&self) {
        self.update(|state| state.leading_since = None);
    }

    fn update<T>(&self, with: impl FnOnce(&mut ObservedElection) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
