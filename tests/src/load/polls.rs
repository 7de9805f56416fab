//! The polls of the product's tasks, one at a time, and the work of each.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_manager::env::{TaskOrder, Turn};
use tokio::sync::Notify;

use super::memory::{Work, outside, product, work};

/// Runs the tasks in the order in which they are woken, and measures each poll. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Polls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct State {
    turns: VecDeque<Turn>,
    most: Work,
    /// See [`Polls::ceiling`].
    ceiling: i64,
}

impl TaskOrder for Polls {
    fn enqueue(&self, turn: Turn) {
        outside(|| self.state().turns.push_back(turn));
        self.0.woken.notify_one();
    }
}

impl Polls {
    /// Runs the tasks, forever.
    pub(super) async fn run(self) {
        loop {
            let Some(turn) = outside(|| self.state().turns.pop_front()) else {
                self.0.woken.notified().await;
                continue;
            };
            let (held, before) = (product(), work());
            turn.start();
            // The task runs before this one runs again.
            tokio::task::yield_now().await;
            let poll = work().since(before);
            let mut state = self.state();
            state.most.cpu = state.most.cpu.max(poll.cpu);
            state.most.allocated = state.most.allocated.max(poll.allocated);
            state.ceiling = state.ceiling.max(held.saturating_add_unsigned(poll.allocated));
        }
    }

    /// Returns the most work of one poll since the last call.
    pub(super) fn take_most(&self) -> Work {
        std::mem::take(&mut self.state().most)
    }

    /// Returns a bound on the heap bytes of the product so far, also during a poll, in which nothing is sampled: as if each poll
    /// freed nothing before its end.
    pub(super) fn ceiling(&self) -> i64 {
        self.state().ceiling
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
