//! The collector, from its parts to the end of a term.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coxswain_manager::cache::{Caches, Status};
use coxswain_manager::client::{Client, Fence, Term};
use coxswain_manager::controller::{ControllerError, Fatal, Runnable, Unhealthy};
use coxswain_manager::env::Env;
use coxswain_manager::events::Recorder;
use coxswain_manager::object::{Key, Resource};
use coxswain_manager::queue::{Item, Queue};
use futures_util::future::BoxFuture;
use prometheus::Registry;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::breaker::CircuitBreaker;
use super::debug::GraphPage;
use super::discovery::Discovery;
use super::floor::{Floor, Queues, limiter};
use super::graph::{Graph, OrphanedOwners, PATIENCE};
use super::kinds::Kinds;
use super::live_list::LiveLists;
use super::lookup::Lookups;
use super::metrics::Metrics;
use super::monitors::{self, Monitors};
use super::progress::Progress;
use super::{NAME, Options, live_list, orphan, warm, worker};

/// The collector. It does nothing until it is [run](Runnable::run).
pub struct GarbageCollector {
    env: Env,
    caches: Caches,
    client: Client,
    lister: Client,
    recorder: Recorder,
    options: Options,
    metrics: Metrics,
    discovery: Discovery,
    merge_only: Arc<Mutex<BTreeSet<Resource>>>,
    /// From the last term.
    orphaned: Mutex<OrphanedOwners>,
    /// Those of the term, or of the next one.
    queues: Mutex<Queues>,
    floor: Current,
}

/// The floor of the term; none between terms. Clones are handles of the same one.
#[derive(Clone, Default)]
pub(super) struct Current(Arc<Mutex<Option<Arc<Floor>>>>);

impl Current {
    pub(super) fn get(&self) -> Option<Arc<Floor>> {
        lock(&self.0).clone()
    }
}

/// Ends a term for those who look, in whichever way it ends.
struct Leave<'a>(&'a GarbageCollector);

impl GarbageCollector {
    /// A collector of the kinds that `discovery` publishes, through `caches`, which it only trusts if they are whole.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(
        env: &Env,
        caches: &Caches,
        client: Client,
        registry: &Registry,
        recorder: Recorder,
        discovery: Discovery,
        options: Options,
    ) -> Result<Self, ControllerError> {
        let name = || NAME.to_owned();
        if options.workers == 0 {
            return Err(ControllerError::NoWorkers { name: name() });
        }
        let metrics = Metrics::register(registry)
            .map_err(|source| ControllerError::Metrics { name: name(), source })?;
        Ok(Self {
            queues: Mutex::new(Queues {
                changes: queue(env, registry, "graph_changes")?,
                deletes: queue(env, registry, "attempt_to_delete")?,
                orphans: queue(env, registry, "attempt_to_orphan")?,
                lists: queue(env, registry, "live_lists")?,
            }),
            env: env.clone(),
            caches: caches.clone(),
            lister: client.with_own_limiter(),
            client,
            recorder,
            options,
            metrics,
            discovery,
            merge_only: Arc::default(),
            orphaned: Mutex::default(),
            floor: Current::default(),
        })
    }

    async fn term(&self, fence: Fence, term: Term, stop: CancellationToken) -> Result<(), Fatal> {
        let mut over = std::pin::pin!(async {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = fence.closed(term) => {}
            }
        });
        if !self.caches.include_all() {
            tracing::warn!(reason = REFUSES, "The garbage collector does not run");
            over.await;
            return Ok(());
        }
        let mut kinds = self.discovery.kinds();
        tokio::select! {
            biased;
            () = &mut over => return Ok(()),
            known = kinds.wait_for(Option::is_some) => if known.is_err() {
                return Err(Fatal::Ended {
                    controller: NAME.to_owned(),
                    origin: "discovery".to_owned(),
                });
            },
        }
        let floor = self.open(&fence, term, kinds);
        let _leave = Leave(self);
        let mut tasks = JoinSet::new();
        tasks.spawn(monitors::process(Arc::clone(&floor)));
        let (workers, dry_run) = (self.options.workers, self.options.dry_run);
        let queues = floor.queues.clone();
        tasks.spawn(worker::run(
            Arc::clone(&floor),
            queues.deletes,
            workers,
            worker::process,
        ));
        tasks.spawn(worker::run(
            Arc::clone(&floor),
            queues.orphans,
            workers,
            orphan::process,
        ));
        let lists = worker::run(
            Arc::clone(&floor),
            queues.lists,
            live_list::NAMESPACES,
            live_list::process,
        );
        tasks.spawn(lists);
        tracing::info!(controller = NAME, workers, dry_run, "Controller started");
        loop {
            tokio::select! {
                biased;
                () = &mut over => break,
                Some(ended) = tasks.join_next() => judge(ended)?,
            }
        }
        floor.halt.cancel();
        while let Some(ended) = tasks.join_next().await {
            judge(ended)?;
        }
        self.renew();
        tracing::info!(controller = NAME, "Controller stopped");
        Ok(())
    }

    /// A floor for a new term: nothing is known from the last one but what the caches show.
    fn open(&self, fence: &Fence, term: Term, kinds: watch::Receiver<Option<Arc<Kinds>>>) -> Arc<Floor> {
        let floor = Arc::new(Floor {
            env: self.env.clone(),
            client: self.client.in_term(fence, term),
            lister: self.lister.in_term(fence, term),
            options: self.options,
            queues: self.renew(),
            kinds,
            monitors: Monitors::new(&self.caches, &self.discovery),
            lookups: Lookups::default(),
            lists: LiveLists::default(),
            breaker: CircuitBreaker::default(),
            progress: Progress::new(&self.env.clock),
            metrics: self.metrics.clone(),
            patches: Arc::new(Semaphore::new(self.options.workers)),
            merge_only: Arc::clone(&self.merge_only),
            halt: CancellationToken::new(),
            recorder: self.recorder.clone(),
            graph: Mutex::new(Graph::new(lock(&self.orphaned).clone())),
        });
        *lock(&self.floor.0) = Some(Arc::clone(&floor));
        floor
    }

    fn renew(&self) -> Queues {
        let mut queues = lock(&self.queues);
        *queues = queues.replace(&self.env);
        queues.clone()
    }

    /// Fills the caches before the first term: once `free` resolves, because whoever may never work needs none.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn warm(&self, free: impl Future<Output = ()> + Send + 'static) {
        let (caches, kinds) = (self.caches.clone(), self.discovery.kinds());
        let keep = warm::keep(caches, kinds, self.floor.clone(), free);
        // It is ended with the tasks.
        drop(self.env.tasks.spawn(keep));
    }

    /// Shows the graph.
    #[must_use]
    pub fn page(&self) -> GraphPage {
        GraphPage(self.floor.clone())
    }
}

