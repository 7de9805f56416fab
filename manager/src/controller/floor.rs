//! Where the workers of one term stand: from a key to a reconcile, and to what comes after it.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::inbox::{Cause, Inbox};
use super::metrics::{Ended, Metrics};
use super::{Action, Context, ReconcileError, Reconciler, Unhealthy};
use crate::client::{Client, Term};
use crate::env::Env;
use crate::object::Key;
use crate::panics;

/// How much longer than its timeout a reconcile may seem to run: a machine can be slow.
const GRACE: Duration = Duration::from_secs(30);
/// No server is believed that asks for a longer wait: the key would be lost.
const LONGEST_ASKED: Duration = Duration::from_mins(5);
/// The shortest wake-up that a failed reconcile is granted: with less it could run in circles past its backoff.
const AGAIN_MIN: Duration = Duration::from_secs(1);
/// How long work may lie in front of a free worker.
const STALLED: Duration = Duration::from_mins(3);

/// What the workers of one term share.
#[derive(Debug)]
pub(super) struct Floor<R> {
    pub(super) controller: Arc<str>,
    pub(super) reconciler: Arc<R>,
    /// In the term.
    pub(super) client: Client,
    pub(super) env: Env,
    pub(super) term: Term,
    pub(super) workers: usize,
    pub(super) timeout: Duration,
    pub(super) metrics: Arc<Metrics>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) work: Mutex<Work>,
}

/// What is going on.
#[derive(Debug)]
pub(super) struct Work {
    /// What is in a reconcile, and since when.
    running: BTreeMap<Key, Instant>,
    /// When a reconcile last began or ended.
    progress: Instant,
}

/// A reconcile that is going on, until this is dropped.
pub(super) struct Running<'a, R> {
    floor: &'a Floor<R>,
    key: &'a Key,
}

/// What a reconcile came to: none if it took too long, an error outside if it panicked.
type Outcome = Option<Result<Result<Action, ReconcileError>, Box<dyn Any + Send>>>;

impl<R: Reconciler> Floor<R> {
    /// One worker: reconciles key after key until `stop`.
    pub(super) async fn work(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                next = self.inbox.get() => next,
            };
            let Some((key, cause)) = next else { return };
            // Of the highest level: no filter on levels may take the name of the object from a line that is logged.
            let span = tracing::error_span!("reconcile", controller = %self.controller, %key, %cause);
            self.process(&key, cause, &stop).instrument(span).await;
            // A reconcile that finds nothing to do has not waited for anything, and there may be many of them.
            tokio::task::consume_budget().await;
        }
    }

    async fn process(&self, key: &Key, cause: Cause, stop: &CancellationToken) {
        let clock = &self.env.clock;
        let running = self.begin(key);
        let active = self.metrics.active();
        let start = clock.now();
        let context = Context {
            client: self.client.clone(),
            env: self.env.clone(),
            term: self.term,
            cause,
            stop: stop.clone(),
        };
        tracing::debug!("Reconciling");
        // Inside: what is done before the first await can panic too.
        let reconcile = async { self.reconciler.reconcile(context, key.clone()).await };
        let outcome = clock
            .timeout(self.timeout, AssertUnwindSafe(reconcile).catch_unwind())
            .await;
        let took = clock.now().duration_since(start);
        let ended = self.settle(key, outcome);
        self.metrics.ended(ended, took);
        drop(active);
        // Before the key can be in the hands of another worker.
        drop(running);
        self.inbox.queue.done(key);
    }

    /// Decides when the key is looked at again.
    fn settle(&self, key: &Key, outcome: Outcome) -> Ended {
        let queue = &self.inbox.queue;
        match outcome {
            Some(Ok(Ok(Action::Done))) => {
                queue.forget(key);
                Ended::Success
            }
            Some(Ok(Ok(Action::RequeueAfter(Duration::ZERO) | Action::Postpone(Duration::ZERO)))) => {
                queue.add_rate_limited(key.clone());
                Ended::Requeue
            }
            Some(Ok(Ok(Action::RequeueAfter(delay)))) => {
                queue.forget(key);
                queue.add_after(key.clone(), delay);
                Ended::RequeueAfter
            }
            Some(Ok(Ok(Action::Postpone(delay)))) => {
                queue.add_after(key.clone(), delay);
                Ended::RequeueAfter
            }
            Some(Ok(Err(error))) => self.failed(key, &error),
            Some(Err(panic)) => {
                queue.add_rate_limited(key.clone());
                let failures = queue.num_requeues(key);
                tracing::error!(panic = panics::message(&*panic), failures, "Reconcile panicked");
                Ended::Panic
            }
            None => {
                queue.add_rate_limited(key.clone());
                let (timeout_s, failures) = (self.timeout.as_secs_f64(), queue.num_requeues(key));
                tracing::error!(timeout_s, failures, "Reconcile took too long and was dropped");
                Ended::Timeout
            }
        }
    }

    fn failed(&self, key: &Key, error: &ReconcileError) -> Ended {
        let queue = &self.inbox.queue;
        if error.is_fenced() {
            tracing::info!(%error, "Reconcile was cut short by the end of the term");
            return Ended::Fenced;
        }
        if error.is_terminal() {
            queue.forget(key);
            tracing::error!(%error, "Reconcile failed, and is not tried again before the next event");
            return Ended::TerminalError;
        }
        let least = error.retry_after().unwrap_or_default().min(LONGEST_ASKED);
        queue.add_rate_limited_after(key.clone(), least);
        if let Some(within) = error.within() {
            queue.add_after(key.clone(), within.max(least).max(AGAIN_MIN));
        }
        let failures = queue.num_requeues(key);
        tracing::warn!(%error, failures, "Reconcile failed, and will be tried again");
        Ended::Error
    }
}

impl<R> Floor<R> {
    pub(super) fn begin<'a>(&'a self, key: &'a Key) -> Running<'a, R> {
        let now = self.env.clock.now();
        self.lock(|work| {
            work.running.insert(key.clone(), now);
            work.progress = now;
        });
        Running { floor: self, key }
    }

    pub(super) fn running(&self) -> Vec<Key> {
        self.lock(|work| work.running.keys().cloned().collect())
    }

    pub(super) fn health(&self) -> Result<(), Unhealthy> {
        let now = self.env.clock.now();
        let waited = self.inbox.queue.head_wait().unwrap_or_default();
        let (oldest, free, idle) = self.lock(|work| {
            let oldest = work.running.iter().min_by_key(|(_, since)| **since);
            let oldest = oldest.map(|(key, since)| (key.clone(), now.duration_since(*since)));
            let free = work.running.len() < self.workers;
            (oldest, free, now.duration_since(work.progress))
        });
        if let Some((key, since)) = oldest
            && since > self.timeout.saturating_add(GRACE)
        {
            let timeout = self.timeout;
            return Err(Unhealthy::Stuck { key, since, timeout });
        }
        if free && waited.min(idle) > STALLED {
            return Err(Unhealthy::Stalled { since: waited });
        }
        Ok(())
    }

    fn lock<T>(&self, with: impl FnOnce(&mut Work) -> T) -> T {
        with(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Work {
    /// Nothing, as of `now`.
    pub(super) fn none(now: Instant) -> Self {
        Self {
            running: BTreeMap::new(),
            progress: now,
        }
    }
}

impl<R> Drop for Running<'_, R> {
    fn drop(&mut self) {
        let now = self.floor.env.clock.now();
        self.floor.lock(|work| {
            work.running.remove(self.key);
            work.progress = now;
        });
    }
}
