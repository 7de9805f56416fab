//! The contract, line by line, under the paused clock; then against a model.

mod delay;
mod fairness;
mod limit;
mod metrics;
mod model;
mod order;
mod shutdown;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use jiff::Timestamp;

use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::queue::{Item, Queue, default_limiter};

/// A queue with its environment.
struct Bed<K: Item = u32> {
    env: Env,
    queue: Queue<K>,
    _tasks: TaskSet,
}

fn bed() -> Bed {
    bed_of()
}

fn bed_of<K: Item>() -> Bed<K> {
    let (env, tasks) = env();
    let queue = Queue::unnamed(&env, default_limiter());
    Bed {
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

impl<K: Item> Bed<K> {
    /// What a worker gets at once: an item, the end (`Some(None)`), or nothing yet.
    #[expect(
        clippy::option_option,
        reason = "the end of the queue is not the same as nothing yet"
    )]
    fn try_get(&self) -> Option<Option<K>> {
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::pin!(self.queue.get()).poll(&mut context) {
            Poll::Ready(item) => Some(item),
            Poll::Pending => None,
        }
    }

    /// All that can be got at once, in order. Nothing of it is done.
    fn take_all(&self) -> Vec<K> {
        std::iter::from_fn(|| self.try_get().flatten()).collect()
    }

    async fn sleep(&self, millis: u64) {
        self.env.clock.sleep(ms(millis)).await;
        settle().await;
    }
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// A future that is polled by hand, and only when it was woken: a wake-up that is lost stays lost.
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
