//! The queue of requests of one term, with the cause of each request and its part of a [trace](crate::trace).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::Request;
use super::outcomes::Waiting;
use super::runtime::Queues;
use crate::env::Env;
use crate::queue::{Item, MaxOf, Priority, Queue};
use crate::trace::{Span, SpanKind};

/// The name of the span of a reconcile.
const RECONCILE: &str = "reconcile";

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
    /// No change: the periodic resync.
    Resync,
}

/// The queue of one term. Clones are handles of the same queue.
#[derive(Clone, Debug)]
pub(crate) struct KeyQueue<Q: Item> {
    pub(super) queue: Queue<Q>,
    limiter: fn() -> MaxOf<Q>,
    /// The first event of each key since it was last handed out. All of these keys are queued, in process and dirty, or held.
    events: Arc<Mutex<BTreeMap<Q, Event>>>,
    /// The reconciles that requested another one, of keys that were not handed out since. Empty without a tracer.
    requeues: Arc<Mutex<BTreeMap<Q, Span>>>,
}

#[derive(Debug)]
struct Event {
    cause: Cause,
    /// The time in the queue; none if the event is not traced.
    span: Option<Span>,
}

impl<Q: Item> KeyQueue<Q> {
    pub(super) fn new(queue: Queue<Q>, limiter: fn() -> MaxOf<Q>) -> Self {
        Self {
            queue,
            limiter,
            events: Arc::default(),
            requeues: Arc::default(),
        }
    }

    /// Enqueues a key because of an event. `event` is the span of its watch event.
    pub(crate) fn add(&self, key: Q, priority: Priority, cause: Cause, event: Option<&Span>) {
        lock(&self.events, |events| {
            let queued = events.entry(key.clone()).or_insert(Event { cause, span: None });
            match (&queued.span, event) {
                (_, None) => {}
                (None, Some(event)) => queued.span = Some(event.child("queue", SpanKind::Internal)),
                (Some(span), Some(event)) => span.link(event.context()),
            }
        });
        self.queue.add_with_priority(key, priority);
    }

    /// Returns the cause of a key that was just handed out, and the span of its reconcile if it is traced. An event that
    /// arrives between the two is merged into this reconcile; the next one is then called a requeue.
    pub(super) fn take(&self, key: &Q) -> (Cause, Option<Span>) {
        let requeue = lock(&self.requeues, |requeues| requeues.remove(key));
        if let Some(Event { cause, span }) = lock(&self.events, |events| events.remove(key)) {
            let reconcile = span.map(|queue| {
                queue.end();
                queue.child(RECONCILE, SpanKind::Internal)
            });
            return (cause, reconcile);
        }
        let cause = match self.queue.num_requeues(key) {
            0 => Cause::Requeue,
            _ => Cause::Retry,
        };
        (
            cause,
            requeue.map(|last| last.follow(RECONCILE, SpanKind::Internal)),
        )
    }

    /// Links the next reconcile of a key to the span of this one. Called before the key is added.
    pub(super) fn link_requeue(&self, key: &Q, reconcile: Span) {
        lock(&self.requeues, |requeues| requeues.insert(key.clone(), reconcile));
    }

    /// Undoes [`KeyQueue::link_requeue`] for a key that is not added.
    pub(super) fn unlink_requeue(&self, key: &Q) {
        lock(&self.requeues, |requeues| requeues.remove(key));
    }
}

fn lock<Q, T, R>(map: &Mutex<BTreeMap<Q, T>>, with: impl FnOnce(&mut BTreeMap<Q, T>) -> R) -> R {
    with(&mut map.lock().unwrap_or_else(PoisonError::into_inner))
}

impl<Q: Request> Queues for KeyQueue<Q> {
    fn replace(&self, env: &Env) -> Self {
        Self::new(self.queue.replace(env, (self.limiter)()), self.limiter)
    }

    fn depth(&self) -> usize {
        self.queue.len()
    }

    fn oldest(&self) -> Option<Waiting> {
        let (item, age) = self.queue.oldest()?;
        Some(Waiting {
            item: item.key(),
            age,
        })
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
            Change::Resync => "resync",
        };
        write!(f, "{source}: {change}")
    }
}
