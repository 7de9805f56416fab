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
    running: BTreeMap<u64, Running>,
    /// The last time that an item started, ended or made progress.
    last: Instant,
}

#[derive(Debug)]
struct Running {
    item: Key,
    /// The last progress.
    since: Instant,
    /// The number of its parts that wait for other items.
    waits: usize,
}

/// An item in process, until this is dropped.
#[derive(Debug)]
pub(super) struct Busy {
    progress: Arc<Progress>,
    id: u64,
}

/// A wait for other items, until this is dropped.
pub(super) struct Waits(Arc<Busy>);

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
            let running = Running {
                item,
                since: now,
                waits: 0,
            };
            state.running.insert(state.next_id, running);
            state.next_id
        });
        Busy {
            progress: Arc::clone(self),
            id,
        }
    }

    pub(super) fn running(&self) -> Vec<Key> {
        let mut keys: Vec<Key> =
            self.lock(|state| state.running.values().map(|it| it.item.clone()).collect());
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
            let working = state.running.values().filter(|it| it.waits == 0);
            if let Some(oldest) = working.min_by_key(|it| it.since)
                && now.duration_since(oldest.since) > timeout.saturating_add(grace)
            {
                let (key, since) = (oldest.item.clone(), now.duration_since(oldest.since));
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
        self.change(|_| {});
    }

    /// The item waits for other items until the result is dropped.
    pub(super) fn wait(self: &Arc<Self>) -> Waits {
        self.change(|running| running.waits += 1);
        Waits(Arc::clone(self))
    }

    fn change(&self, with: impl FnOnce(&mut Running)) {
        self.progress.update(|state, now| {
            if let Some(running) = state.running.get_mut(&self.id) {
                running.since = now;
                with(running);
            }
        });
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.change(|running| running.waits -= 1);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let running = self.progress.update(|state, _| state.running.remove(&self.id));
        if let Some(running) = running {
            self.progress.outcomes.processed(running.item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    use crate::env::{Env, TaskSet};

    const MINUTE: Duration = Duration::from_mins(1);

    fn progress(tasks: &TaskSet) -> (Clock, Arc<Progress>) {
        let clock = Env::starting_at(Timestamp::UNIX_EPOCH, 0, tasks).clock;
        let limits = HealthLimits {
            workers: 2,
            timeout: 5 * MINUTE,
            grace: Duration::ZERO,
            wait: Duration::from_hours(1),
        };
        let outcomes = Arc::new(Outcomes::new(&clock));
        let progress = Arc::new(Progress::new(&clock, limits, outcomes));
        (clock, progress)
    }

    #[tokio::test(start_paused = true)]
    async fn item_is_stuck_unless_it_makes_progress_or_waits_for_others() {
        let tasks = TaskSet::new();
        let (clock, progress) = progress(&tasks);
        let busy = Arc::new(progress.begin(Key::cluster("a")));
        clock.sleep(4 * MINUTE).await;
        busy.touch();
        clock.sleep(5 * MINUTE).await;
        assert!(progress.health(None).is_ok());
        let waits = [busy.wait(), busy.wait()];
        clock.sleep(60 * MINUTE).await;
        assert!(progress.health(None).is_ok());
        let [first, second] = waits;
        drop(first);
        clock.sleep(60 * MINUTE).await;
        assert!(progress.health(None).is_ok());
        drop(second);
        clock.sleep(5 * MINUTE).await;
        assert!(progress.health(None).is_ok());
        clock.sleep(MINUTE).await;
        let stuck = progress.health(None).expect_err("no progress for six minutes");
        assert!(matches!(stuck, Unhealthy::Stuck { .. }), "{stuck}");
    }
}
