//! Requests from outside the cluster.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::AnySource;
use crate::controller::key_queue::{Cause, Change, KeyQueue};
use crate::queue::{Item, Priority};

/// A source of requests that any part of the program sends. Clones share it.
///
/// Sending never blocks. Requests that are sent while this process is not the leader wait for its next term, each once.
pub struct Trigger<Q>(Arc<Shared<Q>>);

struct Shared<Q> {
    waiting: Mutex<BTreeSet<Q>>,
    sent: Notify,
}

impl<Q: Item> Trigger<Q> {
    /// Returns a trigger without requests.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            waiting: Mutex::default(),
            sent: Notify::new(),
        }))
    }

    /// Enqueues a request.
    pub fn send(&self, request: Q) {
        self.waiting(|waiting| waiting.insert(request));
        self.0.sent.notify_one();
    }

    fn waiting<R>(&self, with: impl FnOnce(&mut BTreeSet<Q>) -> R) -> R {
        with(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<Q: Item + Sync> AnySource<Q> for Trigger<Q> {
    fn name(&self) -> &'static str {
        "trigger"
    }

    fn run(&self, queue: KeyQueue<Q>) -> BoxFuture<'static, ()> {
        let trigger = self.clone();
        Box::pin(async move {
            loop {
                let sent = trigger.waiting(std::mem::take);
                for request in sent {
                    let cause = Cause::Event {
                        source: trigger.name().into(),
                        change: Change::Updated,
                    };
                    queue.add(request, Priority::Normal, cause, None);
                }
                trigger.0.sent.notified().await;
            }
        })
    }
}

impl<Q: Item> Default for Trigger<Q> {
    fn default() -> Self {
        Self::new()
    }
}

// Not derived: that would require `Q: Clone`.
impl<Q> Clone for Trigger<Q> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q> fmt::Debug for Trigger<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trigger")
    }
}
