//! The thread of the election and the endpoints, with a runtime of its own: a reconcile that blocks its thread neither
//! delays a renewal nor silences the health checks.

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
