//! The TTL of Events: the server removes an Event one hour after its last write, as with `--event-ttl=1h0m0s`.
//!
//! Expired Events are removed before the next request and before the next frame of a watch of Events.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::endpoints::Api;
use crate::storage::{Draft, Object};

pub(super) const EVENTS: &str = "events";
const EVENT_TTL: Duration = Duration::from_hours(1);

/// Written Events in the order of their expiry: when, which revision, which key.
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
    /// Notes when an Event that was just written expires.
    pub(super) fn schedule_expiry(&self, event: &Object) {
        let at = self.env.instant() + EVENT_TTL;
        let entry = (at, event.revision, event.key.clone());
        self.expiries.lock().push_back(entry);
    }

    /// When the next Event may expire.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.lock().front().map(|(at, ..)| *at)
    }

    /// Removes every Event whose TTL is over.
    pub(crate) fn expire_events(&self) {
        let mut expiries = self.expiries.lock();
        let now = self.env.instant();
        while expiries.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, revision, key)) = expiries.pop_front() else {
                return;
            };
            let Some(event) = self.store.get(EVENTS, &key) else {
                continue;
            };
            let last = Draft {
                value: event.value().clone(),
                shape: event.shape,
                fields: event.fields.clone(),
            };
            // Another write since then has started a TTL of its own.
            let _ = self.store.remove(EVENTS, &key, revision, last);
        }
    }
}
