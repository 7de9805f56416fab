//! What all parts of the collector share in one term.
//!
//! The graph is behind one lock that is never held across an await. Every change of it is one step, and what follows from
//! the step goes into the queues. After a panic under the lock the graph is not to be trusted: whoever comes next panics
//! too, and the process ends.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coxswain_manager::client::{Client, ClientError};
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, ObjectRef, Recorder};
use coxswain_manager::object::{Key, Resource, Text, Uid, Version};
use coxswain_manager::queue::{Exponential, Item, Queue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Options;
use super::breaker::{CircuitBreaker, SLOW, Scope};
use super::graph::{Effects, Graph, Misplaced, Work};
use super::kinds::Kinds;
use super::live_list::LiveLists;
use super::lookup::Lookups;
use super::metrics::Metrics;
use super::monitors::Monitors;
use super::progress::Progress;

/// The queues of one term. Clones are handles of the same ones.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Kinds whose caches have something to tell.
    pub(super) changes: Queue<Resource>,
    /// Objects that may be garbage, and owners that no cache has shown.
    pub(super) deletes: Queue<WorkItem>,
    /// Owners whose dependents are orphaned.
    pub(super) orphans: Queue<InNamespace<Uid>>,
    /// Namespaces that are listed for that.
    pub(super) lists: Queue<Key>,
}

/// An item and the namespace that it counts against.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InNamespace<T> {
    pub(super) namespace: Text,
    pub(super) item: T,
}

/// An item of the queue of deletions, with the namespace of the object, or of a dependent of the owner.
pub(super) type WorkItem = InNamespace<Work>;

/// A place in a worker pool. An item holds it until it is done, or until an answer is slow.
#[derive(Debug)]
pub(super) struct Slot(Mutex<Option<OwnedSemaphorePermit>>);

/// See the module's contract.
pub(super) struct Floor {
    pub(super) env: Env,
    /// In the term.
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
    pub(super) progress: Progress,
    pub(super) metrics: Metrics,
    /// The number of dependents that are orphaned at the same time.
    pub(super) patches: Arc<Semaphore>,
    /// The kinds that have refused a strategic merge patch, for as long as the process lives.
    pub(super) merge_only: Arc<Mutex<BTreeSet<Resource>>>,
    /// Nothing new is begun once this is cancelled.
    pub(super) halt: CancellationToken,
    pub(super) recorder: Recorder,
    pub(super) graph: Mutex<Graph>,
}

impl Floor {
    pub(super) fn now(&self) -> Instant {
        self.env.clock.now()
    }

    /// Looks at the graph.
    pub(super) fn look<R>(&self, with: impl FnOnce(&Graph) -> R) -> R {
        with(&self.graph())
    }

    /// Changes the graph, and queues what follows.
    pub(super) fn step(&self, with: impl FnOnce(&mut Graph) -> Effects) {
        self.steps(|graph, all| all.push(with(graph)));
    }

    /// Changes the graph in several steps under one lock.
    pub(super) fn steps(&self, with: impl FnOnce(&mut Graph, &mut Vec<Effects>)) {
        let mut all = Vec::new();
        let mut graph = self.graph();
        with(&mut graph, &mut all);
        for effects in all {
            self.follow(&graph, effects);
        }
    }

    /// Awaits the answer to a request, and tells the circuit breaker. The slot is free when the answer is slow.
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
            slot.free();
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

    /// The kinds that there are now.
    pub(super) fn kinds(&self) -> Arc<Kinds> {
        self.kinds.borrow().clone().unwrap_or_default()
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        // Half a step is no graph, and nothing may be deleted by it.
        self.graph.lock().expect("no step of the graph has panicked")
    }

    fn follow(&self, graph: &Graph, effects: Effects) {
        let Effects {
            look,
            orphan,
            misplaced,
        } = effects;
        for work in look {
            self.queues.deletes.add(WorkItem::of(graph, work));
        }
        for item in orphan {
            let namespace = graph.namespace(&Work::Object(item.clone())).unwrap_or_default();
            self.queues.orphans.add(InNamespace { namespace, item });
        }
        for it in &misplaced {
            self.report(it);
        }
    }

    fn report(&self, misplaced: &Misplaced) {
        let Misplaced {
            kind,
            key,
            uid,
            reference,
        } = misplaced;
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
            tracing::info!(object = %key, resource = %kind.resource, message, dry_run = true, "An owner is in another namespace");
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

impl<T: Clone + Ord + Hash + Debug + Send + 'static> Item for InNamespace<T> {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl WorkItem {
    fn of(graph: &Graph, work: Work) -> Self {
        let namespace = graph.namespace(&work).unwrap_or_default();
        Self {
            namespace,
            item: work,
        }
    }

    /// The item in its place, if another namespace pays for it: the dependent that it was queued for refers to the owner no
    /// longer, and others do.
    pub(super) fn moved(&self, graph: &Graph) -> Option<Self> {
        let namespace = graph.namespace(&self.item)?;
        (namespace != self.namespace).then(|| Self::of(graph, self.item.clone()))
    }

    /// Its name in logs and on health pages.
    pub(super) fn key(&self) -> Key {
        match &self.item {
            Work::Object(uid) => Key::new(self.namespace.clone(), format!("uid {uid}")),
            Work::Owner(owner) => owner.key(),
        }
    }
}

impl Slot {
    pub(super) fn new(permit: Option<OwnedSemaphorePermit>) -> Self {
        Self(Mutex::new(permit))
    }

    fn free(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Queues {
    /// The same queues, empty, for a new term.
    pub(super) fn replace(&self, env: &Env) -> Self {
        Self {
            changes: self.changes.replace(env, limiter()),
            deletes: self.deletes.replace(env, limiter()),
            orphans: self.orphans.replace(env, limiter()),
            lists: self.lists.replace(env, limiter()),
        }
    }
}

/// The backoff of an item: as in all controllers, with a maximum of a minute. There is no limit for all items together: the
/// failures of one namespace would delay the others, and the client's rate limiter bounds the requests.
pub(super) fn limiter<K: Item>() -> Exponential<K> {
    Exponential::new(Duration::from_millis(5), Duration::from_mins(1))
}
