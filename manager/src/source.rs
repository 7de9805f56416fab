//! What a controller watches: changes of a cache, the predicate that they have to pass, the handler that makes keys of
//! them.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::cache::{Cache, Delta, MetaCache, Subscription};
use crate::controller::inbox::{Cause, Change, Inbox};
use crate::handler::Handler;
use crate::object::{Key, MetaObject, Object};
use crate::predicate::Predicate;
use crate::queue::Priority;

/// What a source needs of a cache.
pub trait Origin<T>: Send + Sync + 'static {
    /// What it holds, as causes and errors name it.
    fn name(&self) -> String;

    /// The present state as initial deltas, then every change.
    fn subscribe(&self) -> Subscription<T>;

    /// Whether the present state is known.
    fn is_synced(&self) -> bool;

    /// Resolves when the present state is known.
    fn synced(&self) -> BoxFuture<'_, ()>;

    /// Whether its kind is not served, or not to us: what it shows may all be gone.
    fn is_waiting(&self) -> bool {
        false
    }
}

/// One of the things that wake a controller.
#[derive(Debug)]
pub struct Source<T, O> {
    name: Arc<str>,
    origin: O,
    predicate: Predicate<T>,
    handler: Handler<T>,
}

/// A source, whatever it is a source of.
pub(crate) trait Watched: Send + Sync {
    fn name(&self) -> &str;
    fn is_synced(&self) -> bool;
    fn is_waiting(&self) -> bool;
    fn synced(&self) -> BoxFuture<'_, ()>;
    /// Subscribes now, and puts keys into `inbox` until the cache is gone.
    fn feed(&self, inbox: Arc<Inbox>) -> BoxFuture<'static, ()>;
}

/// Keys that wake a controller at the start of each term, whether or not there are such objects.
pub(crate) struct Beginning(pub(crate) Vec<Key>);

impl<T: Object, O: Origin<T>> Source<T, O> {
    /// From changes of `origin` to the keys that `handler` computes. Updates in which nothing has changed that could be read
    /// are left out.
    pub fn new(origin: O, handler: Handler<T>) -> Self {
        Self {
            name: origin.name().into(),
            origin,
            predicate: Predicate::changed(),
            handler,
        }
    }

    /// Only changes that pass `predicate`, instead of [`Predicate::changed`].
    #[must_use]
    pub fn only(self, predicate: Predicate<T>) -> Self {
        Self { predicate, ..self }
    }
}

impl<T: Object, O: Origin<T>> Watched for Source<T, O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_synced(&self) -> bool {
        self.origin.is_synced()
    }

    fn is_waiting(&self) -> bool {
        self.origin.is_waiting()
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        self.origin.synced()
    }

    fn feed(&self, inbox: Arc<Inbox>) -> BoxFuture<'static, ()> {
        let mut subscription = self.origin.subscribe();
        let name = Arc::clone(&self.name);
        let (predicate, handler) = (self.predicate.clone(), self.handler.clone());
        Box::pin(async move {
            while let Some(delta) = subscription.next().await {
                if predicate.passes(&delta) {
                    let (change, priority) = weigh(&delta);
                    for key in handler.keys(&delta) {
                        let source = Arc::clone(&name);
                        inbox.add(key, priority, Cause::Event { source, change });
                    }
                }
                // A cache of 100,000 objects is one long run of deltas that are ready.
                tokio::task::consume_budget().await;
            }
        })
    }
}

impl Watched for Beginning {
    fn name(&self) -> &'static str {
        "start"
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn feed(&self, inbox: Arc<Inbox>) -> BoxFuture<'static, ()> {
        for key in &self.0 {
            let cause = Cause::Event {
                source: self.name().into(),
                change: Change::Initial,
            };
            inbox.add(key.clone(), Priority::Low, cause);
        }
        Box::pin(std::future::pending())
    }
}

/// What merely exists gives way to what has changed.
fn weigh<T>(delta: &Delta<T>) -> (Change, Priority) {
    match delta {
        Delta::Added { initial: true, .. } => (Change::Initial, Priority::Low),
        Delta::Added { initial: false, .. } => (Change::Added, Priority::Normal),
        Delta::Updated { .. } => (Change::Updated, Priority::Normal),
        Delta::Deleted { .. } => (Change::Deleted, Priority::Normal),
    }
}

impl<T: Object> Origin<T> for Cache<T> {
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

    fn is_waiting(&self) -> bool {
        self.status().is_waiting()
    }
}

impl Origin<MetaObject> for MetaCache {
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

    fn is_waiting(&self) -> bool {
        self.status().is_waiting()
    }
}
