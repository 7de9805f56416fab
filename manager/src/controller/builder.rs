//! A controller with one queue: its sources, its reconciler and its terms.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::Registry;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::key_queue::KeyQueue;
use super::metrics::Metrics;
use super::reconcile::Reconciles;
use super::runtime::{HealthLimits, Runtime, Workers};
use super::{
    Activity, ControllerError, Fatal, Options, RecentError, Reconciler, Request, Runnable, Unhealthy,
};
use crate::client::{Fence, Reader, Term};
use crate::env::Env;
use crate::object::{Key, Object};
use crate::panics;
use crate::queue::Queue;
use crate::source::{AnySource, EventSource, InitialKeys, Source, Trigger};

/// The time after its timeout before a reconcile is reported as stuck: the machine may be slow.
const STUCK_GRACE: Duration = Duration::from_secs(30);
/// The time that a key may wait in the queue while all workers are busy.
const WAIT_MAX: Duration = Duration::from_mins(30);
/// The minimum of [`Options::resync`].
const RESYNC_MIN: Duration = Duration::from_secs(1);
/// The time that a source may have no event, bookmark or reconnect. An idle watch is reopened after three minutes, and a
/// Retry-After of five minutes is honoured.
const SILENCE_MAX: Duration = Duration::from_mins(10);

/// Builds a [`QueueController`].
#[must_use]
pub struct Builder<R, Q = Key> {
    name: String,
    options: Options<Q>,
    reconciler: R,
    sources: Vec<Box<dyn AnySource<Q>>>,
}

/// A controller with one queue. It does nothing but register its metrics until it is [run](Runnable::run).
pub struct QueueController<R, Q: Request = Key> {
    runtime: Runtime<KeyQueue<Q>, ()>,
    options: Options<Q>,
    reconciler: Arc<R>,
    sources: Arc<[Box<dyn AnySource<Q>>]>,
    env: Env,
    client: Reader,
    metrics: Arc<Metrics>,
}

impl<Q: Request, R: Reconciler<Q>> Builder<R, Q> {
    #[expect(missing_docs, reason = "plain constructor")]
    pub fn new(name: impl Into<String>, options: Options<Q>, reconciler: R) -> Self {
        Self {
            name: name.into(),
            options,
            reconciler,
            sources: Vec::new(),
        }
    }

    /// Adds a source of keys.
    pub fn watch<T: Object>(mut self, source: Source<T, impl EventSource<T>, Q>) -> Self {
        self.sources.push(Box::new(source));
        self
    }

    /// Adds sources of any kind.
    pub(super) fn sources(mut self, sources: Vec<Box<dyn AnySource<Q>>>) -> Self {
        self.sources.extend(sources);
        self
    }

    /// Adds a trigger as a source.
    pub fn triggered_by(mut self, trigger: &Trigger<Q>) -> Self {
        self.sources.push(Box::new(trigger.clone()));
        self
    }

    /// Enqueues these keys at the start of each term: for objects that the controller creates, which have no event yet.
    pub fn at_start(mut self, keys: impl IntoIterator<Item = Q>) -> Self {
        self.sources
            .push(Box::new(InitialKeys(keys.into_iter().collect())));
        self
    }

    /// Builds the controller and registers its metrics. Each reconcile gets `client`, fenced by its term.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(
        self,
        env: &Env,
        client: Reader,
        registry: &Registry,
    ) -> Result<QueueController<R, Q>, ControllerError> {
        let Self {
            name,
            options,
            reconciler,
            sources,
        } = self;
        if options.workers == 0 {
            return Err(ControllerError::NoWorkers { name });
        }
        if options.timeout.is_zero() {
            return Err(ControllerError::NoTimeout { name });
        }
        let metrics = match Metrics::register(&name, options.workers, registry) {
            Ok(metrics) => metrics,
            Err(source) => return Err(ControllerError::Metrics { name, source }),
        };
        let queue_name = options.queue.as_deref().unwrap_or(&name);
        let queue = match Queue::named(env, queue_name, registry, (options.limiter)()) {
            Ok(queue) => KeyQueue::new(queue, options.limiter),
            Err(source) => return Err(ControllerError::Queue { name, source }),
        };
        let limits = HealthLimits {
            workers: options.workers,
            timeout: options.timeout,
            grace: STUCK_GRACE,
            wait: WAIT_MAX,
        };
        Ok(QueueController {
            runtime: Runtime::new(&name, env, limits, queue),
            options,
            reconciler: Arc::new(reconciler),
            sources: sources.into(),
            env: env.clone(),
            client,
            metrics: Arc::new(metrics),
        })
    }
}

