//! Event sources of a controller: the deltas of a cache, filtered by a predicate, mapped to keys by a handler.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_manager::client::Transport;
//! # use steersman_manager::controller::{Action, ReconcileContext, ReconcileError, Reconciler};
//! # use steersman_manager::{handler::Handler, health::Checks, manager::{self, Manager}, object::{Key, Resource}};
//! # use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
//! # struct StopAt(Key, tokio_util::sync::CancellationToken);
//! # impl Reconciler for StopAt {
//! #     async fn reconcile(&self, _: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
//! #         assert_eq!(key, self.0);
//! #         self.1.cancel();
//! #         Ok(Action::Done)
//! #     }
//! # }
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! # let stop = tokio_util::sync::CancellationToken::new();
//! # let reconciler = StopAt(Key::new("default", "web"), stop.clone());
//! # let options = manager::Options::new("example");
//! # let mut manager = Manager::new(&env, &registry, &Checks::new(), transport, options)?;
//! use steersman_manager::controller::{Builder, Options};
//! use steersman_manager::predicate::Predicate;
//! use steersman_manager::source::{Source, Trigger};
//!
//! let pods = Source::new(manager.caches().of_kind::<Pod>(), Handler::for_owner(Resource::of::<ReplicaSet>()));
//! let trigger = Trigger::new();
//! let controller = Builder::new("replicaset", Options::default(), reconciler)
//!     .watch(pods.only(Predicate::labels_changed()))
//!     .triggered_by(&trigger)
//!     .build(manager.env(), manager.reader("replicaset"), manager.registry())?;
//! manager.add(controller);
//! trigger.send(Key::new("default", "web"));
//! # manager.run(stop).await?;
//! # Ok(())
//! # }
//! ```

mod trigger;

pub use trigger::Trigger;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::cache::{Cache, Delta, MetaCache, Status, Subscription};
use crate::controller::key_queue::{Cause, Change, KeyQueue};
use crate::handler::Handler;
use crate::object::{Key, MetaObject, Object};
use crate::predicate::Predicate;
use crate::queue::{Item, Priority};

/// A cache as the origin of events.
pub trait EventSource<T>: Send + Sync + 'static {
    /// Returns the name in causes and errors.
    fn name(&self) -> String;

    /// Subscribes to the current state, as initial deltas, and to all later changes.
    fn subscribe(&self) -> Subscription<T>;

    /// Returns true if the first list is complete.
    fn is_synced(&self) -> bool;

    /// Waits until the first list is complete.
    fn synced(&self) -> BoxFuture<'_, ()>;

    /// Returns true if the API server does not serve the resource, or not to this client.
    fn is_unavailable(&self) -> bool {
        false
    }

    /// Returns the time since the list and watch last worked, and its status; see [`Cache::silence`].
    fn silence(&self) -> Option<(Duration, Status)> {
        None
    }
}

/// An event source of a controller.
#[derive(Debug)]
pub struct Source<T, O, Q = Key> {
    name: Arc<str>,
    cache: O,
    predicate: Predicate<T>,
    handler: Handler<T, Q>,
}

/// A source of any object type. The default methods are those of a source without a cache, which is always synced.
pub(crate) trait AnySource<Q: Item>: Send + Sync {
    fn name(&self) -> &str;

    fn is_synced(&self) -> bool {
        true
    }

    fn is_unavailable(&self) -> bool {
        false
    }

