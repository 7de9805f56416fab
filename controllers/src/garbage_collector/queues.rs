//! The work queues of the collector: their items, and the requeue of an item that was processed.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use steersman_manager::client::ClientError;
use steersman_manager::controller::{self, Outcomes, Waiting};
use steersman_manager::env::Env;
use steersman_manager::object::{Key, LoggedObject, Resource, Text, Uid};
use steersman_manager::queue::{Exponential, Item, Queue};
use steersman_manager::revived;

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

/// An item that workers process.
pub(super) trait CollectorItem: Item {
    /// The name of the item on health pages.
    fn key(&self) -> Key;

    /// The object of the item, as all logs name it.
    fn object(&self, graph: &Graph) -> String;
}

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
            oldest(&self.deletes, CollectorItem::key),
            oldest(&self.orphans, CollectorItem::key),
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
}

impl CollectorItem for DeleteItem {
    fn key(&self) -> Key {
        match &self.item {
            WorkItem::Object(uid) => uid_key(&self.namespace, uid),
            WorkItem::Owner(owner) => owner.key(),
        }
    }

    fn object(&self, graph: &Graph) -> String {
        match &self.item {
            WorkItem::Object(uid) => logged(graph, &self.namespace, uid),
            WorkItem::Owner(owner) => owner.logged().to_string(),
        }
    }
}

impl CollectorItem for InNamespace<Uid> {
    fn key(&self) -> Key {
        uid_key(&self.namespace, &self.item)
    }

    fn object(&self, graph: &Graph) -> String {
        logged(graph, &self.namespace, &self.item)
    }
}

/// A namespace that is listed.
impl CollectorItem for Key {
    fn key(&self) -> Key {
        self.clone()
    }

    fn object(&self, _: &Graph) -> String {
        LoggedObject::new("Namespace", "", &self.namespace).to_string()
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

/// The kind of an object that is no longer in the graph is unknown.
fn logged(graph: &Graph, namespace: &Text, uid: &Uid) -> String {
    match graph.identity(uid) {
        Some(identity) => identity.logged().to_string(),
        None => uid_key(namespace, uid).logged("").to_string(),
    }
}

/// The backoff of an item: that of all controllers, with a maximum of a minute. There is no limit for all items together: the
/// failures of one namespace would delay the others, and the client's rate limiter bounds the requests.
pub(super) fn limiter<K: Item>() -> Exponential<K> {
    Exponential::new(Duration::from_millis(5), Duration::from_mins(1))
}

/// Requeues an item that was processed, and logs and records its error.
pub(super) fn requeue<K: CollectorItem>(
    queue: &Queue<K>,
    item: &K,
    processed: Result<Next, ClientError>,
    object: impl FnOnce() -> String,
    outcomes: &Outcomes,
) {
    match processed {
        Ok(Next::Done) => queue.forget(item),
        Ok(Next::After(delay)) => queue.add_after(item.clone(), delay),
        Ok(Next::Backoff) => queue.add_rate_limited(item.clone()),
        Ok(Next::Parked) => {}
        Err(ClientError::Fenced { .. }) => {
            tracing::debug!(object = object(), "The end of the term interrupted an item");
        }
        Err(_) if revived!(G13) => queue.add_after(item.clone(), Duration::from_millis(10)),
        Err(error) => {
            let least = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
            queue.add_rate_limited_after(item.clone(), least);
            outcomes.failed(&item.key(), &error);
            let failures = queue.num_requeues(item);
            tracing::warn!(object = object(), %error, failures, "Failed to collect garbage, retrying");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use steersman_manager::object::Meta;
    use tokio::time::Instant;

    use super::super::kinds::{Kind, Kinds};
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any start time will do")]
    fn item_is_logged_as_its_object() {
        let pod = Resource::namespaced("", "v1", "pods", "Pod");
        let kinds = Kinds::new([Kind::new(pod.clone())], &BTreeSet::from([pod.clone()]));
        let mut graph = Graph::default();
        drop(graph.set_kinds(Arc::new(kinds), Instant::now()));
        let meta = Meta {
            namespace: "a".into(),
            name: "web".into(),
            uid: "1".into(),
            ..Meta::default()
        };
        drop(graph.observe(&Arc::new(Kind::new(pod)), &meta));
        let owner = graph.identity(&"1".into()).expect("it was observed");

        let orphaned = |uid: &str| in_namespace(Uid::from(uid)).object(&graph);
        assert_eq!(orphaned("1"), "Pod/a/web");
        assert_eq!(orphaned("2"), "/a/uid 2");
        let deleted = |item| in_namespace(item).object(&graph);
        assert_eq!(deleted(WorkItem::Object("1".into())), "Pod/a/web");
        assert_eq!(deleted(WorkItem::Owner(owner)), "Pod/a/web");
        assert_eq!(Key::new("a", "").object(&graph), "Namespace/a");
    }

    fn in_namespace<T>(item: T) -> InNamespace<T> {
        InNamespace {
            namespace: "a".into(),
            item,
        }
    }
}
