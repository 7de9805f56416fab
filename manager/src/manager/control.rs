//! The thread of the election, the endpoints and the webhooks, with a runtime of its own: a reconcile that blocks its thread
//! delays neither a renewal nor a review, and does not silence the health checks.

use std::io;
use std::thread;

use tokio::runtime::{self, Handle};
use tokio_util::sync::CancellationToken;

use crate::env::{Env, TaskSet};

/// The thread. It ends when this is dropped, and its tasks with it.
pub(super) struct ControlThread {
    handle: Handle,
    tasks: TaskSet,
    stop: CancellationToken,
}

impl ControlThread {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (handle, stop) = (runtime.handle().clone(), CancellationToken::new());
        let stopped = stop.clone();
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || runtime.block_on(stopped.cancelled()))?;
        Ok(Self {
            tasks: TaskSet::on(&handle),
            handle,
            stop,
        })
    }

    /// Returns the environment of tasks on this thread.
    pub(super) fn env(&self, env: &Env) -> Env {
        Env {
            tasks: self.tasks.handle(),
            ..env.clone()
        }
    }

    /// Calls `build` in the context of the runtime: connections that it opens are driven by this thread.
    pub(super) fn enter<T>(&self, build: impl FnOnce() -> T) -> T {
        let _context = self.handle.enter();
        build()
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::mpsc;

    #[tokio::test]
    async fn tasks_run_while_the_other_runtime_is_blocked() {
        let tasks = TaskSet::new();
        let control = ControlThread::start().expect("a thread");
        let env = control.env(&Env::system(&tasks));
        let (done, ended) = mpsc::channel();
        let clock = env.clock.clone();
        env.tasks.spawn(async move {
            // Timers are driven by the runtime of the thread.
            clock.sleep(std::time::Duration::from_millis(1)).await;
            done.send(()).expect("a receiver");
        });
        // Blocks the only thread of the runtime of this test.
        ended.recv().expect("a task that has run");
    }
}