    fn silence(&self) -> Option<(Duration, Status)> {
        None
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Subscribes now. The future adds keys to `queue` until the cache is dropped.
    fn run(&self, queue: KeyQueue<Q>) -> BoxFuture<'static, ()>;

    /// Adds the keys of all existing objects to `queue`.
    fn resync<'a>(&'a self, _queue: &'a KeyQueue<Q>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Keys to reconcile at the start of each term and at each resync, whether or not the objects exist.
pub(crate) struct InitialKeys<Q>(pub(crate) Vec<Q>);

impl<Q: Item> InitialKeys<Q> {
    fn add(&self, queue: &KeyQueue<Q>, change: Change) {
        let source = "start".into();
        for key in &self.0 {
            queue.add(key.clone(), Priority::Low, cause(&source, change), None);
        }
    }
}

impl<T: Object, O: EventSource<T>, Q: Item> Source<T, O, Q> {
    /// Returns a source of the keys that `handler` computes for the deltas of `cache` that pass [`Predicate::changed`].
    pub fn new(cache: O, handler: Handler<T, Q>) -> Self {
        Self {
            name: cache.name().into(),
            cache,
            predicate: Predicate::changed(),
            handler,
        }
    }

    /// Replaces [`Predicate::changed`] by another predicate.
    #[must_use]
    pub fn only(self, predicate: Predicate<T>) -> Self {
        Self { predicate, ..self }
    }
}

impl<T: Object, O: EventSource<T>, Q: Item + Sync> AnySource<Q> for Source<T, O, Q> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_synced(&self) -> bool {
        self.cache.is_synced()
    }

    fn is_unavailable(&self) -> bool {
        self.cache.is_unavailable()
    }

    fn silence(&self) -> Option<(Duration, Status)> {
        self.cache.silence()
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        self.cache.synced()
    }

    fn run(&self, queue: KeyQueue<Q>) -> BoxFuture<'static, ()> {
        let mut subscription = self.cache.subscribe();
        let name = Arc::clone(&self.name);
        let (predicate, handler) = (self.predicate.clone(), self.handler.clone());
        Box::pin(async move {
            while let Some(delta) = subscription.next().await {
                if predicate.passes(&delta) {
                    let (change, priority) = classify(&delta);
                    let (keys, event) = (handler.requests(&delta), subscription.event());
                    // Only an event that enqueues a key is part of a trace.
                    if let Some(event) = event.filter(|_| !keys.is_empty()) {
                        event.end();
                    }
                    for key in keys {
                        queue.add(key, priority, cause(&name, change), event);
                    }
                }
                // All deltas of a large cache may be ready at once: yield to other tasks.
                tokio::task::consume_budget().await;
            }
        })
    }

    fn resync<'a>(&'a self, queue: &'a KeyQueue<Q>) -> BoxFuture<'a, ()> {
        let mut subscription = self.cache.subscribe();
        Box::pin(async move {
            // Later changes have their own events.
            while let Some(delta @ Delta::Added { initial: true, .. }) = subscription.try_next() {
                if self.predicate.passes(&delta) {
                    for key in self.handler.requests(&delta) {
                        queue.add(key, Priority::Low, cause(&self.name, Change::Resync), None);
                    }
                }
                tokio::task::consume_budget().await;
            }
        })
    }
}

fn cause(source: &Arc<str>, change: Change) -> Cause {
    let source = Arc::clone(source);
    Cause::Event { source, change }
}

impl<Q: Item + Sync> AnySource<Q> for InitialKeys<Q> {
    fn name(&self) -> &'static str {
        "start"
    }

    fn run(&self, queue: KeyQueue<Q>) -> BoxFuture<'static, ()> {
        self.add(&queue, Change::Initial);
        Box::pin(std::future::pending())
    }

    fn resync<'a>(&'a self, queue: &'a KeyQueue<Q>) -> BoxFuture<'a, ()> {
        self.add(queue, Change::Resync);
        Box::pin(std::future::ready(()))
    }
}

/// Initial deltas have a lower priority than changes.
fn classify<T>(delta: &Delta<T>) -> (Change, Priority) {
    match delta {
        Delta::Added { initial: true, .. } => (Change::Initial, Priority::Low),
        Delta::Added { initial: false, .. } => (Change::Added, Priority::Normal),
        Delta::Updated { .. } => (Change::Updated, Priority::Normal),
        Delta::Deleted { .. } => (Change::Deleted, Priority::Normal),
    }
}

impl<T: Object> EventSource<T> for Cache<T> {
    fn name(&self) -> String {
        self.resource().to_string()
    }

    fn subscribe(&self) -> Subscription<T> {
        self.subscribe()
    }

    fn is_synced(&self) -> bool {
        self.is_synced()
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.synced())
    }

    fn is_unavailable(&self) -> bool {
        self.status().is_unavailable()
    }

    fn silence(&self) -> Option<(Duration, Status)> {
        Some((self.silence()?, self.status()))
    }
}

impl EventSource<MetaObject> for MetaCache {
    fn name(&self) -> String {
        self.resource().to_string()
    }

    fn subscribe(&self) -> Subscription<MetaObject> {
        self.subscribe()
    }

    fn is_synced(&self) -> bool {
        self.is_synced()
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.synced())
    }

    fn is_unavailable(&self) -> bool {
        self.status().is_unavailable()
    }

    fn silence(&self) -> Option<(Duration, Status)> {
        Some((self.silence()?, self.status()))
    }
}
