//! The lifecycle that all controllers share: terms, worker pools and health.
//!
//! A controller runs in terms. A term waits until the caches are ready, starts with new queues, and ends when the controller
//! is stopped or the process is no longer the leader. Then items that are in process are finished, and no other item starts.
//! [`Controller`](super::Controller) runs one queue of object keys; a controller with several queues, of any item types, uses
//! [`Runtime`] itself and starts a [pool](Workers::pool) for each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::outcomes::{Activity, Outcomes, RecentError, Waiting};
use super::progress::{Busy, Progress};
use super::{Fatal, Unhealthy};
use crate::client::{Fence, Term};
use crate::env::Env;
use crate::object::Key;
use crate::queue::{Item, Queue};

/// The work queues of a controller. Clones are handles of the same queues.
pub trait Queues: Clone + Send + Sync {
    /// Returns new, empty queues with the same metrics, and shuts these down.
    #[must_use]
    fn replace(&self, env: &Env) -> Self;

    /// The number of items that wait for a worker.
    fn depth(&self) -> usize;

    /// The item that has waited for a worker for the longest time; none if no item waits.
    fn oldest(&self) -> Option<Waiting>;
}

/// The state that the workers of a term share.
pub trait TermState: Send + Sync {
    /// Called when the term has ended, even if its future was dropped.
    fn ended(&self) {}
}

impl TermState for () {}

/// The limits by which a controller's health is decided.
#[derive(Clone, Copy, Debug)]
pub struct HealthLimits {
    /// The number of workers of all queues. Waiting items are only unhealthy while fewer items are in process.
    pub workers: usize,
    /// The time that an item may take, or a part of it if it reports [progress](Slot::touch).
    pub timeout: Duration,
    /// The time after the timeout before the item is reported.
    pub grace: Duration,
    /// The time that an item may wait in a queue while all workers are busy.
    pub wait: Duration,
}

/// The lifecycle of one controller with the queues `Q` and the term state `S`.
pub struct Runtime<Q, S> {
    name: Arc<str>,
    env: Env,
    limits: HealthLimits,
    outcomes: Arc<Outcomes>,
    /// The queues of the current term, or of the next one.
    queues: Mutex<Q>,
    /// None between terms.
    current: Mutex<Option<Running<S>>>,
}

struct Running<S> {
    state: Arc<S>,
    progress: Arc<Progress>,
    stop: CancellationToken,
}

/// The tasks of one term.
pub struct Workers {
    progress: Arc<Progress>,
    stop: CancellationToken,
    tasks: JoinSet<Result<(), Fatal>>,
}

/// An item's place in a worker pool, and its entry among the items in process, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    busy: Arc<Busy>,
}

/// Ends the current term when it is dropped.
struct EndTerm<'a, S: TermState>(&'a Mutex<Option<Running<S>>>);

impl<Q: Queues, S: TermState> Runtime<Q, S> {
    #[expect(missing_docs, reason = "plain constructor")]
    pub fn new(name: &str, env: &Env, limits: HealthLimits, queues: Q) -> Self {
        Self {
            name: name.into(),
            env: env.clone(),
            limits,
            outcomes: Arc::new(Outcomes::new(&env.clock)),
            queues: Mutex::new(queues),
            current: Mutex::new(None),
        }
    }

