//! A channel that holds one value and wakes its receivers in the order in which they started to wait.
//!
//! It is the used part of `tokio::sync::watch` with the same semantics, except for the order: tokio wakes receivers in random
//! order, but a run must be reproducible from its seed. A receiver sees the latest value, and may miss values before it.

#[cfg(test)]
mod tests;

use std::mem;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::Notify;
use tokio::task::coop::cooperative;

/// The sending half. Clones share the channel, which is closed when the last one is dropped.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving half. A clone has seen the same value, and then sees each change by itself.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version of the value that was seen last.
    seen: u64,
}

/// A borrowed value. Senders block until it is dropped, and so does the thread of a task that holds it across an await.
#[derive(Debug)]
pub struct Ref<'a, T>(RwLockReadGuard<'a, T>);

/// All senders were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel is closed")]
pub struct Closed;

#[derive(Debug)]
struct Shared<T> {
    value: RwLock<T>,
    /// The number of changes. It only changes while the value is locked for writing.
    version: AtomicU64,
    senders: AtomicUsize,
    changed: Notify,
}

/// Returns the halves of a new channel. The receiver has seen the initial value.
#[must_use]
pub fn channel<T>(initial: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(initial);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Returns a channel without receivers.
    #[must_use]
    pub fn new(initial: T) -> Self {
        Self(Arc::new(Shared {
            value: RwLock::new(initial),
            version: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            changed: Notify::new(),
        }))
    }

    /// Returns a receiver that has seen the current value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            seen: self.0.version(),
            shared: Arc::clone(&self.0),
        }
    }

    /// Returns the current value.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.read()
    }

    /// Replaces the value, wakes all receivers, and returns the old value.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| mem::swap(old, &mut value));
        value
    }

    /// Changes the value and wakes all receivers.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value, and wakes all receivers if `modify` returns true. Returns its result.
    ///
    /// # Panics
    /// If `modify` panics. No receiver is woken then.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut value = self.0.value.write().unwrap_or_else(PoisonError::into_inner);
            if !modify(&mut value) {
                return false;
            }
            self.0.version.fetch_add(1, Ordering::Release);
        }
        self.0.changed.notify_waiters();
        true
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Receiver<T> {
    /// Returns the current value, without marking it as seen.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.read()
    }

    /// Returns the current value and marks it as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        self.seen = self.shared.version();
        value
    }

    /// Reports whether the current value is unseen. Fails if the channel is closed.
    pub fn has_changed(&self) -> Result<bool, Closed> {
        if self.shared.is_closed() {
            return Err(Closed);
        }
        Ok(self.shared.version() != self.seen)
    }

    /// Marks the current value as unseen: the next [`Receiver::changed`] returns at once.
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.wrapping_sub(1);
    }

    /// Marks the current value as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version();
    }

    /// Waits for an unseen value and marks it as seen. Fails if the value is seen and the channel is closed. Cancel safe.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let Self { shared, seen } = self;
        cooperative(shared.wait(seen)).await
    }

    /// Waits until `holds` is true for the value, at once if it is already, and marks the value as seen. Fails if the channel is
    /// closed and `holds` is false for the last value. Cancel safe.
    pub async fn wait_for(&mut self, mut holds: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        let Self { shared, seen } = self;
        cooperative(async move {
            loop {
                {
                    let value = shared.read();
                    *seen = shared.version();
                    if holds(&value) {
                        return Ok(value);
                    }
                }
                shared.wait(seen).await?;
            }
        })
        .await
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Shared<T> {
    /// No write happens while the value is borrowed: it has the version that is read meanwhile.
    fn read(&self) -> Ref<'_, T> {
        // A closure that panicked has changed the value only in part, or not at all. Its caller handles that.
        Ref(self.value.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn is_closed(&self) -> bool {
        self.senders.load(Ordering::Acquire) == 0
    }

    /// Waits until the version differs from `seen`, and stores it there.
    async fn wait(&self, seen: &mut u64) -> Result<(), Closed> {
        loop {
            // Before the version is read, or a change in between would be missed.
            let notified = self.changed.notified();
            // Before the version is read: the last sender may send and be dropped in between.
            let is_closed = self.is_closed();
            let version = self.version();
            if version != *seen {
                *seen = version;
                return Ok(());
            }
            if is_closed {
                return Err(Closed);
            }
            notified.await;
        }
    }
}
