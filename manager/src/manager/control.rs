//! The runtime of the election, the endpoints and the webhooks: reconciles that block all threads of the other runtime delay
//! neither a renewal nor a review, and the health endpoints keep answering.

use std::io;

use tokio::runtime::{self, Handle, Runtime};

use crate::env::{Env, TaskSet};

/// Two, so that a webhook that blocks its thread does not delay a renewal.
const THREADS: usize = 2;

/// A runtime with threads of its own. Its tasks end when it is dropped.
#[derive(Debug)]
pub struct ControlRuntime {
    tasks: TaskSet,
    handle: Handle,
    /// None only during drop.
    runtime: Option<Runtime>,
}

impl ControlRuntime {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("control")
            .enable_all()
            .build()?;
        Ok(Self {
            tasks: TaskSet::on(runtime.handle()),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    /// Returns the handle of the runtime.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the environment of tasks on this runtime.
    #[must_use]
    pub fn env(&self, env: &Env) -> Env {
        Env {
            tasks: self.tasks.handle(),
            ..env.clone()
        }
    }
}

impl Drop for ControlRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for the threads would block the runtime of the caller.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::mpsc;

    #[tokio::test]
    async fn tasks_run_while_the_other_runtime_is_blocked() {
        let tasks = TaskSet::new();
        let control = ControlRuntime::start().expect("threads");
        let env = control.env(&Env::system(&tasks));
        let (done, ended) = mpsc::channel();
        let clock = env.clock.clone();
        env.tasks.spawn(async move {
            // Timers are driven by the threads of the runtime.
            clock.sleep(std::time::Duration::from_millis(1)).await;
            done.send(()).expect("a receiver");
        });
        // Blocks the only thread of the runtime of this test.
        ended.recv().expect("a task that has run");
    }
}
