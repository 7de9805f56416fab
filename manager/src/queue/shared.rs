//! What the handles of a queue share: the layers under one lock, and who waits for what.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Item;
use super::core::{Added, Core, Next};
use super::delay::Delay;
use super::limit::{RateLimiter, Retries};
use super::metrics::{Gauges, Meter, Registration, Series};
use super::ready::Priority;
use crate::env::{Clock, later};
use crate::sync::Mutex;

#[derive(Debug)]
pub(super) struct Shared<K: Item> {
    /// Apart from the rest, because the registry reaches it too; were it the rest, the last handle could be dropped in the
    /// middle of a scrape, whose lock taking the series out again needs.
    pub(super) state: Arc<Mutex<State<K>>>,
    pub(super) clock: Clock,
    /// One notification per item that becomes ready, and all at shutdown.
    pub(super) ready: Notify,
    /// Nothing is in process, or draining was called off.
    pub(super) idle: Notify,
    /// The first due time has changed, or there is nothing more to wait for.
    pub(super) due: Arc<Notify>,
    pub(super) measured: Option<Measured<K>>,
}

/// How a queue is measured: shared with those that come after it.
#[derive(Debug)]
pub(super) struct Measured<K> {
    pub(super) series: Series,
    /// The one of these queues that the gauges look at.
    pub(super) shown: Arc<Mutex<Arc<Mutex<State<K>>>>>,
    pub(super) registration: Arc<Registration>,
}

#[derive(Debug)]
pub(super) struct State<K> {
    pub(super) core: Core<K>,
    /// Empty once the queue shuts down.
    delay: Delay<K>,
    pub(super) retries: Retries<K>,
    pub(super) meter: Option<Meter>,
    /// A shutdown waits for what is in process. Unset by one that does not.
    pub(super) drain: bool,
}

/// What a retry came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retried {
    /// Nobody need know.
    Nothing,
    /// It is queued: wake a worker.
    Queued,
    /// The first due time has changed: wake who moves what is due.
    First,
}

/// How long there is nothing to move.
enum Rest {
    Until(Instant),
    UntilChanged,
    Ever,
}

impl<K: Item> Shared<K> {
    pub(super) fn new(state: Arc<Mutex<State<K>>>, clock: Clock, measured: Option<Measured<K>>) -> Self {
        Self {
            state,
            clock,
            ready: Notify::new(),
            idle: Notify::new(),
            due: Arc::new(Notify::new()),
            measured,
        }
    }

    pub(super) fn lock<T>(&self, with: impl FnOnce(&mut State<K>) -> T) -> T {
        lock(&self.state, with)
    }

    pub(super) fn next(&self) -> Next<K> {
        let now = self.clock.now();
        self.lock(|state| {
            let next = state.core.next(now);
            if let (Next::Item(_, waited), Some(meter)) = (&next, &state.meter) {
                meter.handed_out(*waited);
            }
            next
        })
    }

    pub(super) fn shut_down(&self, drain: bool) {
        self.lock(|state| {
            state.core.shut_down();
            state.delay.clear();
            state.drain = drain;
        });
        self.ready.notify_waiters();
        self.idle.notify_waiters();
        self.due.notify_one();
    }

    /// Queues what is due, and says how long there is nothing to do.
    fn move_due(&self) -> Rest {
        let now = self.clock.now();
        let mut queued = 0;
        let rest = self.lock(|state| {
            while let Some((item, priority)) = state.delay.pop(now) {
                queued += usize::from(state.add(item, priority, now));
            }
            match state.delay.first_due() {
                _ if state.core.is_shutting_down() => Rest::Ever,
                None => Rest::UntilChanged,
                Some(due) => Rest::Until(due),
            }
        });
        (0..queued).for_each(|_| self.ready.notify_one());
        rest
    }
}

impl<K: Item> Drop for Shared<K> {
    fn drop(&mut self) {
        // Lets `move_due` see that nobody needs it any more.
        self.due.notify_one();
    }
}

impl<K: Item> State<K> {
    pub(super) fn new(
        seed: u64,
        limiter: impl RateLimiter<K> + 'static,
        meter: Option<Meter>,
    ) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            core: Core::new(seed),
            delay: Delay::new(),
            retries: Retries::new(Box::new(limiter)),
            meter,
            drain: false,
        }))
    }

    /// True if a worker must be woken.
    pub(super) fn add(&mut self, item: K, priority: Priority, now: Instant) -> bool {
        let added = self.core.add(item, priority, now);
        if let (Added::Later | Added::Queued, Some(meter)) = (added, &self.meter) {
            meter.added();
        }
        added == Added::Queued
    }

    /// Lets `item` wait for `delay`, or queues it at once if there is none.
    pub(super) fn retry(&mut self, item: K, delay: Duration, now: Instant) -> Retried {
        if self.core.is_shutting_down() {
            return Retried::Nothing;
        }
        if let Some(meter) = &self.meter {
            meter.retried();
        }
        let priority = self.core.priority_in_process(&item).unwrap_or(Priority::Normal);
        if delay.is_zero() {
            let queued = self.add(item, priority, now);
            return if queued { Retried::Queued } else { Retried::Nothing };
        }
        let first = self.delay.first_due();
        self.delay.push(item, later(now, delay), priority);
        if self.delay.first_due() == first {
            Retried::Nothing
        } else {
            Retried::First
        }
    }

    /// Hands what was counted to the series.
    pub(super) fn flush(&self) {
        if let Some(meter) = &self.meter {
            meter.flush();
        }
    }

    /// Brings the series up to date, but for what is returned.
    pub(super) fn scrape(&self, now: Instant) -> Gauges {
        self.flush();
        let mut gauges = Gauges {
            depth: self.core.wanted(),
            ..Gauges::default()
        };
        for age in self.core.ages(now) {
            gauges.unfinished = gauges.unfinished.saturating_add(age);
            gauges.longest = gauges.longest.max(age);
        }
        gauges
    }
}

/// The task of a queue: adds what waits when it is due, until the queue is shut down or dropped.
pub(super) async fn move_due<K: Item>(queue: Weak<Shared<K>>, changed: Arc<Notify>, clock: Clock) {
    loop {
        match queue.upgrade().map_or(Rest::Ever, |queue| queue.move_due()) {
            Rest::Ever => return,
            Rest::UntilChanged => changed.notified().await,
            Rest::Until(due) => tokio::select! {
                biased;
                () = changed.notified() => {}
                () = clock.sleep_until(due) => {}
            },
        }
    }
}

/// A panic under the lock can only come from an item's own `Ord` or `Clone`; the state is whole enough to go on.
pub(super) fn lock<S, T>(state: &Mutex<S>, with: impl FnOnce(&mut S) -> T) -> T {
    with(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}
