//! The collector that a manager runs: it builds the queues and starts their workers in each term.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use steersman_manager::cache::{Caches, Status};
use steersman_manager::client::{ClientError, Fence, Reader, Term};
use steersman_manager::controller::{
    Activity, ControllerError, Fatal, HealthLimits, RecentError, Runnable, Runtime, Slot, Unhealthy, Workers,
};
use steersman_manager::env::Env;
use steersman_manager::events::Recorder;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_manager::queue::{Item, Queue};
use steersman_manager::sync::watch;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::breaker::CircuitBreaker;
use super::debug::GraphPage;
use super::discovery::Discovery;
use super::graph::{Graph, OrphanedOwners, SYNC_TIMEOUT};
use super::kinds::Kinds;
use super::live_list::LiveLists;
use super::lookup::Lookups;
use super::metrics::Metrics;
use super::monitors::{self, Monitors};
use super::queues::{CollectorItem, Next, Queues, limiter, requeue};
use super::term::{GcRuntime, GcTerm};
use super::{NAME, Options, attempt_to_delete, attempt_to_orphan, live_list};

/// The time that one request of an item may take. The wait for the rate limiter does not count.
const STUCK_AFTER: Duration = Duration::from_mins(5);
/// The time that an item may wait in a queue while all workers are busy. The deletion of a large namespace takes long.
const WAIT_MAX: Duration = Duration::from_hours(2);
/// The reason why the collector does not run with caches of a part of the cluster.
const PARTIAL_CACHES: &str = "it must see the whole cluster to know which owners are gone: \
                              leave out --namespaces and --label-selector, or switch it off with \
                              --controllers=*,-garbage-collector-controller";

/// The garbage collector. It does nothing until it is [run](Runnable::run).
pub struct GarbageCollector {
    runtime: Arc<GcRuntime>,
    env: Env,
    caches: Caches,
    client: Reader,
    lister: Reader,
    recorder: Recorder,
    options: Options,
    metrics: Metrics,
    discovery: Discovery,
    merge_only: Arc<Mutex<BTreeSet<Resource>>>,
    /// From the last term.
    orphaned: Arc<Mutex<OrphanedOwners>>,
}

impl GarbageCollector {
    /// A collector of the kinds that `discovery` publishes. It only runs if `caches` are not restricted to a part of the
    /// cluster.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(
        env: &Env,
        caches: &Caches,
        client: Reader,
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
        let queues = Queues {
            changes: queue(env, registry, "graph_changes")?,
            deletes: queue(env, registry, "attempt_to_delete")?,
            orphans: queue(env, registry, "attempt_to_orphan")?,
            lists: queue(env, registry, "live_lists")?,
        };
        let limits = HealthLimits {
            workers: 2 * options.workers,
            timeout: STUCK_AFTER,
            grace: Duration::ZERO,
            wait: WAIT_MAX,
        };
        Ok(Self {
            runtime: Arc::new(Runtime::new(NAME, env, limits, queues)),
            env: env.clone(),
            caches: caches.clone(),
            lister: client.with_own_limiter(),
            client,
            recorder,
            options,
            metrics,
            discovery,
            merge_only: Arc::default(),
            orphaned: Arc::default(),
        })
    }

    /// Resolves when discovery has published the kinds; never if the caches are restricted.
    async fn ready(&self) -> Result<(), Fatal> {
        if !self.caches.include_all() {
            tracing::warn!(reason = PARTIAL_CACHES, "The garbage collector does not run");
            std::future::pending::<()>().await;
        }
        let mut kinds = self.discovery.kinds();
        let published = kinds.wait_for(Option::is_some).await.is_ok();
        published.then_some(()).ok_or_else(|| Fatal::Ended {
            controller: NAME.to_owned(),
            origin: "discovery".to_owned(),
        })
    }

    fn start(&self, fence: &Fence, term: Term, queues: Queues, pools: &mut Workers) -> Arc<GcTerm> {
        let Options { workers, dry_run } = self.options;
        let orphaned = self.orphaned.lock().unwrap_or_else(PoisonError::into_inner);
        let graph = Graph::new(orphaned.clone());
        drop(orphaned);
        let term = Arc::new(GcTerm {
            env: self.env.clone(),
            client: self.client.in_term(fence, term),
            lister: self.lister.in_term(fence, term),
            options: self.options,
            queues,
            kinds: self.discovery.kinds(),
            monitors: Monitors::new(&self.caches, &self.discovery),
            lookups: Lookups::default(),
            lists: LiveLists::default(),
            breaker: CircuitBreaker::default(),
            metrics: self.metrics.clone(),
            patches: Arc::new(Semaphore::new(workers)),
            merge_only: Arc::clone(&self.merge_only),
            stop: pools.stop().clone(),
            recorder: self.recorder.clone(),
            graph: Mutex::new(graph),
            orphaned: Arc::clone(&self.orphaned),
        });
        // The only consumer of the queue of changes: they are applied to the graph one after the other.
        pools.spawn(monitors::process(Arc::clone(&term)).map(Ok));
        let Queues {
            deletes,
            orphans,
            lists,
            ..
        } = &term.queues;
        pool(pools, &term, deletes, workers, attempt_to_delete::process);
        pool(pools, &term, orphans, workers, attempt_to_orphan::process);
        pool(pools, &term, lists, live_list::NAMESPACES_MAX, live_list::process);
        tracing::info!(controller = NAME, workers, dryRun = dry_run, "Controller started");
        term
    }

    /// Fills the caches before the first term, once `free` resolves: a controller that yields needs no caches.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn warm(&self, free: impl Future<Output = ()> + Send + 'static) {
        let (caches, kinds) = (self.caches.clone(), self.discovery.kinds());
        let warm = warm(caches, kinds, Arc::clone(&self.runtime), free);
        // It ends with the task set.
        drop(self.env.tasks.spawn(warm));
    }

    /// The debug page of the graph.
    #[must_use]
    pub fn page(&self) -> GraphPage {
        GraphPage(Arc::clone(&self.runtime))
    }
}

