//! The items that the workers of one term process, and the health that follows from them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::outcomes::{Outcomes, Waiting};
use super::{HealthLimits, Unhealthy};
use crate::env::Clock;
use crate::object::Key;

/// The time that an item may wait in a queue while workers are free and no other item starts or ends.
const STALLED_AFTER: Duration = Duration::from_mins(3);

#[derive(Debug)]
pub(super) struct Progress {
    clock: Clock,
    limits: HealthLimits,
    outcomes: Arc<Outcomes>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next_id: u64,
    /// By id, with the time of the last progress.
    running: BTreeMap<u64, (Key, Instant)>,
    /// The last time that an item started, ended or made progress.
    last: Instant,
}

/// An item in process, until this is dropped.
#[derive(Debug)]
pub(super) struct Busy {
    progress: Arc<Progress>,
    id: u64,
}

impl Progress {
    pub(super) fn new(clock: &Clock, limits: HealthLimits, outcomes: Arc<Outcomes>) -> Self {
        Self {
            clock: clock.clone(),
            limits,
            outcomes,
            state: Mutex::new(State {
                next_id: 0,
                running: BTreeMap::new(),
                last: clock.now(),
            }),
        }
    }

    pub(super) fn begin(self: &Arc<Self>, item: Key) -> Busy {
        let id = self.update(|state, now| {
            state.next_id += 1;
            state.running.insert(state.next_id, (item, now));
            state.next_id
        });
        Busy {
            progress: Arc::clone(self),
            id,
        }
    }

    pub(super) fn running(&self) -> Vec<Key> {
        let mut keys: Vec<Key> =
            self.lock(|state| state.running.values().map(|(key, _)| key.clone()).collect());
        keys.sort();
        keys
    }

    pub(super) fn len(&self) -> usize {
        self.lock(|state| state.running.len())
    }

    pub(super) fn outcomes(&self) -> &Arc<Outcomes> {
        &self.outcomes
    }

    /// `waiting` is the item that has waited for a worker for the longest time.
    pub(super) fn health(&self, waiting: Option<Waiting>) -> Result<(), Unhealthy> {
        let now = self.clock.now();
        let HealthLimits {
            workers,
            timeout,
            grace,
            wait: limit,
        } = self.limits;
        self.lock(|state| {
            let oldest = state.running.values().min_by_key(|(_, since)| *since);
            if let Some((key, since)) = oldest
                && now.duration_since(*since) > timeout.saturating_add(grace)
            {
                let (key, since) = (key.clone(), now.duration_since(*since));
                return Err(Unhealthy::Stuck { key, since, timeout });
            }
            let Some(Waiting {
                item: key,
                age: since,
            }) = waiting
            else {
                return Ok(());
            };
            let idle = now.duration_since(state.last);
            if state.running.len() < workers && since.min(idle) > STALLED_AFTER {
                return Err(Unhealthy::Stalled { key, since });
            }
            if since > limit {
                return Err(Unhealthy::Overdue { key, since, limit });
            }
            Ok(())
        })
    }

    fn update<T>(&self, with: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = self.clock.now();
        self.lock(|state| {
            state.last = now;
            with(state, now)
        })
    }

    fn lock<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Busy {
    pub(super) fn touch(&self) {
        self.progress.update(|state, now| {
            if let Some((_, since)) = state.running.get_mut(&self.id) {
                *since = now;
            }
        });
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.progress.outcomes.processed();
        self.progress.update(|state, _| state.running.remove(&self.id));
    }
}