/// Why it does not run on a part of the cluster.
const REFUSES: &str = "it must see the whole cluster to know which owners are gone: \
                       leave out --namespaces and --label-selector, or switch it off with \
                       --controllers=*,-garbage-collector-controller";

fn queue<K: Item>(env: &Env, registry: &Registry, name: &str) -> Result<Queue<K>, ControllerError> {
    let name = format!("garbage_collector_{name}");
    Queue::named(env, &name, registry, limiter()).map_err(|source| ControllerError::Queue {
        name: NAME.to_owned(),
        source,
    })
}

/// A part that has panicked may have left the graph half changed: better no process than one that deletes by it.
fn judge(ended: Result<(), JoinError>) -> Result<(), Fatal> {
    match ended {
        Ok(()) => Ok(()),
        Err(error) => Fatal::of_task(NAME, "a worker", error).map_or(Ok(()), Err),
    }
}

impl Runnable for GarbageCollector {
    fn name(&self) -> &str {
        NAME
    }

    fn unsynced(&self) -> Vec<String> {
        let known = self.discovery.kinds().borrow().is_some();
        if known || !self.caches.include_all() {
            Vec::new()
        } else {
            vec!["the kinds that the API serves".to_owned()]
        }
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        Box::pin(self.term(fence.clone(), term, stop))
    }

    fn running(&self) -> Vec<Key> {
        self.floor
            .get()
            .map_or_else(Vec::new, |floor| floor.progress.running())
    }

    fn health(&self) -> Result<(), Unhealthy> {
        if !self.caches.include_all() {
            let reason = REFUSES.to_owned();
            return Err(Unhealthy::Refused { reason });
        }
        let Some(floor) = self.floor.get() else {
            return Ok(());
        };
        let Queues {
            changes,
            deletes,
            orphans,
            lists: _,
        } = &floor.queues;
        let waited = [changes.head_wait(), deletes.head_wait(), orphans.head_wait()];
        let waited: Option<Duration> = waited.into_iter().max().flatten();
        floor
            .progress
            .health(waited.unwrap_or_default(), 2 * self.options.workers)
    }

    fn remark(&self) -> Option<String> {
        let mut remarks = self.discovery.problems();
        if let Some(floor) = self.floor.get() {
            let mut laggards = floor.monitors.laggards();
            let now = floor.now();
            laggards.retain(|it| it.status != Status::Syncing || now.duration_since(it.since) >= PATIENCE);
            remarks.extend(floor.lists.unlistable());
            remarks.extend(laggards.iter().map(|it| format!("{} {}", it.resource, it.status)));
        }
        if self.options.dry_run {
            remarks.push("dry run: nothing is deleted".to_owned());
        }
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if let Some(floor) = lock(&self.0.floor.0).take() {
            // However it ends: what it has started elsewhere begins nothing more.
            floor.halt.cancel();
            if let Ok(graph) = floor.graph.lock() {
                *lock(&self.0.orphaned) = graph.orphaning();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
