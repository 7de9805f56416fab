//! The runtimes of the election and the endpoints, and of the webhooks: reconciles that block all threads of the other runtime
//! delay neither a renewal nor a review, and the health endpoints keep answering.
//!
//! The webhooks have threads of their own. Any client that reaches their port can send large reviews, which delay other reviews
//! only.

use std::io;

use tokio::runtime::{self, Handle, Runtime};

use crate::env::{Env, TaskSet};

/// Of each runtime. Two, so that one task that blocks its thread, such as a scrape or a review, does not delay the others.
const THREADS: usize = 2;

/// Two runtimes with threads of their own. Their tasks end when it is dropped.
#[derive(Debug)]
pub struct ControlRuntime {
    control: Threads,
    webhooks: Threads,
}

#[derive(Debug)]
struct Threads {
    tasks: TaskSet,
    handle: Handle,
    /// None only during drop.
    runtime: Option<Runtime>,
}

impl ControlRuntime {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        Ok(Self {
            control: Threads::start("control")?,
            webhooks: Threads::start("webhook")?,
        })
    }

    /// Returns the handles of the runtimes.
    #[must_use]
    pub fn handles(&self) -> [&Handle; 2] {
        [&self.control.handle, &self.webhooks.handle]
    }

    /// Returns the environment of the election and the endpoints.
    #[must_use]
    pub fn env(&self, env: &Env) -> Env {
        self.control.env(env)
    }

    /// Returns the environment of the webhooks.
    #[must_use]
    pub fn webhook_env(&self, env: &Env) -> Env {
        self.webhooks.env(env)
    }
}

impl Threads {
    fn start(name: &str) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self {
            tasks: TaskSet::on(runtime.handle()),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    fn env(&self, env: &Env) -> Env {
        Env {
            tasks: self.tasks.handle(),
            ..env.clone()
        }
    }
}

impl Drop for Threads {
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
