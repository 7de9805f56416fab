//! The background tasks of a manager.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::future::{BoxFuture, FutureExt as _};

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

/// A set of tasks. Dropping it aborts all of them, including those they have spawned.
///
/// An aborted task stops at its next await, which is not waited for. For an orderly shutdown signal the tasks first.
#[derive(Debug, Default)]
pub struct TaskSet(Arc<Registry>);

/// Spawns tasks on a [`TaskSet`] without keeping it alive. Tasks hold this handle and must not keep themselves alive.
#[derive(Clone, Debug)]
pub struct Tasks(Weak<Registry>);

#[derive(Debug, Default)]
struct Registry {
    table: Mutex<TaskTable>,
    /// None for the runtime of the caller.
    runtime: Option<Handle>,
    /// None for the order of the runtime.
    order: Option<Arc<dyn TaskOrder>>,
}

/// Chooses which of the woken tasks runs next. For simulations: it permutes the order of tasks, and so the hand-out of items by
/// the queues.
pub trait TaskOrder: fmt::Debug + Send + Sync {
    /// A task can run. It does not before [`Turn::start`].
    fn enqueue(&self, turn: Turn);
}

/// The permission of one task to run.
#[derive(Debug)]
pub struct Turn {
    granted: Arc<AtomicBool>,
    waker: Waker,
}

impl Turn {
    /// Lets the task run.
    pub fn start(self) {
        self.granted.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

/// A task that runs in its turn.
struct Ordered<T> {
    task: BoxFuture<'static, T>,
    order: Arc<dyn TaskOrder>,
    granted: Arc<AtomicBool>,
    is_enqueued: bool,
}

impl<T> Future for Ordered<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if self.granted.swap(false, Ordering::Relaxed) {
            self.is_enqueued = false;
            return self.task.as_mut().poll(context);
        }
        if !self.is_enqueued {
            self.is_enqueued = true;
            self.order.enqueue(Turn {
                granted: self.granted.clone(),
                waker: context.waker().clone(),
            });
        }
        Poll::Pending
    }
}

#[derive(Debug, Default)]
struct TaskTable {
    next: u64,
    /// The running tasks; none for one that is being spawned.
    tasks: BTreeMap<u64, Option<AbortHandle>>,
    /// The set was dropped: nothing is spawned any more.
    closed: bool,
}

/// Removes a task from the table when it ends.
struct Registered {
    id: u64,
    registry: Weak<Registry>,
}

impl TaskSet {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty set whose tasks run on another runtime than that of the caller.
    #[must_use]
    pub fn on(runtime: &Handle) -> Self {
        Self(Arc::new(Registry {
            runtime: Some(runtime.clone()),
            ..Registry::default()
        }))
    }

    /// Returns an empty set whose tasks run in an order of their own.
    #[must_use]
    pub fn ordered(order: Arc<dyn TaskOrder>) -> Self {
        Self(Arc::new(Registry {
            order: Some(order),
            ..Registry::default()
        }))
    }

    /// Returns a handle for spawning.
    #[must_use]
    pub fn handle(&self) -> Tasks {
        Tasks(Arc::downgrade(&self.0))
    }

    /// Returns the number of running tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.table(|table| table.tasks.len())
    }

    /// Reports whether all tasks have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for TaskSet {
    fn drop(&mut self) {
        let tasks = self.0.table(|table| {
            table.closed = true;
            std::mem::take(&mut table.tasks)
        });
        tasks.into_values().flatten().for_each(|task| task.abort());
    }
}

impl Tasks {
    /// Returns an empty set that ends by itself, with the order of tasks of this one, on the runtime of the caller.
    pub(crate) fn another_set(&self) -> TaskSet {
        let order = self.0.upgrade().and_then(|registry| registry.order.clone());
        TaskSet(Arc::new(Registry {
            order,
            ..Registry::default()
        }))
    }

    /// Runs `future` in the background until it ends or the set is dropped. After that it never runs, and the join handle
    /// returns a cancellation. Dropping the join handle detaches the task.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let registered = self.0.upgrade().and_then(|registry| registry.spawn(future));
        registered.unwrap_or_else(|| {
            let never = run(std::future::pending());
            never.abort();
            never
        })
    }
}

