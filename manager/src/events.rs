//! Events about objects, for people: core/v1.
//!
//! [`Recorder::event`] never waits and never fails: the event goes into a bounded queue, and one task writes what is in it,
//! one after the other. What finds the queue full, what the API refuses and what cannot be delivered is dropped and counted
//! in `coxswain_events_dropped_total`: an event is a courtesy, and no reconcile depends on it. A server that is away does
//! not make memory grow.
//!
//! Of equal events about one object the first is written; those that follow raise its count, and so do those that differ only
//! in their words, when there are many (`similar`). An object can have only so many writes (`limit`): what is over that
//! is counted and, if it is not among the equal ones, dropped. Who may create events should be allowed to patch them too:
//! otherwise each is written as it comes.

mod event;
mod known;
mod limit;
mod recent;
mod similar;
mod writer;

pub use event::{EventType, ObjectRef};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::{mpsc, oneshot};

use self::event::Source;
use self::known::Known;
use self::limit::Limit;
use self::similar::Similar;
use self::writer::{Message, Writer};
use crate::client::Client;
use crate::env::{Clock, Env, Rng};

/// How many events wait to be written.
const WAITING: usize = 1000;

/// Records events of one component. Clones share its queue.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    rng: Rng,
    source: Source,
    /// The nanosecond of the last event: no two have the same, whatever the clock says, or they had the same name.
    last: AtomicU64,
    queue: mpsc::Sender<Message>,
    dropped: IntCounterVec,
    /// Where `dropped` is taken out again: a component may be started again under its name.
    registry: Registry,
}

/// Why a component cannot record events; most likely it does already.
#[derive(Debug, thiserror::Error)]
#[error("cannot register the metric of the events of {component}: {source}")]
pub struct RecorderError {
    component: String,
    source: prometheus::Error,
}

impl Recorder {
    /// Starts to write events of `component` (the controller) on `instance` (the process) through `client`. It writes
    /// until the last clone is dropped and the queue is empty, or the tasks of `env` end.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        env: &Env,
        client: Client,
        component: &str,
        instance: &str,
        registry: &Registry,
    ) -> Result<Self, RecorderError> {
        let dropped = register(component, registry).map_err(|source| RecorderError {
            component: component.to_owned(),
            source,
        })?;
        let (queue, messages) = mpsc::channel(WAITING);
        let writer = Writer {
            similar: Similar::new(),
            known: Known::new(),
            limit: Limit::new(),
            client,
            clock: env.clock.clone(),
            rng: env.rng.clone(),
            dropped: dropped.clone(),
        };
        env.tasks.spawn(writer.run(messages));
        Ok(Self(Arc::new(Shared {
            clock: env.clock.clone(),
            rng: env.rng.clone(),
            source: Source {
                component: component.into(),
                instance: instance.into(),
            },
            last: AtomicU64::new(0),
            queue,
            dropped,
            registry: registry.clone(),
        })))
    }

    /// Records an event about `object`: `reason` in one `CamelCase` word, `message` for people (cut at 1024 bytes).
    pub fn event(&self, object: &ObjectRef, type_: EventType, reason: &str, message: &str) {
        let Shared {
            clock, rng, source, ..
        } = &*self.0;
        let (at, nanos) = (clock.wall(), self.nanos());
        let event = event::event(object, type_, reason, message, source, at, nanos, rng);
        if let Err(refused) = self.0.queue.try_send(Message::Event(event)) {
            let why = match refused {
                mpsc::error::TrySendError::Full(_) => "queue_full",
                mpsc::error::TrySendError::Closed(_) => "stopped",
            };
            self.0.dropped.with_label_values(&[why]).inc();
        }
    }

    /// Waits until all that was recorded before is written or dropped, for `limit` at most. False if it took too long.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (done, wait) = oneshot::channel();
        let flushed = async { self.0.queue.send(Message::Flush(done)).await.is_ok() && wait.await.is_ok() };
        self.0.clock.timeout(limit, flushed).await.unwrap_or(false)
    }

    fn nanos(&self) -> u64 {
        let now = u64::try_from(self.0.clock.wall().as_nanosecond()).unwrap_or(0);
        let next = |last: u64| now.max(last + 1);
        let last = self
            .0
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(last.unwrap_or(0))
    }
}

fn register(component: &str, registry: &Registry) -> prometheus::Result<IntCounterVec> {
    let help = "[ALPHA] Events that were not written, by component and reason.";
    let opts = Opts::new("coxswain_events_dropped_total", help).const_label("component", component);
    let dropped = IntCounterVec::new(opts, &["reason"])?;
    registry.register(Box::new(dropped.clone()))?;
    Ok(dropped)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Not there is as good as taken out.
        let _ = self.registry.unregister(Box::new(self.dropped.clone()));
    }
}
