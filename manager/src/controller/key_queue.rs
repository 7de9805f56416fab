//! The queue of object keys of one term, with the cause of each key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::outcomes::Waiting;
use super::runtime::Queues;
use crate::env::Env;
use crate::object::Key;
use crate::queue::{MaxOf, Priority, Queue};

/// The reason for a reconcile. For logs only: a reconciler acts on the observed state, not on events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A source reported a change. The first one, if there were several.
    #[expect(missing_docs, reason = "plain data")]
    Event { source: Arc<str>, change: Change },
    /// The last reconcile failed, and its backoff has ended.
    Retry,
    /// The last reconcile requested another one.
    Requeue,
}

/// The change of an object that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub enum Change {
    /// The object existed before the term started.
    Initial,
    Added,
    Updated,
    Deleted,
}

/// The queue of one term. Clones are handles of the same queue.
#[derive(Clone, Debug)]
pub(crate) struct KeyQueue {
    pub(super) queue: Queue<Key>,
    limiter: fn() -> MaxOf<Key>,
    /// The first event of each key since it was last handed out. All of these keys are queued, or in process and dirty.
    events: Arc<Mutex<BTreeMap<Key, Cause>>>,
}

impl KeyQueue {
    pub(super) fn new(queue: Queue<Key>, limiter: fn() -> MaxOf<Key>) -> Self {
        Self {
            queue,
            limiter,
            events: Arc::default(),
        }
    }

    /// Enqueues a key because of an event.
    pub(crate) fn add(&self, key: Key, priority: Priority, cause: Cause) {
        self.events(|events| {
            events.entry(key.clone()).or_insert(cause);
        });
        self.queue.add_with_priority(key, priority);
    }

    /// Returns the cause of a key that was just handed out. An event that arrives between the two is merged into this
    /// reconcile; the next one is then called a requeue.
    pub(super) fn take_cause(&self, key: &Key) -> Cause {
        let event = self.events(|events| events.remove(key));
        event.unwrap_or_else(|| match self.queue.num_requeues(key) {
            0 => Cause::Requeue,
            _ => Cause::Retry,
        })
    }

    fn events<T>(&self, with: impl FnOnce(&mut BTreeMap<Key, Cause>) -> T) -> T {
        with(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Queues for KeyQueue {
    fn replace(&self, env: &Env) -> Self {
        Self::new(self.queue.replace(env, (self.limiter)()), self.limiter)
    }

    fn depth(&self) -> usize {
        self.queue.len()
    }

    fn oldest(&self) -> Option<Waiting> {
        let (item, age) = self.queue.oldest()?;
        Some(Waiting { item, age })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, change) = match self {
            Self::Retry => return f.write_str("retry"),
            Self::Requeue => return f.write_str("requeue"),
            Self::Event { source, change } => (source, change),
        };
        let change = match change {
            Change::Initial => "initial",
            Change::Added => "added",
            Change::Updated => "updated",
            Change::Deleted => "deleted",
        };
        write!(f, "{source}: {change}")
    }
}
