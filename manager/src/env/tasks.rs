//! A manager's tasks: everything that it runs in the background is spawned here, and ends with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::task::{AbortHandle, JoinHandle};

/// Owns tasks: dropping it aborts them all, and those that they spawned.
///
/// An aborted task stops at its next await; nothing waits for that here. Whoever needs an orderly end asks for it first.
#[derive(Debug, Default)]
pub struct TaskSet(Arc<Registry>);

/// Spawns on a [`TaskSet`] without keeping it alive: tasks hold this handle, and would keep themselves alive otherwise.
#[derive(Clone, Debug)]
pub struct Tasks(Weak<Registry>);

#[derive(Debug, Default)]
struct Registry {
    live: Mutex<Live>,
}

#[derive(Debug, Default)]
struct Live {
    next: u64,
    /// The tasks that have not ended; none for one that is just being spawned.
    tasks: BTreeMap<u64, Option<AbortHandle>>,
    /// The set was dropped: nothing is spawned any more, and `tasks` stays empty.
    closed: bool,
}

/// Strikes a task off the list when it ends, in whichever way.
struct Listed {
    id: u64,
    registry: Weak<Registry>,
}

impl TaskSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The handle that is passed down.
    #[must_use]
    pub fn handle(&self) -> Tasks {
        Tasks(Arc::downgrade(&self.0))
    }

    /// How many tasks have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.live(|live| live.tasks.len())
    }

    /// Whether all tasks have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for TaskSet {
    fn drop(&mut self) {
        let tasks = self.0.live(|live| {
            live.closed = true;
            std::mem::take(&mut live.tasks)
        });
        tasks.into_values().flatten().for_each(|task| task.abort());
    }
}

impl Tasks {
    /// Runs `future` in the background until it ends or the set is dropped; on a set that is gone it never runs, and the
    /// handle says that it was cancelled. Dropping the handle detaches the task, it does not end it.
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
    fn live<T>(&self, with: impl FnOnce(&mut Live) -> T) -> T {
        with(&mut self.live.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn spawn<F>(self: Arc<Self>, future: F) -> Option<JoinHandle<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let id = self.live(|live| {
            if live.closed {
                return None;
            }
            let id = live.next;
            live.next += 1;
            live.tasks.insert(id, None);
            Some(id)
        })?;
        let listed = Listed {
            id,
            registry: Arc::downgrade(&self),
        };
        // Not under the lock: a runtime that is shutting down drops the future, and with it `listed`, right here.
        let task = run(async move {
            let _listed = listed;
            future.await
        });
        let handle = task.abort_handle();
        // Gone from the list again: it has ended, or the set was dropped before there was a handle to abort it by.
        let gone = self.live(|live| match live.tasks.get_mut(&id) {
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

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.live(|live| live.tasks.remove(&self.id));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the task set that all others spawn on")]
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
    async fn dropping_the_set_aborts_tasks_and_what_they_spawned() {
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
    async fn nothing_runs_on_a_set_that_is_gone() {
        let tasks = TaskSet::new().handle();
        let ran = tasks.spawn(async { true }).await;
        assert!(ran.is_err_and(|e| e.is_cancelled()));
    }

    #[test]
    fn a_runtime_that_shuts_down_does_not_hang_a_spawn() {
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

    /// Spawns while the runtime drops its tasks.
    struct SpawnsOnDrop(Tasks);

    impl Drop for SpawnsOnDrop {
        fn drop(&mut self) {
            self.0.spawn(async {});
        }
    }

    #[tokio::test]
    async fn ended_tasks_are_not_kept_and_their_result_is_had() {
        let set = TaskSet::new();
        assert_eq!(set.handle().spawn(async { 7 }).await.ok(), Some(7));
        let panicked = set.handle().spawn(async { panic!("for the test") }).await;
        assert!(panicked.is_err_and(|e| e.is_panic()));
        assert!(set.is_empty());
    }
}
