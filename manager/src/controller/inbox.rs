//! The queue of a controller, and why each key is in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::object::Key;
use crate::queue::{Priority, Queue};

/// Why a key is reconciled. For logs: a reconciler looks at what is, not at what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Something has changed; the first change, if there were several.
    Event {
        /// The source that told of it.
        source: Arc<str>,
        /// What it was.
        change: Change,
    },
    /// It has failed, and its backoff has ended.
    Retry,
    /// It was asked for again by the last reconcile.
    Requeue,
}

/// What has happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was there when the controller came.
    Initial,
    /// It was created.
    Added,
    /// It was changed.
    Updated,
    /// It was deleted.
    Deleted,
}

/// The queue of one term.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) queue: Queue<Key>,
    /// The first event of each key since it was last handed out. All of them are queued, or will be when they are done.
    events: Mutex<BTreeMap<Key, Cause>>,
}

impl Inbox {
    pub(super) fn new(queue: Queue<Key>) -> Self {
        Self {
            queue,
            events: Mutex::default(),
        }
    }

    /// Queues a key because of an event.
    pub(crate) fn add(&self, key: Key, priority: Priority, cause: Cause) {
        self.events(|events| {
            events.entry(key.clone()).or_insert(cause);
        });
        self.queue.add_with_priority(key, priority);
    }

    /// The next key, when there is one; none once the queue is shut down. An event that comes at this very moment may be
    /// taken for a part of the one before; then its own run is said to be a requeue.
    pub(super) async fn get(&self) -> Option<(Key, Cause)> {
        let key = self.queue.get().await?;
        let event = self.events(|events| events.remove(&key));
        let cause = event.unwrap_or_else(|| match self.queue.num_requeues(&key) {
            0 => Cause::Requeue,
            _ => Cause::Retry,
        });
        Some((key, cause))
    }

    fn events<T>(&self, with: impl FnOnce(&mut BTreeMap<Key, Cause>) -> T) -> T {
        with(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
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