    /// Runs one term: awaits `ready`, calls `start` with new queues, and returns when the term is over and all tasks have
    /// ended. A task that panics or fails ends the term with an error: it has lost its item.
    pub async fn run(
        &self,
        fence: &Fence,
        term: Term,
        stop: CancellationToken,
        ready: impl Future<Output = Result<(), Fatal>> + Send,
        start: impl FnOnce(Q, &mut Workers) -> Arc<S> + Send,
    ) -> Result<(), Fatal> {
        let mut over = std::pin::pin!(async {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = fence.closed(term) => {}
            }
        });
        tokio::select! {
            biased;
            () = &mut over => return Ok(()),
            ready = ready => ready?,
        }
        // A child, so that workers see a stop at once.
        let stop = stop.child_token();
        let mut workers = Workers {
            progress: Arc::new(Progress::new(
                &self.env.clock,
                self.limits,
                Arc::clone(&self.outcomes),
            )),
            stop: stop.clone(),
            tasks: JoinSet::new(),
        };
        let state = start(self.replace_queues(), &mut workers);
        *lock(&self.current) = Some(Running {
            state,
            progress: Arc::clone(&workers.progress),
            stop: stop.clone(),
        });
        let _end = EndTerm(&self.current);
        let mut tasks = workers.tasks;
        loop {
            tokio::select! {
                biased;
                () = &mut over => break,
                Some(ended) = tasks.join_next() => self.check(ended)?,
            }
        }
        stop.cancel();
        while let Some(ended) = tasks.join_next().await {
            self.check(ended)?;
        }
        // Not only in the next term: the queues of a standby are empty, and so are their metrics.
        drop(self.replace_queues());
        tracing::info!(controller = %self.name, "Controller stopped");
        Ok(())
    }

    fn replace_queues(&self) -> Q {
        let mut queues = lock(&self.queues);
        *queues = queues.replace(&self.env);
        queues.clone()
    }

    fn check(&self, ended: Result<Result<(), Fatal>, JoinError>) -> Result<(), Fatal> {
        match ended {
            Ok(ended) => ended,
            Err(error) => Fatal::of_task(&self.name, "a worker", error).map_or(Ok(()), Err),
        }
    }

    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The state of the current term; none between terms.
    pub fn state(&self) -> Option<Arc<S>> {
        lock(&self.current).as_ref().map(|it| Arc::clone(&it.state))
    }

    /// The items that are in process.
    pub fn running(&self) -> Vec<Key> {
        lock(&self.current)
            .as_ref()
            .map_or_else(Vec::new, |it| it.progress.running())
    }

    /// Returns an error if an item takes longer than its timeout, waits although workers are free, or waits for too long.
    pub fn health(&self) -> Result<(), Unhealthy> {
        let oldest = lock(&self.queues).oldest();
        lock(&self.current).as_ref().map_or(Ok(()), |it| {
            // A term that ends starts no items.
            let oldest = oldest.filter(|_| !it.stop.is_cancelled());
            it.progress.health(oldest)
        })
    }

    /// The load of the queues and the number of processed items.
    pub fn activity(&self) -> Activity {
        let (queued, oldest) = {
            let queues = lock(&self.queues);
            (queues.depth(), queues.oldest())
        };
        let processing = lock(&self.current).as_ref().map_or(0, |it| it.progress.len());
        let (processed, failed) = self.outcomes.totals();
        Activity {
            queued,
            oldest,
            processing,
            processed,
            failed,
            max_per_item: self.outcomes.max_per_item(),
        }
    }

    /// The last errors, the latest one last.
    pub fn recent_errors(&self) -> Vec<RecentError> {
        self.outcomes.errors()
    }
}

impl Workers {
    /// Cancelled when the term is over: work that has not begun must not begin.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// The outcomes of all items, to which workers report errors.
    #[must_use]
    pub fn outcomes(&self) -> &Arc<Outcomes> {
        self.progress.outcomes()
    }

    /// Starts a task that ends by itself once [`Workers::stop`] is cancelled.
    pub fn spawn(&mut self, task: impl Future<Output = Result<(), Fatal>> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Processes the items of a queue, each in a task of its own and at most `workers` at the same time. `process` requeues
    /// the item if necessary. `name` names the item in logs and on health pages.
    pub fn pool<K, F>(
        &mut self,
        queue: Queue<K>,
        workers: usize,
        name: impl Fn(&K) -> Key + Send + 'static,
        process: impl Fn(K, Slot) -> F + Send + 'static,
    ) where
        K: Item + Sync,
        F: Future<Output = ()> + Send + 'static,
    {
        let (progress, stop) = (Arc::clone(&self.progress), self.stop.clone());
        let pool = async move {
            let permits = Arc::new(Semaphore::new(workers));
            let mut tasks = JoinSet::new();
            loop {
                // Cancel safe: an item that is handed out is returned at once.
                let next = async {
                    let permit = Arc::clone(&permits).acquire_owned().await.ok();
                    (permit, queue.get().await)
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    Some(ended) = tasks.join_next() => resume_panic(ended),
                    (permit, item) = next => {
                        let Some(item) = item else { break };
                        let slot = Slot {
                            permit: Mutex::new(permit),
                            busy: Arc::new(progress.begin(name(&item))),
                        };
                        // In a box, because a spawn moves its future several times, and a reconcile is several kilobytes.
                        let processed = Box::pin(process(item.clone(), slot));
                        let queue = queue.clone();
                        tasks.spawn(async move {
                            processed.await;
                            queue.done(&item);
                        });
                    }
                }
            }
            while let Some(ended) = tasks.join_next().await {
                resume_panic(ended);
            }
        };
        self.tasks.spawn(pool.map(Ok));
    }
}

impl Slot {
    /// Lets the pool start another item before this one is done.
    pub fn release(&self) {
        lock(&self.permit).take();
    }

    /// Reports progress: the item's timeout starts again.
    pub fn touch(&self) {
        self.busy.touch();
    }

    /// Waits for a resource that other items use. The item's timeout starts again afterwards.
    pub async fn wait<T>(&self, shared: impl Future<Output = T>) -> T {
        let _waits = self.busy.wait();
        shared.await
    }

    /// A slot for a part of the same item that holds another permit.
    #[must_use]
    pub fn part(&self, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            permit: Mutex::new(permit),
            busy: Arc::clone(&self.busy),
        }
    }
}

fn resume_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

impl<S: TermState> Drop for EndTerm<'_, S> {
    fn drop(&mut self) {
        if let Some(term) = lock(self.0).take() {
            term.stop.cancel();
            term.state.ended();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
