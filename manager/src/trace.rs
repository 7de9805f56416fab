//! Traces: one trace leads from a watch event through the work queue and the reconcile to its requests.
//!
//! - A trace starts with a watch event that enqueues a key, and has the spans `watch event` → `queue` → `reconcile` → one
//!   for each request of the reconcile, which sends the W3C `traceparent` header. Several controllers that an event
//!   concerns have a `queue` span each.
//! - An event for a key that is queued already is a link of its `queue` span: at most [`LINKS_MAX`].
//! - A requeue starts a new trace, whose `reconcile` span links to the one that requested it: the trace of an object that is
//!   requeued periodically would never end.
//! - The objects of a list start no trace: a restart would start one for each object of the cluster.
//! - Traces are sampled as a whole, at the watch event. A trace that is not sampled has no spans and sends no header.
//!
//! Spans that have ended wait in a bounded channel for an exporter. If it is full, they are dropped and counted: no worker
//! waits. Without a tracer nothing is allocated, and an `Option<Span>` is one word.
//!
//! [`Transport::traced`](crate::client::Transport::traced) takes the tracer. A reconcile starts spans of its own below
//! [`current`], as this one below a root:
//!
//! ```
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! use steersman_manager::trace::{SpanKind, Tracer};
//! use prometheus::IntCounter;
//!
//! let dropped = IntCounter::new("backup_spans_dropped_total", "Number of spans that were not exported.")?;
//! let (tracer, mut finished) = Tracer::new(&env, 1_000_000, dropped);
//! let root = tracer.root("backup", SpanKind::Internal).expect("every trace is sampled");
//! let upload = root.child("upload", SpanKind::Client);
//! upload.set("bytes", 512);
//! upload.end();
//! let span = finished.try_recv()?;
//! assert_eq!((&*span.name, span.parent), ("upload", Some(root.context().span_id)));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod span;
#[cfg(test)]
mod tests;

pub use span::{Attribute, FinishedSpan, SpanContext, SpanKind};

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus::IntCounter;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::env::{Clock, Env, Rng};

/// The maximum number of links of a span.
pub const LINKS_MAX: usize = 8;
/// The number of spans that wait for the exporter.
const CAPACITY: usize = 4096;
/// The sampling rate of all traces.
const MILLION: u32 = 1_000_000;

tokio::task_local! {
    static CURRENT: Option<Span>;
}

/// Starts traces. Clones share it. The default one starts none.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Core>>);

#[derive(Debug)]
struct Core {
    clock: Clock,
    rng: Rng,
    sampled_per_million: u32,
    finished: mpsc::Sender<FinishedSpan>,
    dropped: IntCounter,
}

/// A part of a trace. Clones share it. It is exported once it has ended, and not at all if it is dropped before.
#[derive(Clone, Debug)]
pub struct Span(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    core: Arc<Core>,
    context: SpanContext,
    parent: Option<u64>,
    name: Cow<'static, str>,
    kind: SpanKind,
    wall: Timestamp,
    start: Instant,
    /// None once the span has ended.
    details: Mutex<Option<Details>>,
}

#[derive(Debug, Default)]
struct Details {
    attributes: Vec<(&'static str, Attribute)>,
    links: Vec<SpanContext>,
    error: Option<String>,
}

impl Tracer {
    /// Returns a tracer, and the spans that have ended. `dropped` counts the spans that the channel has no room for.
    #[must_use]
    pub fn new(
        env: &Env,
        sampled_per_million: u32,
        dropped: IntCounter,
    ) -> (Self, mpsc::Receiver<FinishedSpan>) {
        let (finished, receiver) = mpsc::channel(CAPACITY);
        let core = Core {
            clock: env.clock.clone(),
            rng: env.rng.clone(),
            sampled_per_million,
            finished,
            dropped,
        };
        (Self(Some(Arc::new(core))), receiver)
    }

