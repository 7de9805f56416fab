//! The work queue: between the events that say which objects to look at, and the workers that do.
//!
//! Its contract is that of client-go's `workqueue`:
//!
//! - An item is never in two workers at once, and any number of adds while it waits or is in process make one further run.
//! - First in, first out within a namespace. An add during processing is not lost: the item is queued again when it is
//!   done.
//! - [`Queue::add_after`] adds later, never early; of several times for one item the earliest counts. An add meanwhile does
//!   not cancel it.
//! - [`Queue::add_rate_limited`] adds after the backoff of the item, until [`Queue::forget`].
//! - [`Queue::shut_down`] refuses new items; what is queued is still handed out.
//!
//! Beyond client-go:
//!
//! - A failure counts once per backoff window (kubernetes#132805).
//! - Items can have a low [`Priority`] that gives way and is never starved (see [`LOW_PRIORITY_INTERVAL`]).
//! - Within a priority, namespaces take turns ([`Item::namespace`]): one hand-out each. While items of `m` namespaces are
//!   queued, the first item of a namespace is handed out among the next `m` of its priority, however many items another
//!   namespace enqueues.
//!
//! Layers: `core` (the state of each item) on `ready` (the order of hand-out) on `fair` and `list`; `delay`, `limit`
//! (backoff), `metrics`; `shared` holds them under one lock and moves items that are due; this file wakes and waits.
//! Nothing is awaited under the lock.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use coxswain_manager::env::{Env, TaskSet};
//! use coxswain_manager::queue::{Queue, default_limiter};
//!
//! let tasks = TaskSet::new();
//! let env = Env::system(&tasks);
//! let registry = prometheus::Registry::new();
//! let queue = Queue::named(&env, "pods", &registry, default_limiter())?;
//!
//! queue.add("default/web-0");
//! queue.add("default/web-0"); // the same work
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
//! # Ok::<_, coxswain_manager::queue::QueueError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod core;
mod delay;
mod fair;
mod limit;
mod list;
mod map;
mod metrics;
mod ready;
mod shared;

pub use self::limit::{Bucket, Exponential, FastSlow, MaxOf, MaxWait, RateLimiter, default_limiter};
pub use self::ready::{LOW_PRIORITY_INTERVAL, Priority};

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::time::Instant;

use self::core::Next;
use self::limit::Retries;
use self::metrics::Series;
use self::shared::{Measured, Retried, Shared, State, lock, move_due};
use crate::env::Env;
use crate::sync::Mutex;

/// Why a queue cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Its series are not to be had. A mistake in the program, most likely a second queue of that name.
    #[error("cannot register the metrics of work queue {name:?}")]
    Metrics {
        /// The name of the queue.
        name: String,
        /// What the registry says.
        source: prometheus::Error,
    },
}

/// A work queue. Clones are handles of the same one.
#[derive(Debug)]
pub struct Queue<K: Item>(Arc<Shared<K>>);