impl Registry {
    fn table<T>(&self, with: impl FnOnce(&mut TaskTable) -> T) -> T {
        with(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn spawn<F>(self: Arc<Self>, future: F) -> Option<JoinHandle<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let id = self.table(|table| {
            if table.closed {
                return None;
            }
            let id = table.next;
            table.next += 1;
            table.tasks.insert(id, None);
            Some(id)
        })?;
        let registered_task = Registered {
            id,
            registry: Arc::downgrade(&self),
        };
        // Without the lock: a runtime that is shutting down drops the future, and with it the registration, right here.
        let task = async move {
            let _listed = registered_task;
            future.await
        };
        let task = match (&self.runtime, &self.order) {
            (Some(runtime), _) => runtime.spawn(task),
            (None, None) => run(task),
            (None, Some(order)) => run(Ordered {
                task: task.boxed(),
                order: order.clone(),
                granted: Arc::default(),
                is_enqueued: false,
            }),
        };
        let handle = task.abort_handle();
        // Not in the table: the task has ended, or the set was dropped before the abort handle existed.
        let gone = self.table(|table| match table.tasks.get_mut(&id) {
            Some(slot) => {
                *slot = Some(handle);
                false
            }
            None => true,
        });
        if gone {
            task.abort();
        }
        Some(task)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.table(|table| table.tasks.remove(&self.id));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the only place that spawns tasks")]
fn run<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::task::spawn(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::sync::oneshot;

    #[tokio::test]
    async fn dropped_set_aborts_tasks_and_those_they_spawned() {
        let set = TaskSet::new();
        let tasks = set.handle();
        let (kept, ended) = oneshot::channel::<()>();
        let inner = tasks.clone();
        let outer = tasks.spawn(async move {
            inner.spawn(async move {
                let _kept = kept;
                std::future::pending::<()>().await;
            });
            std::future::pending::<()>().await;
        });
        while set.len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(set);
        assert!(outer.await.is_err_and(|e| e.is_cancelled()));
        assert!(ended.await.is_err(), "the inner task was dropped");
    }

    #[tokio::test]
    async fn dropped_set_runs_no_new_task() {
        let tasks = TaskSet::new().handle();
        let ran = tasks.spawn(async { true }).await;
        assert!(ran.is_err_and(|e| e.is_cancelled()));
    }

    #[test]
    fn runtime_shutdown_does_not_deadlock_a_spawn() {
        let set = TaskSet::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let tasks = set.handle();
        let spawns_on_drop = SpawnsOnDrop(tasks.clone());
        runtime.block_on(async {
            tasks.spawn(async move {
                let _spawns_on_drop = spawns_on_drop;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert!(set.is_empty());
    }

    struct SpawnsOnDrop(Tasks);

    impl Drop for SpawnsOnDrop {
        fn drop(&mut self) {
            self.0.spawn(async {});
        }
    }

    /// Starts the newest turn first.
    #[derive(Debug, Default)]
    struct Newest(Mutex<Vec<Turn>>);

    impl TaskOrder for Newest {
        fn enqueue(&self, turn: Turn) {
            self.0.lock().expect("no panic").push(turn);
        }
    }

    #[tokio::test]
    async fn tasks_run_in_the_order_of_their_turns() {
        let (order, ran) = (Arc::<Newest>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let set = TaskSet::ordered(order.clone());
        let inner = set.handle().another_set();
        for number in 0..4 {
            let ran = ran.clone();
            let tasks = if number < 2 { set.handle() } else { inner.handle() };
            tasks.spawn(async move {
                ran.lock().expect("no panic").push(number);
                tokio::task::yield_now().await;
                ran.lock().expect("no panic").push(number + 10);
            });
        }
        tokio::task::yield_now().await;
        while let Some(turn) = { order.0.lock().expect("no panic").pop() } {
            turn.start();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        assert_eq!(*ran.lock().expect("no panic"), [3, 13, 2, 12, 1, 11, 0, 10]);
        assert!(set.is_empty() && inner.is_empty());
    }

    #[tokio::test]
    async fn ended_tasks_are_removed_and_return_their_result() {
        let set = TaskSet::new();
        assert_eq!(set.handle().spawn(async { 7 }).await.ok(), Some(7));
        let panicked = set.handle().spawn(async { panic!("for the test") }).await;
        assert!(panicked.is_err_and(|e| e.is_panic()));
        assert!(set.is_empty());
    }
}
