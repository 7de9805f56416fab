//! The state that the parts of the collector share in one term.
//!
//! The graph is behind one lock that is never held across an await. Every change of it returns items, which are enqueued under
//! the same lock. A panic under the lock poisons the graph: every later access panics too, and the process ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_manager::client::{Client, ClientError};
use steersman_manager::controller::{Runtime, Slot, TermState};
use steersman_manager::env::Env;
use steersman_manager::events::{EventType, ObjectRef, Recorder};
use steersman_manager::object::{Key, Resource, Text, Uid, Version};
use steersman_manager::sync::watch;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Options;
use super::breaker::{CircuitBreaker, SLOW, Scope};
use super::graph::{Effects, Graph, InvalidNamespace, OrphanedOwners, Sizes, WorkItem};
use super::kinds::Kinds;
use super::live_list::LiveLists;
use super::lookup::Lookups;
use super::metrics::Metrics;
use super::monitors::Monitors;
use super::queues::{DeleteItem, InNamespace, Queues};

/// The lifecycle of the collector.
pub(super) type GcRuntime = Runtime<Queues, GcTerm>;

/// See the module documentation.
pub(super) struct GcTerm {
    pub(super) env: Env,
    /// Fenced: it writes during the term only.
    pub(super) client: Client,
    /// For live lists, with a rate limiter of its own.
    pub(super) lister: Client,
    pub(super) options: Options,
    pub(super) queues: Queues,
    pub(super) kinds: watch::Receiver<Option<Arc<Kinds>>>,
    pub(super) monitors: Monitors,
    pub(super) lookups: Lookups,
    pub(super) lists: LiveLists,
    pub(super) breaker: CircuitBreaker,
    pub(super) metrics: Metrics,
    /// Bounds the number of dependents that are patched at the same time.
    pub(super) patches: Arc<Semaphore>,
    /// The resources that rejected a strategic merge patch, for the lifetime of the process.
    pub(super) merge_only: Arc<Mutex<BTreeSet<Resource>>>,
    /// Cancelled at the end of the term: no request starts after it.
    pub(super) stop: CancellationToken,
    pub(super) recorder: Recorder,
    pub(super) graph: Mutex<Graph>,
    /// Outlives the term.
    pub(super) orphaned: Arc<Mutex<OrphanedOwners>>,
}

impl GcTerm {
    pub(super) fn now(&self) -> Instant {
        self.env.clock.now()
    }

    pub(super) fn read<R>(&self, with: impl FnOnce(&Graph) -> R) -> R {
        with(&self.graph())
    }

    /// Changes the graph, and enqueues the items that follow.
    pub(super) fn apply(&self, with: impl FnOnce(&mut Graph) -> Effects) {
        self.apply_all(|graph, all| all.push(with(graph)));
    }

    /// Applies several changes under one lock.
    pub(super) fn apply_all(&self, with: impl FnOnce(&mut Graph, &mut Vec<Effects>)) {
        let mut all = Vec::new();
        let mut graph = self.graph();
        with(&mut graph, &mut all);
        for effects in all {
            self.enqueue(&graph, effects);
        }
        self.metrics.graph(graph.sizes());
    }

    /// Awaits the answer to a request, and records it in the circuit breaker. Releases the slot if the answer is slow.
    pub(super) async fn answer<T>(
        &self,
        scope: &Scope,
        slot: &Slot,
        request: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let mut request = std::pin::pin!(request);
        let in_time = self.env.clock.timeout(SLOW, request.as_mut()).await;
        let answer = if let Some(answer) = in_time {
            answer
        } else {
            slot.release();
            self.breaker.unanswered(scope, self.now());
            request.await
        };
        self.breaker.record(scope, &answer, self.now());
        answer
    }

    /// Requests a live list for an owner.
    pub(super) fn request_list(&self, namespace: &Text, owner: &Uid) {
        self.lists.request(namespace, owner);
        self.queues.lists.add(Key::new(namespace.clone(), "live list"));
    }

    pub(super) fn kinds(&self) -> Arc<Kinds> {
        self.kinds.borrow().clone().unwrap_or_default()
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        // A graph after half a change must not decide about deletions.
        self.graph.lock().expect("no change of the graph has panicked")
    }

    fn enqueue(&self, graph: &Graph, effects: Effects) {
        let Effects {
            attempt_to_delete,
            attempt_to_orphan,
            invalid_namespace,
        } = effects;
        for item in attempt_to_delete {
            self.queues.deletes.add(DeleteItem::of(graph, item));
        }
        for item in attempt_to_orphan {
            let namespace = graph
                .namespace(&WorkItem::Object(item.clone()))
                .unwrap_or_default();
            self.queues.orphans.add(InNamespace { namespace, item });
        }
        for it in &invalid_namespace {
            self.report(it);
        }
    }

    fn report(&self, invalid_namespace: &InvalidNamespace) {
        let InvalidNamespace {
            kind,
            key,
            uid,
            reference,
        } = invalid_namespace;
        let message = format!(
            "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
            reference.api_version,
            reference.kind,
            key.namespace,
            reference.name,
            reference.uid,
            &*key.namespace
        );
        if self.options.dry_run {
            tracing::info!(object = %kind.resource.logged(key), message, dryRun = true, "Owner is in another namespace");
            return;
        }
        let object = ObjectRef {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: uid.clone(),
            resource_version: Version::none(),
        };
        self.recorder
            .event(&object, EventType::Warning, "OwnerRefInvalidNamespace", &message);
    }
}

impl TermState for GcTerm {
    fn ended(&self) {
        if let Ok(graph) = self.graph.lock() {
            *self.orphaned.lock().unwrap_or_else(PoisonError::into_inner) = graph.orphaned_owners();
        }
        self.metrics.graph(Sizes::default());
    }
}
