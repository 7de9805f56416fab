//! Whether the workers get on.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::controller::Unhealthy;
use coxswain_manager::env::Clock;
use coxswain_manager::object::Key;
use tokio::time::Instant;

/// How long a worker may be at one request, its wait for a token and its deadline included.
const STUCK: Duration = Duration::from_mins(5);
/// How long work may lie in front of a free worker.
const STALLED: Duration = Duration::from_mins(3);

/// What the workers are at.
#[derive(Debug)]
pub(super) struct Progress {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    running: BTreeMap<u64, (Key, Instant)>,
    /// When something last began or ended.
    moved: Instant,
}

/// A worker that is at something, until this is dropped.
pub(super) struct Busy<'a> {
    progress: &'a Progress,
    id: u64,
}

impl Progress {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            state: Mutex::new(State {
                next: 0,
                running: BTreeMap::new(),
                moved: clock.now(),
            }),
        }
    }

    pub(super) fn begin(&self, what: Key) -> Busy<'_> {
        let now = self.clock.now();
        let id = self.with(|state| {
            state.next += 1;
            state.moved = now;
            state.running.insert(state.next, (what, now));
            state.next
        });
        Busy { progress: self, id }
    }

    pub(super) fn running(&self) -> Vec<Key> {
        self.with(|state| state.running.values().map(|(key, _)| key.clone()).collect())
    }

    /// `waited` is how long the first in line of any queue has waited, and `workers` how many there are.
    pub(super) fn health(&self, waited: Duration, workers: usize) -> Result<(), Unhealthy> {
        let now = self.clock.now();
        self.with(|state| {
            let oldest = state.running.values().min_by_key(|(_, since)| *since);
            if let Some((key, at)) = oldest
                && now.duration_since(*at) > STUCK
            {
                return Err(Unhealthy::Stuck {
                    key: key.clone(),
                    since: now.duration_since(*at),
                    timeout: STUCK,
                });
            }
            let idle = now.duration_since(state.moved);
            if state.running.len() < workers && waited.min(idle) > STALLED {
                return Err(Unhealthy::Stalled { since: waited });
            }
            Ok(())
        })
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Busy<'_> {
    /// A request has come to its end: whoever has much to do is not stuck for it.
    pub(super) fn touch(&self) {
        let now = self.progress.clock.now();
        self.progress.with(|state| {
            if let Some((_, at)) = state.running.get_mut(&self.id) {
                *at = now;
            }
            state.moved = now;
        });
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let now = self.progress.clock.now();
        self.progress.with(|state| {
            state.running.remove(&self.id);
            state.moved = now;
        });
    }
}
