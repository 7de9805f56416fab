//! The state that the handles of a queue share, under one lock, with its wake-ups.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Item;
use super::delay_queue::DelayQueue;
use super::metrics::{Gauges, Meter, Registration, Series};
use super::rate_limiter::{Backoffs, RateLimiter};
use super::ready_queue::Priority;
use super::state_machine::{Added, Next, StateMachine};
use crate::env::{Clock, later};
use crate::sync::Mutex;

#[derive(Debug)]
pub(super) struct Shared<K: Item> {
    /// Separate from `Shared`, because the registry references it too. Otherwise a scrape could drop the last handle, and
    /// unregistering would deadlock on the registry's lock.
    pub(super) state: Arc<Mutex<State<K>>>,
    pub(super) clock: Clock,
    /// One notification per queued item, and all at shutdown.
    pub(super) ready: Notify,
    /// No item is processing, or a drain was cancelled.
    pub(super) idle: Notify,
    /// The earliest due time has changed, or the queue is shut down.
    pub(super) due: Arc<Notify>,
    pub(super) measured: Option<Measured<K>>,
}

/// The metrics of a queue and of those that replace it.
#[derive(Debug)]
pub(super) struct Measured<K> {
    pub(super) series: Series,
    /// The queue that the gauges read.
    pub(super) current: Arc<Mutex<Arc<Mutex<State<K>>>>>,
    pub(super) registration: Arc<Registration>,
}

#[derive(Debug)]
pub(super) struct State<K> {
    pub(super) items: StateMachine<K>,
    /// Empty once the queue is shut down.
    delay: DelayQueue<K>,
    pub(super) backoffs: Backoffs<K>,
    pub(super) meter: Option<Meter>,
    /// A shutdown waits for processing items. Unset by a shutdown that does not.
    pub(super) drain: bool,
}

/// The task that an add must wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wake {
    None,
    Worker,
    /// `enqueue_due`: the first due time has changed.
    Timer,
}

/// The next time at which a delayed item may be due.
enum NextWake {
    Until(Instant),
    UntilChanged,
    Never,
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

    pub(super) fn wake(&self, wake: Wake) {
        match wake {
            Wake::None => {}
            Wake::Worker => self.ready.notify_one(),
            Wake::Timer => self.due.notify_one(),
        }
    }

    pub(super) fn next(&self) -> Next<K> {
        let now = self.clock.now();
        self.lock(|state| {
            let next = state.items.next(now);
            if let (Next::Item(_, waited), Some(meter)) = (&next, &state.meter) {
                meter.handed_out(*waited);
            }
            next
        })
    }

    pub(super) fn shut_down(&self, drain: bool) {
        self.lock(|state| {
            state.items.shut_down();
            state.delay.clear();
            state.drain = drain;
        });
        self.ready.notify_waiters();
        self.idle.notify_waiters();
        self.due.notify_one();
    }

    /// Queues due items. Returns when to run again.
    fn enqueue_due(&self) -> NextWake {
        let now = self.clock.now();
        let mut queued = 0;
        let rest = self.lock(|state| {
            while let Some((item, priority)) = state.delay.pop(now) {
                queued += usize::from(state.add(item, priority, now) == Wake::Worker);
            }
            match state.delay.first_due() {
                _ if state.items.is_shutting_down() => NextWake::Never,
                None => NextWake::UntilChanged,
                Some(due) => NextWake::Until(due),
            }
        });
        (0..queued).for_each(|_| self.ready.notify_one());
        rest
    }
}

impl<K: Item> Drop for Shared<K> {
    fn drop(&mut self) {
        // Lets `enqueue_due` end.
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
            items: StateMachine::new(seed),
            delay: DelayQueue::new(),
            backoffs: Backoffs::new(Box::new(limiter)),
            meter,
            drain: false,
        }))
    }

    /// Adds `item` now, or when it is no longer [held](Self::hold).
    pub(super) fn add(&mut self, item: K, priority: Priority, now: Instant) -> Wake {
        if self.delay.is_held(&item, now) {
            return self.delay(item, now, priority);
        }
        let added = self.items.add(item, priority, now);
        self.count_added(added)
    }

    /// [`State::add`] before the other items of its namespace.
    pub(super) fn add_first(&mut self, item: K, now: Instant) -> Wake {
        if self.delay.is_held(&item, now) {
            return self.delay(item, now, Priority::Normal);
        }
        let added = self.items.add_first(item, now);
        self.count_added(added)
    }

    fn count_added(&self, added: Added) -> Wake {
        if let (Added::WhileProcessing | Added::Queued, Some(meter)) = (added, &self.meter) {
            meter.added();
        }
        if added == Added::Queued {
            Wake::Worker
        } else {
            Wake::None
        }
    }

    /// Holds an item that [`State::retry`] has delayed: no add queues it before `until`, not even an earlier one of this run.
    pub(super) fn hold(&mut self, item: K, until: Instant) -> Wake {
        // Delayed items are dropped.
        if self.items.is_shutting_down() {
            return Wake::None;
        }
        self.delay.hold(&item, until);
        match self.items.withdraw(&item) {
            Some(priority) => self.delay(item, until, priority),
            None => Wake::None,
        }
    }

    /// Adds `item` after `delay`.
    pub(super) fn retry(&mut self, item: K, delay: Duration, now: Instant) -> Wake {
        if self.items.is_shutting_down() {
            return Wake::None;
        }
        if let Some(meter) = &self.meter {
            meter.retried();
        }
        let priority = self.items.processing_priority(&item).unwrap_or(Priority::Normal);
        if delay.is_zero() {
            return self.add(item, priority, now);
        }
        self.delay(item, later(now, delay), priority)
    }

    fn delay(&mut self, item: K, due: Instant, priority: Priority) -> Wake {
        let first = self.delay.first_due();
        self.delay.push(item, due, priority);
        if self.delay.first_due() == first {
            Wake::None
        } else {
            Wake::Timer
        }
    }

    /// Flushes the meter to the metrics.
    pub(super) fn flush(&self) {
        if let Some(meter) = &self.meter {
            meter.flush();
        }
    }

    /// Flushes the meter and returns the gauges.
    pub(super) fn scrape(&self, now: Instant) -> Gauges {
        self.flush();
        let mut gauges = Gauges {
            depth: self.items.dirty(),
            oldest: self.items.oldest(now).map_or(Duration::ZERO, |(_, age)| age),
            ..Gauges::default()
        };
        for age in self.items.processing_times(now) {
            gauges.unfinished = gauges.unfinished.saturating_add(age);
            gauges.longest = gauges.longest.max(age);
        }
        gauges
    }
}

/// The task of a queue: enqueues delayed items when they are due, until the queue is shut down or dropped.
pub(super) async fn enqueue_due<K: Item>(queue: Weak<Shared<K>>, changed: Arc<Notify>, clock: Clock) {
    loop {
        match queue
            .upgrade()
            .map_or(NextWake::Never, |queue| queue.enqueue_due())
        {
            NextWake::Never => return,
            NextWake::UntilChanged => changed.notified().await,
            NextWake::Until(due) => tokio::select! {
                biased;
                () = changed.notified() => {}
                () = clock.sleep_until(due) => {}
            },
        }
    }
}

/// Ignores poisoning: only an item's own `Ord` or `Clone` can panic under the lock, which leaves the state usable.
pub(super) fn lock<S, T>(state: &Mutex<S>, with: impl FnOnce(&mut S) -> T) -> T {
    with(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}
