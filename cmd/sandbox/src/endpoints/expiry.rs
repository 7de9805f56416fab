//! The TTL of Events: the server deletes an Event one hour after its last write (`--event-ttl=1h0m0s`).
//!
//! Each request, and each frame of a watch, deletes the expired Events first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::endpoints::Api;
use crate::storage::Object;

pub(super) const EVENTS: &str = "events";
const EVENT_TTL: Duration = Duration::from_hours(1);

/// A queue of written Events, ordered by expiry: expiry time, revision and key.
#[derive(Default)]
pub(crate) struct Expiries(Mutex<VecDeque<(Instant, u64, String)>>);

impl Expiries {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, u64, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fork(&self) -> Self {
        Self(Mutex::new(self.lock().clone()))
    }
}

impl Api {
    pub(super) fn schedule_expiry(&self, event: &Object) {
        let at = self.env.instant() + EVENT_TTL;
        let entry = (at, event.revision, event.key.clone());
        self.expiries.lock().push_back(entry);
    }

    /// Returns the earliest scheduled expiry.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.lock().front().map(|(at, ..)| *at)
    }

    pub(crate) fn expire_events(&self) {
        let mut expiries = self.expiries.lock();
        let now = self.env.instant();
        while expiries.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, revision, key)) = expiries.pop_front() else {
                return;
            };
            // This fails for an Event that was written again; its new revision has its own expiry.
            let _ = self.store.remove(EVENTS, &key, revision);
        }
    }
}
