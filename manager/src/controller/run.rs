//! A controller, from its parts to the end of a term.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use prometheus::Registry;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::floor::{Floor, Work};
use super::inbox::Inbox;
use super::metrics::Metrics;
use super::{ControllerError, Fatal, Options, Reconciler, Runnable, Unhealthy};
use crate::client::{Client, Fence, Term};
use crate::env::Env;
use crate::object::{Key, Object};
use crate::panics;
use crate::queue::Queue;
use crate::source::{AnySource, EventSource, InitialKeys, Source};

/// A controller that is being put together.
#[must_use]
pub struct Builder<R> {
    name: String,
    options: Options,
    reconciler: R,
    sources: Vec<Box<dyn AnySource>>,
}

/// A controller. It does nothing but to show its series until it is [run](Runnable::run).
pub struct Controller<R> {
    name: Arc<str>,
    options: Options,
    reconciler: Arc<R>,
    sources: Vec<Box<dyn AnySource>>,
    env: Env,
    client: Client,
    metrics: Arc<Metrics>,
    /// That of the term, or of the next one.
    queue: Mutex<Queue<Key>>,
    /// None between terms.
    floor: Mutex<Option<Arc<Floor<R>>>>,
}

/// Ends a term for those who look, in whichever way it ends.
struct Leave<'a, R>(&'a Controller<R>);

impl<R: Reconciler> Builder<R> {
    /// A controller that nothing wakes yet.
    pub fn new(name: impl Into<String>, options: Options, reconciler: R) -> Self {
        Self {
            name: name.into(),
            options,
            reconciler,
            sources: Vec::new(),
        }
    }

    /// One more thing that wakes it.
    pub fn watch<T: Object>(mut self, source: Source<T, impl EventSource<T>>) -> Self {
        self.sources.push(Box::new(source));
        self
    }

    /// Wakes it for these keys at the start of each term: for objects that it has to create, of which no event tells.
    pub fn at_start(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        self.sources
            .push(Box::new(InitialKeys(keys.into_iter().collect())));
        self
    }

    /// The controller, with its series in `registry` at 0. Each reconcile gets `client` for its term.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(
        self,
        env: &Env,
        client: Client,
        registry: &Registry,
    ) -> Result<Controller<R>, ControllerError> {
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
            return Err(ControllerError::NoTime { name });
        }
        let metrics = match Metrics::register(&name, options.workers, registry) {
            Ok(metrics) => metrics,
            Err(source) => return Err(ControllerError::Metrics { name, source }),
        };
        let queue_name = options.queue.as_deref().unwrap_or(&name);
        let queue = match Queue::named(env, queue_name, registry, (options.limiter)()) {
            Ok(queue) => queue,
            Err(source) => return Err(ControllerError::Queue { name, source }),
        };
        Ok(Controller {
            name: name.into(),
            options,
            reconciler: Arc::new(reconciler),
            sources,
            env: env.clone(),
            client,
            metrics: Arc::new(metrics),
            queue: Mutex::new(queue),
            floor: Mutex::new(None),
        })
    }
}

impl<R: Reconciler> Controller<R> {
    async fn term(&self, fence: Fence, term: Term, stop: CancellationToken) -> Result<(), Fatal> {
        let mut over = std::pin::pin!(async {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = fence.closed(term) => {}
            }
        });
        tokio::select! {
            biased;
            () = &mut over => return Ok(()),
            () = self.synced() => {}
        }
        let floor = self.open(&fence, term);
        let _leave = Leave(self);
        // Those who are at work are told at once.
        let halt = stop.child_token();
        let mut tasks = self.start(&floor, &halt);
        tracing::info!(controller = %self.name, workers = self.options.workers, "Controller started");
        loop {
            tokio::select! {
                biased;
                () = &mut over => break,
                Some(ended) = tasks.join_next() => self.judge(ended)?,
            }
        }
        halt.cancel();
        while let Some(ended) = tasks.join_next().await {
            self.judge(ended)?;
        }
        // Now rather than with the next term: a standby has nothing queued, and its series say so.
        self.renew();
        tracing::info!(controller = %self.name, "Controller stopped");
        Ok(())
    }

    async fn synced(&self) {
        for source in &self.sources {
            source.synced().await;
        }
    }

    /// A floor for a new term, with an empty queue whatever became of the last one.
    fn open(&self, fence: &Fence, term: Term) -> Arc<Floor<R>> {
        let floor = Arc::new(Floor {
            controller: Arc::clone(&self.name),
            reconciler: Arc::clone(&self.reconciler),
            client: self.client.in_term(fence, term),
            env: self.env.clone(),
            term,
            workers: self.options.workers,
            timeout: self.options.timeout,
            metrics: Arc::clone(&self.metrics),
            inbox: Arc::new(Inbox::new(self.renew())),
            work: Mutex::new(Work::none(self.env.clock.now())),
        });
        *lock(&self.floor) = Some(Arc::clone(&floor));
        floor
    }

    fn renew(&self) -> Queue<Key> {
        let mut queue = lock(&self.queue);
        *queue = queue.replace(&self.env, (self.options.limiter)());
        queue.clone()
    }

    /// The tasks of a term. They end with the set.
    fn start(&self, floor: &Arc<Floor<R>>, halt: &CancellationToken) -> JoinSet<Result<(), Fatal>> {
        let mut tasks = JoinSet::new();
        for source in &self.sources {
            let events = source.run(Arc::clone(&floor.inbox));
            tasks.spawn(watch(
                self.name.to_string(),
                source.name().to_owned(),
                events,
                halt.clone(),
            ));
        }
        for _ in 0..self.options.workers {
            let work = Arc::clone(floor).work(halt.clone());
            tasks.spawn(work.map(Ok));
        }
        tasks
    }

    /// A worker that panics has lost the key that it had: better no process than one that forgets.
    fn judge(&self, ended: Result<Result<(), Fatal>, JoinError>) -> Result<(), Fatal> {
        match ended {
            Ok(ended) => ended,
            Err(error) => Fatal::of_task(&self.name, "a worker", error).map_or(Ok(()), Err),
        }
    }

    fn floor(&self) -> Option<Arc<Floor<R>>> {
        lock(&self.floor).clone()
    }
}

/// Runs a source until `halt`. It has no other end that is good.
async fn watch(
    controller: String,
    origin: String,
    events: BoxFuture<'static, ()>,
    halt: CancellationToken,
) -> Result<(), Fatal> {
    let ended = tokio::select! {
        biased;
        () = halt.cancelled() => return Ok(()),
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

impl<R: Reconciler> Runnable for Controller<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn unsynced(&self) -> Vec<String> {
        let sources = self.sources.iter();
        let unsynced = sources.filter(|source| !source.is_synced() || source.is_unavailable());
        unsynced.map(|source| source.name().to_owned()).collect()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        Box::pin(self.term(fence.clone(), term, stop))
    }

    fn running(&self) -> Vec<Key> {
        self.floor().map_or_else(Vec::new, |floor| floor.running())
    }

    fn health(&self) -> Result<(), Unhealthy> {
        self.floor().map_or(Ok(()), |floor| floor.health())
    }
}

impl<R> Drop for Leave<'_, R> {
    fn drop(&mut self) {
        lock(&self.0.floor).take();
    }
}

impl<R> fmt::Debug for Controller<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
