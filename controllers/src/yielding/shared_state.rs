//! The state that the observer publishes to the yielding controllers.
//!
//! Waiters are woken in the order in which they wait. Unlike those of a `watch` channel, all waits fail after the writer has
//! ended, even if the last state would end them: controllers must not run on a state that is no longer observed.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::State;

/// The readers' half.
#[derive(Clone, Debug)]
pub(super) struct SharedState(Arc<Inner>);

/// The observer's half. Dropping it wakes all waiters with an error.
#[derive(Debug)]
pub(super) struct Writer(Arc<Inner>);

/// The observer has ended, which is a bug.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObserverEnded;

#[derive(Debug)]
struct Inner {
    state: Mutex<Result<State, ObserverEnded>>,
    changed: Notify,
}

impl SharedState {
    pub(super) fn new() -> (Writer, Self) {
        let inner = Arc::new(Inner {
            state: Mutex::new(Ok(State::Unread)),
            changed: Notify::new(),
        });
        (Writer(Arc::clone(&inner)), Self(inner))
    }

    pub(super) fn get(&self) -> Result<State, ObserverEnded> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves when `holds` is true, at once if it is already.
    pub(super) async fn wait_for(&self, holds: impl Fn(&State) -> bool) -> Result<State, ObserverEnded> {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            // Before reading the state, or a change in between would be missed.
            changed.as_mut().enable();
            let state = self.get()?;
            if holds(&state) {
                return Ok(state);
            }
            changed.await;
        }
    }
}

impl Writer {
    /// Wakes the waiters if the state has changed.
    pub(super) fn set(&self, state: State) {
        self.0.replace(Ok(state));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.replace(Err(ObserverEnded));
    }
}

impl Inner {
    fn replace(&self, new: Result<State, ObserverEnded>) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!((&*state, &new), (Ok(old), Ok(new)) if old == new) {
                return;
            }
            *state = new;
        }
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use steersman_manager::env::TaskSet;
    use tokio::sync::mpsc;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn waiters_are_woken_in_order_and_when_the_observer_ends() {
        let (writer, shared) = SharedState::new();
        let (tasks, (send, mut woken)) = (TaskSet::new(), mpsc::unbounded_channel());
        for i in 0..20 {
            let (shared, send) = (shared.clone(), send.clone());
            drop(tasks.handle().spawn(async move {
                let free = shared.wait_for(State::is_free).await;
                let _ = send.send((i, free.is_ok()));
                let ended = shared.wait_for(|state| !state.is_free()).await;
                let _ = send.send((i, ended.is_ok()));
            }));
        }
        yield_now().await;
        writer.set(State::Expired);
        for i in 0..20 {
            assert_eq!(woken.recv().await, Some((i, true)));
        }
        drop(writer);
        for i in 0..20 {
            assert_eq!(woken.recv().await, Some((i, false)));
        }
        assert!(shared.get().is_err());
    }
}
