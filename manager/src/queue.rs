//! Work queue with the contract of client-go's `workqueue`.
//!
//! - An item is never processed by two workers at once. Any number of adds while it is queued or processing cause one
//!   further run.
//! - First in, first out within a namespace. An item that is added while processing is queued again when it is done.
//! - [`Queue::add_after`] adds after a delay, never early; of several delays for one item the earliest counts. An add in
//!   the meantime does not cancel it.
//! - [`Queue::add_rate_limited`] adds after the backoff of the item, until [`Queue::forget`].
//! - [`Queue::shut_down`] rejects new items; queued items are still handed out.
//!
//! Beyond client-go:
//!
//! - A failure counts once per backoff window (kubernetes#132805).
//! - An item whose request the API server postpones is held for the Retry-After ([`Queue::add_rate_limited_after`]).
//! - Items can have a low [`Priority`] that is never starved (see [`LOW_PRIORITY_INTERVAL`]).
//! - Within a priority the queue is fair: namespaces take turns ([`Item::namespace`]). While items of `m` namespaces are
//!   queued, the first item of a namespace is among the next `m` of its priority, however many items another namespace
//!   enqueues.
//!
//! Modules: `state_machine` (the state of each item) on `ready_queue` (the order of hand-out) on `fair_queue` and
//! `linked_list`; `delay_queue`, `rate_limiter` (backoff), `metrics`; `shared` holds them under one lock and enqueues delayed
//! items. The lock is never held across an await.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use steersman_manager::env::{Env, TaskSet};
//! use steersman_manager::queue::{Queue, default_limiter};
//!
//! let tasks = TaskSet::new();
//! let env = Env::system(&tasks);
//! let registry = steersman_manager::metrics::Registry::new("example");
//! let queue = Queue::named(&env, "pods", &registry, default_limiter())?;
//!
//! queue.add("default/web-0");
//! queue.add("default/web-0"); // deduplicated
//! queue.shut_down();
//!
//! // A worker:
//! while let Some(key) = queue.get().await {
//!     let synced: Result<(), &str> = Ok(());
//!     match synced {
//!         Ok(()) => queue.forget(&key),
//!         Err(_) => queue.add_rate_limited(key),
//!     }
//!     queue.done(&key);
//! }
//! # Ok::<_, steersman_manager::queue::QueueError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod delay_queue;
mod fair_queue;
mod linked_list;
mod metrics;
mod rate_limiter;
mod ready_queue;
mod seeded_map;
mod shared;
mod state_machine;

pub use self::rate_limiter::{Bucket, Exponential, FastSlow, MaxOf, MaxWait, RateLimiter, default_limiter};
pub use self::ready_queue::{LOW_PRIORITY_INTERVAL, Priority};

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::Registry;
use tokio::time::Instant;

use self::metrics::Series;
use self::rate_limiter::Backoffs;
use self::shared::{Measured, Shared, State, enqueue_due, lock};
use self::state_machine::Next;
use crate::env::{Env, later};
use crate::sync::Mutex;

/// Errors while a queue is built.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// A programming error, most likely a second queue of that name.
    #[error("failed to register metrics of work queue {name:?}")]
    Metrics {
        /// The name of the queue.
        name: String,
        /// The error of the registry.
        source: prometheus::Error,
    },
}

/// A work queue. Clones are handles of the same queue.
#[derive(Debug)]
pub struct Queue<K: Item>(Arc<Shared<K>>);

/// An item of a queue: small, compared by value, cheap to clone.
pub trait Item: Clone + Ord + Hash + Debug + Send + 'static {
    /// Returns the namespace of the item. Cluster-scoped items share the empty one.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "implementations return a borrowed name"
    )]
    fn namespace(&self) -> &str {
        ""
    }
}

impl Item for &'static str {}
impl Item for String {}
impl Item for i32 {}
impl Item for u32 {}
impl Item for u64 {}
impl Item for usize {}

