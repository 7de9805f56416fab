//! Event recorder: writes core/v1 Events about objects.
//!
//! [`Recorder::event`] never blocks and never fails: events go to a bounded queue that one task drains. Events that do not
//! fit, that the API server rejects or that cannot be delivered are dropped and counted in
//! `<prefix>_events_dropped_total`. An unavailable API server does not make memory grow.
//!
//! Events are correlated as in client-go. Of identical events only the first is created; later ones patch its count
//! (`event_cache`). Many events that differ only in their message are aggregated into one (`aggregator`). The writes about
//! one object are rate limited (`spam_filter`). The client needs the verbs `create` and `patch`; without `patch` every
//! event is created.
//!
//! [`Context::event`](crate::controller::Context::event) records an event about the object of a reconcile. About any object:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_manager::client::{ListQuery, Transport};
//! # use steersman_manager::object::{MetaObject, Resource};
//! # use futures_util::TryStreamExt as _;
//! # use k8s_openapi::api::core::v1::{ConfigMap, Event};
//! # use serde_json::json;
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! # let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": {"app": "web"}}});
//! # let client = transport.unfenced("events", None);
//! # let map: MetaObject = client.create(&Resource::of::<ConfigMap>(), "default", map.to_string().into()).await?;
//! # let list = client.api::<Event>();
//! use steersman_manager::events::{EventType, ObjectRef, Recorder};
//! use std::time::Duration;
//!
//! let recorder = Recorder::start(&env, client, "greeter", "node-1", &registry)?;
//! let settings = ObjectRef::of(&Resource::of::<ConfigMap>(), &map.metadata);
//! recorder.event(&settings, EventType::Warning, "InvalidSettings", "The language \"xx\" is unknown.");
//! assert!(recorder.flush(Duration::from_secs(5)).await);
//! # let events: Vec<Event> = list.list("default", ListQuery::default()).try_collect().await?;
//! # assert_eq!(events[0].reason.as_deref(), Some("InvalidSettings"));
//! # Ok(())
//! # }
//! ```

mod aggregator;
mod event;
mod event_cache;
mod lru;
mod spam_filter;
mod writer;

pub use event::{EventType, ObjectRef};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus::{IntCounterVec, Opts};

use crate::metrics::Registry;
use tokio::sync::{mpsc, oneshot};

use self::aggregator::Aggregator;
use self::event::Source;
use self::event_cache::EventCache;
use self::spam_filter::SpamFilter;
use self::writer::{Message, Writer};
use crate::client::Client;
use crate::env::{Clock, Env, Rng};

/// The number of events that wait to be written.
const QUEUE_CAPACITY: usize = 1000;

/// The reason why an event is not written: a label of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DropReason {
    Fenced,
    /// By the spam filter.
    Limited,
    QueueFull,
    Rejected,
    Stopped,
    Unreachable,
}

/// The counter of events that were not written.
#[derive(Clone, Debug)]
struct DroppedEvents(IntCounterVec);

/// A recorder for one component. Clones share its queue.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    rng: Rng,
    source: Source,
    /// The nanosecond of the last event. It is unique, because the name of an event contains it.
    last: AtomicU64,
    queue: mpsc::Sender<Message>,
    dropped: DroppedEvents,
    /// `dropped` is unregistered on drop, so that a component can be restarted under its name.
    registry: Registry,
}

/// The metric cannot be registered. Most likely the component has a recorder already.
#[derive(Debug, thiserror::Error)]
#[error("failed to register event metrics of {component}: {source}")]
pub struct RecorderError {
    component: String,
    source: prometheus::Error,
}

impl Recorder {
    /// Starts writing events of `component` (the controller) on `instance` (the process) through `client`. The task ends
    /// when the last clone is dropped and the queue is empty, or with the tasks of `env`.
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
        let dropped = DroppedEvents::register(component, registry).map_err(|source| RecorderError {
            component: component.to_owned(),
            source,
        })?;
        let (queue, messages) = mpsc::channel(QUEUE_CAPACITY);
        let writer = Writer {
            aggregator: Aggregator::new(),
            cache: EventCache::new(),
            spam_filter: SpamFilter::new(),
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

    /// Records an event about `object`. `reason` is one `CamelCase` word; `message` is truncated to 1024 bytes.
    pub fn event(&self, object: &ObjectRef, type_: EventType, reason: &str, message: &str) {
        let Shared {
            clock, rng, source, ..
        } = &*self.0;
        let (at, nanos) = (clock.wall(), self.nanos());
        let event = event::event(object, type_, reason, message, source, at, nanos, rng);
        if let Err(refused) = self.0.queue.try_send(Message::Event(event)) {
            let why = match refused {
                mpsc::error::TrySendError::Full(_) => DropReason::QueueFull,
                mpsc::error::TrySendError::Closed(_) => DropReason::Stopped,
            };
            self.0.dropped.count(why);
        }
    }

    /// Waits until all events recorded so far are written or dropped, for at most `limit`. Returns false on timeout.
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

impl DropReason {
    const ALL: [Self; 6] = [
        Self::Fenced,
        Self::Limited,
        Self::QueueFull,
        Self::Rejected,
        Self::Stopped,
        Self::Unreachable,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Limited => "limited",
            Self::QueueFull => "queue_full",
            Self::Rejected => "rejected",
            Self::Stopped => "stopped",
            Self::Unreachable => "unreachable",
        }
    }
}

impl DroppedEvents {
    fn register(component: &str, registry: &Registry) -> prometheus::Result<Self> {
        let help = "[ALPHA] Number of events that were not written, by component and reason.";
        let opts =
            Opts::new(registry.prefixed("events_dropped_total"), help).const_label("component", component);
        let dropped = IntCounterVec::new(opts, &["reason"])?;
        registry.register(Box::new(dropped.clone()))?;
        // Exported as 0 before the first one.
        for reason in DropReason::ALL {
            dropped.with_label_values(&[reason.label()]);
        }
        Ok(Self(dropped))
    }

    fn count(&self, reason: DropReason) {
        self.0.with_label_values(&[reason.label()]).inc();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // It may have been unregistered already.
        let _ = self.registry.unregister(Box::new(self.dropped.0.clone()));
    }
}
