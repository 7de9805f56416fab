//! The contract of the work queue under a paused clock, and a comparison with a model.

mod delay;
mod fairness;
mod metrics;
mod model;
mod order;
mod rate_limiter;
mod shutdown;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use jiff::Timestamp;

use steersman_manager::env::{Env, TaskSet};
use steersman_manager::queue::{Item, Queue, default_limiter};

/// A queue with its environment.
struct Fixture<K: Item = u32> {
    env: Env,
    queue: Queue<K>,
    _tasks: TaskSet,
}

fn fixture() -> Fixture {
    fixture_of()
}

fn fixture_of<K: Item>() -> Fixture<K> {
    let (env, tasks) = env();
    let queue = Queue::unnamed(&env, default_limiter());
    Fixture {
        env,
        queue,
        _tasks: tasks,
    }
}

fn env() -> (Env, TaskSet) {
    let tasks = TaskSet::new();
    (Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks), tasks)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl<K: Item> Fixture<K> {
    /// Polls for an item: an item, the end (`Some(None)`), or nothing yet.
    #[expect(
        clippy::option_option,
        reason = "the end of the queue differs from nothing yet"
    )]
    fn try_get(&self) -> Option<Option<K>> {
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::pin!(self.queue.get()).poll(&mut context) {
            Poll::Ready(item) => Some(item),
            Poll::Pending => None,
        }
    }

    /// Gets all queued items, without marking them done.
    fn take_all(&self) -> Vec<K> {
        std::iter::from_fn(|| self.try_get().flatten()).collect()
    }

    async fn sleep(&self, millis: u64) {
        self.env.clock.sleep(ms(millis)).await;
        settle().await;
    }
}

/// Runs all tasks until they are idle.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// A future that is polled manually, and only after a wake-up: a lost wake-up stays lost.
struct Polled<F: ?Sized> {
    woken: Arc<Woken>,
    future: std::pin::Pin<Box<F>>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<T: Debug> Polled<dyn Future<Output = T>> {
    fn new(future: impl Future<Output = T> + 'static) -> Self {
        Self {
            woken: Arc::new(Woken(AtomicBool::new(true))),
            future: Box::pin(future),
        }
    }

    fn poll(&mut self) -> Option<T> {
        if !self.woken.0.swap(false, Ordering::SeqCst) {
            return None;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}

/// A worker that waits for an item.
fn getter<K: Item>(queue: &Queue<K>) -> Polled<dyn Future<Output = Option<K>>> {
    let queue = queue.clone();
    Polled::new(async move { queue.get().await })
}