impl<K: Item> Queue<K> {
    /// Returns a queue whose metrics are registered under `name`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn named(
        env: &Env,
        name: &str,
        registry: &Registry,
        limiter: impl RateLimiter<K> + 'static,
    ) -> Result<Self, QueueError> {
        let failed = |source| QueueError::Metrics {
            name: name.to_owned(),
            source,
        };
        let series = Series::new(name, registry).map_err(failed)?;
        let state = State::new(env.rng.number(), limiter, Some(series.meter()));
        let current = Arc::new(Mutex::new(Arc::clone(&state)));
        let (scraped, clock) = (Arc::clone(&current), env.clock.clone());
        let gauges = move || {
            let state = lock(&scraped, |state| Arc::clone(state));
            lock(&state, |state| state.scrape(clock.now()))
        };
        let registration = series.register(registry, gauges).map_err(failed)?;
        let measured = Measured {
            series,
            current,
            registration: Arc::new(registration),
        };
        Ok(Self::start(env, state, Some(measured)))
    }

    /// Returns a queue without metrics.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn unnamed(env: &Env, limiter: impl RateLimiter<K> + 'static) -> Self {
        Self::start(env, State::new(env.rng.number(), limiter, None), None)
    }

    /// Shuts this queue down and returns an empty one that continues its metrics. Handles of the old queue cannot add to the
    /// new one.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn replace(&self, env: &Env, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.shut_down();
        let Some(measured) = &self.0.measured else {
            return Self::unnamed(env, limiter);
        };
        let state = State::new(env.rng.number(), limiter, Some(measured.series.meter()));
        lock(&measured.current, |current| *current = Arc::clone(&state));
        // The old queue is not scraped again.
        self.0.lock(|state| state.flush());
        let measured = Measured {
            series: measured.series.clone(),
            current: Arc::clone(&measured.current),
            registration: Arc::clone(&measured.registration),
        };
        Self::start(env, state, Some(measured))
    }

    fn start(env: &Env, state: Arc<Mutex<State<K>>>, measured: Option<Measured<K>>) -> Self {
        let shared = Arc::new(Shared::new(state, env.clock.clone(), measured));
        env.tasks.spawn(enqueue_due(
            Arc::downgrade(&shared),
            Arc::clone(&shared.due),
            env.clock.clone(),
        ));
        Self(shared)
    }

    /// Queues an item, unless it is queued already. An item that is processing is queued again when it is done.
    pub fn add(&self, item: K) {
        self.add_with_priority(item, Priority::Normal);
    }

    /// [`Queue::add`] with a priority. A queued item is raised to it and moves behind the items of its namespace with that
    /// priority.
    pub fn add_with_priority(&self, item: K, priority: Priority) {
        let now = self.0.clock.now();
        self.0.wake(self.0.lock(|state| state.add(item, priority, now)));
    }

    /// [`Queue::add`], but before the other items of its namespace: for an item that was handed out in its turn and had to wait for
    /// an answer. Namespaces still take turns. An item that is queued already keeps its position.
    pub fn add_first(&self, item: K) {
        let now = self.0.clock.now();
        self.0.wake(self.0.lock(|state| state.add_first(item, now)));
    }

    /// Queues an item after `delay`. An item that is processing keeps its priority; others get the normal one.
    pub fn add_after(&self, item: K, delay: Duration) {
        self.retry(item, |_, _, _| delay);
    }

    /// Queues a failed item after its backoff. An item that is processing keeps its priority; others get the normal one.
    /// While the backoff of an earlier failure lasts, the item is queued at its end, and the failure does not count.
    pub fn add_rate_limited(&self, item: K) {
        self.retry(item, Backoffs::when);
    }

    /// [`Queue::add_rate_limited`], but not before `least` has passed, not even by another add: for an item whose request the
    /// API server postpones.
    pub fn add_rate_limited_after(&self, item: K, least: Duration) {
        let now = self.0.clock.now();
        let wake = self.0.lock(|state| {
            let delay = state.backoffs.when(&item, now).max(least);
            let wake = state.retry(item.clone(), delay, now);
            if least.is_zero() {
                return wake;
            }
            wake.max(state.hold(item, later(now, least)))
        });
        self.0.wake(wake);
    }

    /// Resets the backoff of an item that has succeeded or is given up. It does not remove the item from the queue, and
    /// [`Queue::done`] must still be called.
    pub fn forget(&self, item: &K) {
        self.0.lock(|state| state.backoffs.forget(item));
    }

    /// Returns the number of failures of an item that count.
    #[must_use]
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.0.lock(|state| state.backoffs.num_requeues(item))
    }

    /// Waits for the next item; none once the queue is shut down and empty. The caller must call [`Queue::done`] for each
    /// item.
    ///
    /// Cancel safe: dropping the future loses neither an item nor a wake-up.
    pub async fn get(&self) -> Option<K> {
        match self.0.next() {
            Next::Item(item, _) => return Some(item),
            Next::End => return None,
            Next::Wait => {}
        }
        loop {
            // Register before checking, or a notification in between is lost.
            let mut ready = std::pin::pin!(self.0.ready.notified());
            ready.as_mut().enable();
            match self.0.next() {
                Next::Item(item, _) => return Some(item),
                Next::End => return None,
                Next::Wait => ready.await,
            }
        }
    }

    /// Marks an item as no longer processing. Does nothing if it is not processing.
    pub fn done(&self, item: &K) {
        let now = self.0.clock.now();
        let done = self.0.lock(|state| {
            let done = state.items.done(item, now)?;
            if let Some(meter) = &state.meter {
                meter.done(done.took);
            }
            Some((done.queued, done.idle && state.drain))
        });
        let Some((queued, drained)) = done else { return };
        if queued {
            self.0.ready.notify_one();
        }
        if drained {
            self.0.idle.notify_waiters();
        }
    }

    /// Returns the number of queued items, without delayed items and those added while processing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock(|state| state.items.len())
    }

    /// Reports whether no item is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item that has been queued for the longest time, with that time; none if the queue is empty. Only the first
    /// item of each namespace and priority is considered: an item that was raised to a higher priority may be older.
    #[must_use]
    pub fn oldest(&self) -> Option<(K, Duration)> {
        let now = self.0.clock.now();
        self.0.lock(|state| state.items.oldest(now))
    }

    /// Rejects new items and drops delayed ones. Queued items, and those added while processing, are still handed out; then
    /// [`Queue::get`] returns none. Cancels a drain.
    pub fn shut_down(&self) {
        self.0.shut_down(false);
    }

    /// [`Queue::shut_down`], then waits until no item is processing. It never returns if a worker does not call
    /// [`Queue::done`].
    ///
    /// As in client-go, it does not wait for items that are queued at that moment: join the workers to know that everything is
    /// done. Cancel safe; the queue stays shut down.
    pub async fn shut_down_with_drain(&self) {
        self.0.shut_down(true);
        loop {
            // Before checking: `notify_waiters` reaches all futures created before it, polled or not.
            let idle = self.0.idle.notified();
            if self.0.lock(|state| state.items.is_idle() || !state.drain) {
                return;
            }
            idle.await;
        }
    }

    /// Reports whether the queue rejects new items.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.lock(|state| state.items.is_shutting_down())
    }

    /// Adds after the delay that `delay` computes.
    fn retry(&self, item: K, delay: impl FnOnce(&mut Backoffs<K>, &K, Instant) -> Duration) {
        let now = self.0.clock.now();
        let wake = self.0.lock(|state| {
            // As in client-go, the limiter is charged even if the queue is shut down.
            let delay = delay(&mut state.backoffs, &item, now);
            state.retry(item, delay, now)
        });
        self.0.wake(wake);
    }
}

// Not derived: that would require `K: Clone`.
impl<K: Item> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