    /// Starts a trace; none if it is not sampled.
    #[must_use]
    pub fn root(&self, name: &'static str, kind: SpanKind) -> Option<Span> {
        let core = self.0.as_ref()?;
        let sampled = core.sampled_per_million >= MILLION
            || core.rng.below(u64::from(MILLION)) < u64::from(core.sampled_per_million);
        sampled.then(|| core.root(name.into(), kind))
    }
}

impl Core {
    fn root(self: &Arc<Self>, name: Cow<'static, str>, kind: SpanKind) -> Span {
        let (high, low) = (self.rng.number(), self.rng.number());
        // An id of zero is invalid.
        self.start(
            (u128::from(high) << 64 | u128::from(low)).max(1),
            None,
            name,
            kind,
        )
    }

    fn start(
        self: &Arc<Self>,
        trace_id: u128,
        parent: Option<u64>,
        name: Cow<'static, str>,
        kind: SpanKind,
    ) -> Span {
        let span_id = self.rng.number().max(1);
        Span(Arc::new(Shared {
            core: Arc::clone(self),
            context: SpanContext { trace_id, span_id },
            parent,
            name,
            kind,
            wall: self.clock.wall(),
            start: self.clock.now(),
            details: Mutex::new(Some(Details::default())),
        }))
    }
}

impl Span {
    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn context(&self) -> SpanContext {
        self.0.context
    }

    /// Starts a span of the same trace below this one, which may have ended.
    #[must_use]
    pub fn child(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Self {
        let SpanContext { trace_id, span_id } = self.0.context;
        self.0.core.start(trace_id, Some(span_id), name.into(), kind)
    }

    /// Starts another trace with a link to this span.
    #[must_use]
    pub fn follow(&self, name: &'static str, kind: SpanKind) -> Self {
        let span = self.0.core.root(name.into(), kind);
        span.link(self.0.context);
        span
    }

    /// Adds an attribute, unless the span has ended.
    pub fn set(&self, key: &'static str, value: impl Into<Attribute>) {
        self.change(|details| details.attributes.push((key, value.into())));
    }

    /// Adds a link, unless there are [`LINKS_MAX`].
    pub fn link(&self, context: SpanContext) {
        self.change(|details| {
            if details.links.len() < LINKS_MAX {
                details.links.push(context);
            }
        });
    }

    /// Marks the span as failed. `message` must not contain a secret.
    pub fn fail(&self, message: impl Into<String>) {
        self.change(|details| details.error = Some(message.into()));
    }

    /// Undoes [`Span::fail`].
    pub fn succeed(&self) {
        self.change(|details| details.error = None);
    }

    /// Ends the span, once. Never waits.
    pub fn end(&self) {
        let Some(details) = self.0.details().take() else {
            return;
        };
        let Shared { core, wall, .. } = &*self.0;
        // Wall time may jump: the duration is that of the monotonic clock.
        let took = core.clock.now().saturating_duration_since(self.0.start);
        let finished = FinishedSpan {
            context: self.0.context,
            parent: self.0.parent,
            name: self.0.name.clone(),
            kind: self.0.kind,
            start: *wall,
            end: wall.saturating_add(took).unwrap_or(*wall),
            attributes: details.attributes,
            links: details.links,
            error: details.error,
        };
        if core.finished.try_send(finished).is_err() {
            core.dropped.inc();
        }
    }

    fn change(&self, with: impl FnOnce(&mut Details)) {
        if let Some(details) = &mut *self.0.details() {
            with(details);
        }
    }
}

impl Shared {
    fn details(&self) -> std::sync::MutexGuard<'_, Option<Details>> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the span of the reconcile that this task runs; none outside a trace.
#[must_use]
pub fn current() -> Option<Span> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Runs `future` with `span` as the current one.
pub(crate) async fn scope<F: Future>(span: Option<Span>, future: F) -> F::Output {
    CURRENT.scope(span, future).await
}

/// Calls `function` with `span` as the current one.
pub(crate) fn in_scope<T>(span: Option<Span>, function: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(span, function)
}
