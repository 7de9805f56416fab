//! How long owners wait for kinds that cannot be listed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::object::Uid;
use tokio::time::Instant;

use super::graph::PATIENCE;

/// When it is tried again: soon, and then less often.
const TRIES: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(20),
];

/// The owners that wait: since when, and how often it was tried.
#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<BTreeMap<Uid, (Instant, usize)>>);

impl Holds {
    /// One more try has failed. The time until the next one; none if it was waited long enough.
    pub(super) fn hold(&self, owner: &Uid, now: Instant) -> Option<Duration> {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, tries) = holds.entry(owner.clone()).or_insert((now, 0));
        if now.duration_since(*since) >= PATIENCE {
            return None;
        }
        let wait = TRIES[(*tries).min(TRIES.len() - 1)];
        *tries += 1;
        Some(wait)
    }

    /// An owner waits no more.
    pub(super) fn end(&self, owner: &Uid) {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        holds.remove(owner);
    }
}
