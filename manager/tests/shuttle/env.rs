//! The parts of `crate::env` that the queue uses, for shuttle: a clock that advances while tasks sleep, and shuttle's tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shuttle::future::{JoinHandle, spawn, yield_now};
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Env {
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) tasks: Tasks,
}

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: Instant,
    millis: Arc<AtomicU64>,
}

#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<std::sync::Mutex<Vec<JoinHandle<()>>>>);

#[derive(Clone)]
pub(crate) struct Rng;

impl Rng {
    #[expect(clippy::unused_self, reason = "signature of the real generator")]
    pub(crate) fn number(&self) -> u64 {
        0
    }
}

impl Env {
    #[expect(clippy::disallowed_methods, reason = "only the start of the simulated clock")]
    pub(crate) fn new() -> Self {
        Self {
            clock: Clock {
                start: Instant::now(),
                millis: Arc::default(),
            },
            rng: Rng,
            tasks: Tasks::default(),
        }
    }
}

impl Clock {
    pub(crate) fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.millis.load(Ordering::SeqCst))
    }

    /// Every poll advances the clock; the schedule decides what happens in between.
    pub(crate) async fn sleep_until(&self, deadline: Instant) {
        while self.now() < deadline {
            self.millis.fetch_add(5, Ordering::SeqCst);
            yield_now().await;
        }
    }
}

impl Tasks {
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().expect("not poisoned").push(spawn(future));
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn join(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().expect("not poisoned"));
        for task in tasks {
            task.await.expect("a task");
        }
    }
}

pub(crate) fn later(now: Instant, delay: Duration) -> Instant {
    now + delay
}