impl<Q: Request, R: Reconciler<Q>> QueueController<R, Q> {
    async fn synced(&self) -> Result<(), Fatal> {
        for source in self.sources.iter() {
            source.synced().await;
        }
        Ok(())
    }

    fn start(&self, fence: &Fence, term: Term, queue: KeyQueue<Q>, workers: &mut Workers) {
        let stop = workers.stop().clone();
        for source in self.sources.iter() {
            let events = source.run(queue.clone());
            workers.spawn(feed(
                self.name().to_owned(),
                source.name().to_owned(),
                events,
                stop.clone(),
            ));
        }
        let resync = resync(
            Arc::clone(&self.sources),
            queue.clone(),
            self.options.resync,
            self.env.clone(),
        );
        let stopped = stop.clone();
        workers.spawn(async move {
            stopped.run_until_cancelled(resync).await;
            Ok(())
        });
        let keys = queue.queue.clone();
        let reconciles = Arc::new(Reconciles {
            controller: self.name().into(),
            reconciler: Arc::clone(&self.reconciler),
            client: self.client.in_term(fence, term),
            env: self.env.clone(),
            term,
            timeout: self.options.timeout,
            metrics: Arc::clone(&self.metrics),
            outcomes: Arc::clone(workers.outcomes()),
            queue,
            stop,
        });
        workers.pool(keys, self.options.workers, Q::key, move |key, slot| {
            let (cause, span) = reconciles.queue.take(&key);
            let processed = Arc::clone(&reconciles).process(key, cause, span);
            processed.map(move |()| drop(slot))
        });
        tracing::info!(
            controller = self.name(),
            workers = self.options.workers,
            "Controller started"
        );
    }
}

/// Enqueues all existing objects once per `period`.
async fn resync<Q: Request>(
    sources: Arc<[Box<dyn AnySource<Q>>]>,
    queue: KeyQueue<Q>,
    period: Duration,
    env: Env,
) {
    let period = period.max(RESYNC_MIN);
    loop {
        env.clock.sleep(period).await;
        // Controllers that have started together do not resync together.
        env.clock
            .sleep(env.rng.between(Duration::ZERO, period / 10))
            .await;
        for source in sources.iter() {
            source.resync(&queue).await;
        }
    }
}

/// Feeds the queue from a source until `stop`. A source that ends or panics earlier ends the controller.
async fn feed(
    controller: String,
    origin: String,
    events: BoxFuture<'static, ()>,
    stop: CancellationToken,
) -> Result<(), Fatal> {
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        ended = AssertUnwindSafe(events).catch_unwind() => ended,
    };
    Err(match ended {
        Ok(()) => Fatal::Ended { controller, origin },
        Err(panic) => Fatal::Panicked {
            controller,
            part: format!("source {origin}"),
            message: panics::message(&*panic).to_owned(),
        },
    })
}

impl<Q: Request, R: Reconciler<Q>> Runnable for QueueController<R, Q> {
    fn name(&self) -> &str {
        self.runtime.name()
    }

    fn unsynced(&self) -> Vec<String> {
        let sources = self.sources.iter();
        let unsynced = sources.filter(|source| !source.is_synced() || source.is_unavailable());
        unsynced.map(|source| source.name().to_owned()).collect()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let fence = fence.clone();
        Box::pin(async move {
            let start = |queue, workers: &mut Workers| {
                self.start(&fence, term, queue, workers);
                Arc::new(())
            };
            self.runtime.run(&fence, term, stop, self.synced(), start).await
        })
    }

    fn running(&self) -> Vec<Key> {
        self.runtime.running()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        self.runtime.health()?;
        let silent = self.sources.iter().filter_map(|source| {
            let (since, status) = source.silence()?;
            let resource = source.name().to_owned();
            Some((resource, since, status))
        });
        match silent.max_by_key(|(_, since, _)| *since) {
            Some((resource, since, status)) if since > SILENCE_MAX => Err(Unhealthy::StaleWatch {
                resource,
                since,
                status,
            }),
            _ => Ok(()),
        }
    }

    fn activity(&self) -> Activity {
        self.runtime.activity()
    }

    fn recent_errors(&self) -> Vec<RecentError> {
        self.runtime.recent_errors()
    }
}

impl<R, Q: Request> fmt::Debug for QueueController<R, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueController").finish_non_exhaustive()
    }
}
