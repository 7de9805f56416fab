//! The work queues of the collector: their items, and the requeue of an item that was processed.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::controller::{self, Outcomes, Waiting};
use coxswain_manager::env::Env;
use coxswain_manager::object::{Key, Resource, Text, Uid};
use coxswain_manager::queue::{Exponential, Item, Queue};

use super::graph::{Graph, WorkItem};

/// The longest Retry-After that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// The queues of one term. Clones are handles of the same queues.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Resources whose caches have changed.
    pub(super) changes: Queue<Resource>,
    /// Objects that may be garbage, and virtual owners.
    pub(super) deletes: Queue<DeleteItem>,
    /// Owners whose dependents are to be orphaned.
    pub(super) orphans: Queue<InNamespace<Uid>>,
    /// Namespaces that are listed for orphaning.
    pub(super) lists: Queue<Key>,
}

/// An item and the namespace that it counts against.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct InNamespace<T> {
    pub(super) namespace: Text,
    pub(super) item: T,
}

/// An item of the deletion queue. It counts against the namespace of the object, or of a dependent of the virtual owner.
pub(super) type DeleteItem = InNamespace<WorkItem>;

/// The next time that an item is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// At the next event. Its backoff ends.
    Done,
    /// After this time. It keeps its backoff.
    After(Duration),
    /// After its backoff.
    Backoff,
    /// When the answer or list that it waits for arrives, which enqueues it. It keeps its backoff.
    Parked,
}

impl controller::Queues for Queues {
    fn replace(&self, env: &Env) -> Self {
        Self {
            changes: self.changes.replace(env, limiter()),
            deletes: self.deletes.replace(env, limiter()),
            orphans: self.orphans.replace(env, limiter()),
            lists: self.lists.replace(env, limiter()),
        }
    }

    fn depth(&self) -> usize {
        self.changes.len() + self.deletes.len() + self.orphans.len() + self.lists.len()
    }

    /// Live lists are left out: few namespaces are listed at the same time, so that others may wait for long.
    fn oldest(&self) -> Option<Waiting> {
        let oldest = [
            oldest(&self.changes, |it| Key::cluster(it.to_string())),
            oldest(&self.deletes, DeleteItem::key),
            oldest(&self.orphans, InNamespace::<Uid>::key),
        ];
        oldest.into_iter().flatten().max_by_key(|it| it.age)
    }
}

impl<T: Clone + Ord + Hash + Debug + Send + 'static> Item for InNamespace<T> {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl DeleteItem {
    pub(super) fn of(graph: &Graph, item: WorkItem) -> Self {
        let namespace = graph.namespace(&item).unwrap_or_default();
        Self { namespace, item }
    }

    /// The same item in another namespace, if it counts against that one now: the dependent that it was enqueued for no
    /// longer refers to the owner, and others do.
    pub(super) fn moved(&self, graph: &Graph) -> Option<Self> {
        let namespace = graph.namespace(&self.item)?;
        (namespace != self.namespace).then(|| Self::of(graph, self.item.clone()))
    }

    /// The name of the item in logs and on health pages.
    pub(super) fn key(&self) -> Key {
        match &self.item {
            WorkItem::Object(uid) => uid_key(&self.namespace, uid),
            WorkItem::Owner(owner) => owner.key(),
        }
    }
}

impl InNamespace<Uid> {
    /// The name of the item in logs and on health pages.
    pub(super) fn key(&self) -> Key {
        uid_key(&self.namespace, &self.item)
    }
}

fn oldest<K: Item>(queue: &Queue<K>, name: impl Fn(&K) -> Key) -> Option<Waiting> {
    let (item, age) = queue.oldest()?;
    Some(Waiting {
        item: name(&item),
        age,
    })
}

fn uid_key(namespace: &Text, uid: &Uid) -> Key {
    Key::new(namespace.clone(), format!("uid {uid}"))
}

/// The backoff of an item: that of all controllers, with a maximum of a minute. There is no limit for all items together: the
/// failures of one namespace would delay the others, and the client's rate limiter bounds the requests.
pub(super) fn limiter<K: Item>() -> Exponential<K> {
    Exponential::new(Duration::from_millis(5), Duration::from_mins(1))
}

/// Requeues an item that was processed, and logs and records its error under `name`.
pub(super) fn requeue<K: Item>(
    queue: &Queue<K>,
    item: &K,
    processed: Result<Next, ClientError>,
    name: impl Fn(&K) -> Key,
    outcomes: &Outcomes,
) {
    match processed {
        Ok(Next::Done) => queue.forget(item),
        Ok(Next::After(delay)) => queue.add_after(item.clone(), delay),
        Ok(Next::Backoff) => queue.add_rate_limited(item.clone()),
        Ok(Next::Parked) => {}
        Err(ClientError::Fenced { .. }) => {
            tracing::debug!(item = %name(item), "The end of the term interrupted an item");
        }
        Err(error) => {
            let least = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
            queue.add_rate_limited_after(item.clone(), least);
            outcomes.failed(&name(item), &error);
            let failures = queue.num_requeues(item);
            tracing::warn!(item = %name(item), %error, failures, "Failed to collect garbage, retrying");
        }
    }
}
