//! A change counter that wakes its readers in the order in which they started waiting.
//!
//! `tokio::sync::watch` wakes receivers in random order, but a run must be reproducible from its seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The sender of changes. Clones share one counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicU64,
    notify: Notify,
}

/// The receiver of changes.
#[derive(Debug)]
pub struct Changed {
    changes: Changes,
    seen: u64,
}

impl Changes {
    /// Increments the counter and wakes all readers.
    pub(crate) fn bump(&self) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        self.0.notify.notify_waiters();
    }

    /// Returns a reader that has seen all changes so far.
    pub(crate) fn subscribe(&self) -> Changed {
        Changed {
            seen: self.count(),
            changes: self.clone(),
        }
    }

    fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }
}

impl Changed {
    /// Marks all changes so far as seen.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.changes.count();
    }

    /// Waits for an unseen change.
    pub(crate) async fn changed(&mut self) {
        loop {
            // Registers before reading the counter, so that a change in between is not missed.
            let notified = self.changes.0.notify.notified();
            let count = self.changes.count();
            if count != self.seen {
                self.seen = count;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn readers_wake_in_the_order_in_which_they_waited() {
        for _ in 0..20 {
            let (changes, order) = (Changes::default(), Mutex::new(Vec::new()));
            let readers = (0..30).map(|reader| {
                let (mut seen, order) = (changes.subscribe(), &order);
                async move {
                    seen.changed().await;
                    order.lock().expect("no panic").push(reader);
                }
            });
            let writer = async { changes.bump() };
            tokio::join!(join_all(readers), writer);
            assert_eq!(*order.lock().expect("no panic"), (0..30).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn change_before_the_wait_is_not_missed() {
        let changes = Changes::default();
        let mut seen = changes.subscribe();
        changes.bump();
        seen.changed().await;
        changes.bump();
        seen.mark_seen();
        let waits = tokio::select! {
            biased;
            () = seen.changed() => false,
            () = tokio::task::yield_now() => true,
        };
        assert!(waits);
    }
}
