//! What the observer knows, for those who yield to read and to wait for.
//!
//! They are woken in the order in which they wait; a `watch` would choose one by chance.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::State;

/// The board, as it is read.
#[derive(Clone, Debug)]
pub(super) struct Board(Arc<Inner>);

/// The board, as it is written. When it is dropped, all who wait are told.
#[derive(Debug)]
pub(super) struct Writer(Arc<Inner>);

/// Nobody writes any more: a mistake in the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abandoned;

#[derive(Debug)]
struct Inner {
    state: Mutex<Result<State, Abandoned>>,
    changed: Notify,
}

impl Board {
    pub(super) fn new() -> (Writer, Self) {
        let inner = Arc::new(Inner {
            state: Mutex::new(Ok(State::Unread)),
            changed: Notify::new(),
        });
        (Writer(Arc::clone(&inner)), Self(inner))
    }

    pub(super) fn state(&self) -> Result<State, Abandoned> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves when this holds: at once if it does already.
    pub(super) async fn until(&self, holds: impl Fn(&State) -> bool) -> Result<State, Abandoned> {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            // Before looking, or a change in between would be missed.
            changed.as_mut().enable();
            let state = self.state()?;
            if holds(&state) {
                return Ok(state);
            }
            changed.await;
        }
    }
}

impl Writer {
    /// Tells what has changed: a renewal is no news.
    pub(super) fn write(&self, state: State) {
        self.0.replace(Ok(state));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.replace(Err(Abandoned));
    }
}

impl Inner {
    fn replace(&self, new: Result<State, Abandoned>) {
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

    use coxswain_manager::env::TaskSet;
    use tokio::sync::mpsc;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_order_and_told_of_the_end() {
        let (writer, board) = Board::new();
        let (tasks, (send, mut woken)) = (TaskSet::new(), mpsc::unbounded_channel());
        for i in 0..20 {
            let (board, send) = (board.clone(), send.clone());
            drop(tasks.handle().spawn(async move {
                let free = board.until(State::is_free).await;
                let _ = send.send((i, free.is_ok()));
                let ended = board.until(|state| !state.is_free()).await;
                let _ = send.send((i, ended.is_ok()));
            }));
        }
        yield_now().await;
        writer.write(State::Expired);
        for i in 0..20 {
            assert_eq!(woken.recv().await, Some((i, true)));
        }
        drop(writer);
        for i in 0..20 {
            assert_eq!(woken.recv().await, Some((i, false)));
        }
        assert!(board.state().is_err());
    }
}