/// Keeps a cache of each collected kind once `free` resolves, so that a standby that becomes the leader has listed them all.
/// During a term a kind that is no longer served is left to the monitors, which keep it for some more seconds.
async fn warm(
    caches: Caches,
    mut kinds: watch::Receiver<Option<Arc<Kinds>>>,
    runtime: Arc<GcRuntime>,
    free: impl Future<Output = ()>,
) {
    free.await;
    kinds.mark_changed();
    let mut kept: BTreeSet<Resource> = BTreeSet::new();
    while kinds.changed().await.is_ok() {
        let served = kinds.borrow_and_update().clone();
        let Some(served) = served else { continue };
        for kind in served.collected() {
            if kept.insert(kind.resource.clone()) {
                drop(caches.metadata(&kind.resource));
            }
        }
        kept.retain(|resource| {
            let stays = served.watched(resource).is_some() || runtime.state().is_some();
            if !stays {
                caches.forget_metadata(resource);
            }
            stays
        });
    }
}

/// Starts the workers of a queue.
fn pool<K: CollectorItem + Sync, F>(
    pools: &mut Workers,
    term: &Arc<GcTerm>,
    queue: &Queue<K>,
    workers: usize,
    process: fn(Arc<GcTerm>, K, Slot) -> F,
) where
    F: Future<Output = Result<Next, ClientError>> + Send + 'static,
{
    let (term, requeues) = (Arc::clone(term), queue.clone());
    let outcomes = Arc::clone(pools.outcomes());
    pools.pool(queue.clone(), workers, K::key, move |item, slot| {
        let (term, queue, outcomes) = (Arc::clone(&term), requeues.clone(), Arc::clone(&outcomes));
        process(Arc::clone(&term), item.clone(), slot).map(move |processed| {
            let object = || term.read(|graph| item.object(graph));
            requeue(&queue, &item, processed, object, &outcomes);
        })
    });
}

fn queue<K: Item>(env: &Env, registry: &Registry, name: &str) -> Result<Queue<K>, ControllerError> {
    let name = format!("garbage_collector_{name}");
    Queue::named(env, &name, registry, limiter()).map_err(|source| ControllerError::Queue {
        name: NAME.to_owned(),
        source,
    })
}

impl Runnable for GarbageCollector {
    fn name(&self) -> &str {
        self.runtime.name()
    }

    fn unsynced(&self) -> Vec<String> {
        let known = self.discovery.kinds().borrow().is_some();
        if known || !self.caches.include_all() {
            Vec::new()
        } else {
            vec!["served kinds".to_owned()]
        }
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let fence = fence.clone();
        Box::pin(async move {
            let start = |queues, pools: &mut Workers| self.start(&fence, term, queues, pools);
            self.runtime.run(&fence, term, stop, self.ready(), start).await
        })
    }

    fn running(&self) -> Vec<Key> {
        self.runtime.running()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        if self.caches.include_all() {
            return self.runtime.health();
        }
        let reason = PARTIAL_CACHES.to_owned();
        Err(Unhealthy::Refused { reason })
    }

    fn activity(&self) -> Activity {
        self.runtime.activity()
    }

    fn recent_errors(&self) -> Vec<RecentError> {
        self.runtime.recent_errors()
    }

    fn remark(&self) -> Option<String> {
        let mut remarks = self.discovery.problems();
        if let Some(term) = self.runtime.state() {
            let mut unsynced_kinds = term.monitors.unsynced_kinds();
            let now = term.now();
            unsynced_kinds
                .retain(|it| it.status != Status::Syncing || now.duration_since(it.since) >= SYNC_TIMEOUT);
            remarks.extend(term.lists.unlistable());
            remarks.extend(
                unsynced_kinds
                    .iter()
                    .map(|it| format!("{} {}", it.resource, it.status)),
            );
        }
        if self.options.dry_run {
            remarks.push("dry run: nothing is deleted".to_owned());
        }
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}