/// A type that can be queued: small, compared by value, cheap to clone.
pub trait Item: Clone + Ord + Hash + Debug + Send + 'static {
    /// The namespace that the item counts against. Items that belong to no namespace share the empty one.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "implementations return their own"
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
    /// A queue that is measured under `name` in `registry`.
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
        let series = Series::new(name).map_err(failed)?;
        let state = State::new(env.rng.number(), limiter, Some(series.meter()));
        let shown = Arc::new(Mutex::new(Arc::clone(&state)));
        let (scraped, clock) = (Arc::clone(&shown), env.clock.clone());
        let gauges = move || {
            let state = lock(&scraped, |state| Arc::clone(state));
            lock(&state, |state| state.scrape(clock.now()))
        };
        let registration = series.register(registry, gauges).map_err(failed)?;
        let measured = Measured {
            series,
            shown,
            registration: Arc::new(registration),
        };
        Ok(Self::start(env, state, Some(measured)))
    }

    /// A queue that is not measured.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn unnamed(env: &Env, limiter: impl RateLimiter<K> + 'static) -> Self {
        Self::start(env, State::new(env.rng.number(), limiter, None), None)
    }

    /// An empty queue in place of this one, which it shuts down: its series go on, with what is in the new one. Whoever
    /// still has a handle of the old one cannot put anything into the new one.
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
        lock(&measured.shown, |shown| *shown = Arc::clone(&state));
        // What was counted since the last scrape would be lost: nobody looks at the old one again.
        self.0.lock(|state| state.flush());
        let measured = Measured {
            series: measured.series.clone(),
            shown: Arc::clone(&measured.shown),
            registration: Arc::clone(&measured.registration),
        };
        Self::start(env, state, Some(measured))
    }

    fn start(env: &Env, state: Arc<Mutex<State<K>>>, measured: Option<Measured<K>>) -> Self {
        let shared = Arc::new(Shared::new(state, env.clock.clone(), measured));
        env.tasks.spawn(move_due(
            Arc::downgrade(&shared),
            Arc::clone(&shared.due),
            env.clock.clone(),
        ));
        Self(shared)
    }

    /// Queues an item now, unless it is queued already. While it is in process, it is queued when that is done.
    pub fn add(&self, item: K) {
        self.add_with_priority(item, Priority::Normal);
    }

    /// [`Queue::add`] with a priority. An item that is queued already is raised to it, behind its namespace's items of that
    /// priority.
    pub fn add_with_priority(&self, item: K, priority: Priority) {
        let now = self.0.clock.now();
        if self.0.lock(|state| state.add(item, priority, now)) {
            self.0.ready.notify_one();
        }
    }

    /// Queues an item after `delay`. One that is in process keeps its priority, others have the normal one.
    pub fn add_after(&self, item: K, delay: Duration) {
        self.retry(item, |_, _, _| delay);
    }

    /// Queues an item, which has failed, after its backoff. One that is in process keeps its priority, others have the
    /// normal one. If the backoff from an earlier failure has not ended, that is when it is queued, and the failure does
    /// not count.
    pub fn add_rate_limited(&self, item: K) {
        self.retry(item, Retries::when);
    }

    /// [`Queue::add_rate_limited`], but not before `least` has passed, however short the backoff is.
    pub fn add_rate_limited_after(&self, item: K, least: Duration) {
        self.retry(item, |retries, item, now| retries.when(item, now).max(least));
    }

    /// Ends the backoff of an item that has succeeded, or is given up. It stays where it is queued or waits, and must be
    /// [`Queue::done`] all the same.
    pub fn forget(&self, item: &K) {
        self.0.lock(|state| state.retries.forget(item));
    }

    /// How many failures of an item count.
    #[must_use]
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.0.lock(|state| state.retries.num_requeues(item))
    }

    /// The next item to process, when there is one; none once the queue is shut down and nothing is queued. Whoever gets an
    /// item says when it is [`Queue::done`].
    ///
    /// Cancel safe: no item and no wake-up is lost with the future.
    pub async fn get(&self) -> Option<K> {
        match self.0.next() {
            Next::Item(item, _) => return Some(item),
            Next::End => return None,
            Next::Wait => {}
        }
        loop {
            // In line before looking, or the notification of an item that comes in between would go past.
            let mut ready = std::pin::pin!(self.0.ready.notified());
            ready.as_mut().enable();
            match self.0.next() {
                Next::Item(item, _) => return Some(item),
                Next::End => return None,
                Next::Wait => ready.await,
            }
        }
    }

    /// An item is no longer in process. Without effect if it is not.
    pub fn done(&self, item: &K) {
        let now = self.0.clock.now();
        let done = self.0.lock(|state| {
            let done = state.core.done(item, now)?;
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

    /// How many items can be handed out: not those that wait for their time, nor those wanted again while in process.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock(|state| state.core.len())
    }

    /// Whether nothing can be handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the next item has waited to be handed out, the longer of both priorities; none if nothing can be.
    #[must_use]
    pub fn head_wait(&self) -> Option<Duration> {
        let now = self.0.clock.now();
        self.0.lock(|state| state.core.waited(now))
    }

    /// Refuses new items and drops those that wait for their time. What is queued, and what is wanted again while it is in
    /// process, is still handed out; then [`Queue::get`] gives none. Calls off a draining.
    pub fn shut_down(&self) {
        self.0.shut_down(false);
    }

    /// [`Queue::shut_down`], then waits until nothing is in process; for ever, if a worker does not say that it is done.
    ///
    /// As in client-go, it does not wait for what is queued and in no worker's hands at that moment: to know that
    /// everything is done, join the workers. Cancel safe; the queue stays shut down.
    pub async fn shut_down_with_drain(&self) {
        self.0.shut_down(true);
        loop {
            // Before looking: `notify_waiters` reaches all that were made before it, whether they were polled or not.
            let idle = self.0.idle.notified();
            if self.0.lock(|state| state.core.is_idle() || !state.drain) {
                return;
            }
            idle.await;
        }
    }

    /// Whether the queue refuses new items.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.lock(|state| state.core.is_shutting_down())
    }

    /// Adds later, after what `delay` says.
    fn retry(&self, item: K, delay: impl FnOnce(&mut Retries<K>, &K, Instant) -> Duration) {
        let now = self.0.clock.now();
        let retried = self.0.lock(|state| {
            // The limiter is charged also for what is then refused, as in client-go.
            let delay = delay(&mut state.retries, &item, now);
            state.retry(item, delay, now)
        });
        match retried {
            Retried::Nothing => {}
            Retried::Queued => self.0.ready.notify_one(),
            Retried::First => self.0.due.notify_one(),
        }
    }
}

// Not derived: a handle can be cloned whatever it is that is queued.
impl<K: Item> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
