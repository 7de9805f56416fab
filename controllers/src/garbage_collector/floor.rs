//! What all parts of the collector share in one term.
//!
//! The graph is behind one lock that is never held across an await. Every change of it is one step, and what follows from
//! the step goes into the queues. After a panic under the lock the graph is not to be trusted: whoever comes next panics
//! too, and the process ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use coxswain_manager::client::{Client, ClientError};
use coxswain_manager::env::Env;
use coxswain_manager::events::{EventType, ObjectRef, Recorder};
use coxswain_manager::object::{Resource, Uid, Version};
use coxswain_manager::queue::{Bucket, Exponential, Item, MaxOf, Queue};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Options;
use super::brakes::Brakes;
use super::census::Census;
use super::graph::{Effects, Graph, Misplaced, Work};
use super::holds::Holds;
use super::kinds::Kinds;
use super::lookup::Lookups;
use super::metrics::Metrics;
use super::monitors::Monitors;
use super::progress::Progress;

/// The queues of one term. Clones are handles of the same ones.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Kinds whose caches have something to tell.
    pub(super) changes: Queue<Resource>,
    /// What may have to go.
    pub(super) deletes: Queue<Work>,
    /// Owners whose dependents are let go.
    pub(super) orphans: Queue<Uid>,
}

/// See the module's contract.
pub(super) struct Floor {
    pub(super) env: Env,
    /// In the term.
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) queues: Queues,
    pub(super) kinds: watch::Receiver<Option<Arc<Kinds>>>,
    pub(super) monitors: Monitors,
    pub(super) lookups: Lookups,
    pub(super) census: Census,
    pub(super) holds: Holds,
    pub(super) brakes: Brakes,
    /// By the kind of the owner: those of censuses that came to nothing.
    pub(super) censuses: Brakes,
    pub(super) progress: Progress,
    pub(super) metrics: Metrics,
    /// How many dependents are let go at once, whoever their owners are.
    pub(super) releases: Semaphore,
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
        let effects = with(&mut self.graph());
        self.follow(effects);
    }

    /// Changes the graph in several steps under one lock.
    pub(super) fn steps(&self, with: impl FnOnce(&mut Graph, &mut Vec<Effects>)) {
        let mut all = Vec::new();
        with(&mut self.graph(), &mut all);
        for effects in all {
            self.follow(effects);
        }
    }

    /// What a request for something of a kind came to.
    pub(super) fn came<T>(&self, kind: &Resource, answer: &Result<T, ClientError>) {
        self.brakes.came(kind, answer, self.now());
    }

    /// The kinds that there are now.
    pub(super) fn kinds(&self) -> Arc<Kinds> {
        self.kinds.borrow().clone().unwrap_or_default()
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        // Half a step is no graph, and nothing may be deleted by it.
        self.graph.lock().expect("no step of the graph has panicked")
    }

    fn follow(&self, effects: Effects) {
        let Effects {
            look,
            orphan,
            misplaced,
        } = effects;
        for work in look {
            self.queues.deletes.add(work);
        }
        for owner in orphan {
            self.queues.orphans.add(owner);
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

impl Queues {
    /// The same queues, empty, for a new term.
    pub(super) fn succeed(&self, env: &Env) -> Self {
        Self {
            changes: self.changes.succeed(env, limiter()),
            deletes: self.deletes.succeed(env, limiter()),
            orphans: self.orphans.succeed(env, limiter()),
        }
    }
}

/// The backoff: as of all controllers, but for the longest one. What was wrong for an hour and is right again is collected
/// within a minute.
pub(super) fn limiter<K: Item>() -> MaxOf<K> {
    let each = Exponential::new(Duration::from_millis(5), Duration::from_mins(1));
    let all = Bucket::new(Duration::from_millis(100), 100);
    MaxOf::new(vec![Box::new(each), Box::new(all)])
}
