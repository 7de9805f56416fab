//! The workers: from an item of a queue to one write, and when the item is processed again.
//!
//! A pass of an item takes one token of the rate limiter and decides after it, so that no decision is older than the wait
//! for the token; it reads the owners that it needs and sends one write. So every item occupies a worker for one token and
//! for at most [`SLOW`](super::breaker::SLOW) per request: the wait of other namespaces is bounded.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::queue::{Item, Queue};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use super::act::{self, Came};
use super::breaker::Scope;
use super::floor::{Floor, Slot, WorkItem};
use super::graph::{Act, Judgement, Question};
use super::{audit, lookup};

/// The number of owners that are read in one pass. An object with more of them that are in foreground deletion at the same
/// time may have to wait for some of these.
const QUESTIONS: usize = 16;
/// When an object is processed again that has an owner of an unknown kind. A new kind is an event; this is for its other
/// owners. No backoff: it costs no request.
const UNRESOLVED: Duration = Duration::from_mins(1);
/// The longest Retry-After that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// When an item is processed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// When something changes.
    Done,
    /// After this time. It keeps its backoff.
    After(Duration),
    /// After its backoff.
    Backoff,
    /// When the answer or list that it waits for is there: that queues it. It keeps its backoff.
    Parked,
}

/// Processes the items of a queue until the term is over: each in a task of its own, as many at once as there are slots.
pub(super) async fn run<K: Item, F>(
    floor: Arc<Floor>,
    queue: Queue<K>,
    slots: usize,
    process: impl Fn(Arc<Floor>, K, Slot) -> F,
) where
    F: Future<Output = Result<Next, Arc<ClientError>>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(slots));
    let mut tasks = JoinSet::new();
    loop {
        // Cancel safe: an item that is handed out is returned at once.
        let next = async {
            let slot = Slot::new(Arc::clone(&slots).acquire_owned().await.ok());
            (slot, queue.get().await)
        };
        tokio::select! {
            biased;
            () = floor.halt.cancelled() => break,
            Some(ended) = tasks.join_next() => resume(ended),
            (slot, item) = next => {
                let Some(item) = item else { break };
                let processed = process(Arc::clone(&floor), item.clone(), slot);
                let queue = queue.clone();
                tasks.spawn(async move {
                    let processed = processed.await;
                    settle(&queue, &item, processed);
                });
            }
        }
    }
    while let Some(ended) = tasks.join_next().await {
        resume(ended);
    }
}

fn resume(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

fn settle<K: Item>(queue: &Queue<K>, item: &K, processed: Result<Next, Arc<ClientError>>) {
    match processed {
        Ok(Next::Done) => queue.forget(item),
        Ok(Next::After(delay)) => queue.add_after(item.clone(), delay),
        Ok(Next::Backoff) => queue.add_rate_limited(item.clone()),
        Ok(Next::Parked) => {}
        Err(error) if matches!(*error, ClientError::Fenced { .. }) => {
            tracing::debug!(?item, "The end of the term interrupted an item");
        }
        Err(error) => {
            let least = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
            queue.add_rate_limited_after(item.clone(), least);
            let failures = queue.num_requeues(item);
            tracing::warn!(%error, ?item, failures, "Failed to collect garbage, retrying");
        }
    }
    queue.done(item);
}

/// One pass of an object, or of an owner that no cache has shown.
pub(super) async fn process(floor: Arc<Floor>, item: WorkItem, slot: Slot) -> Result<Next, Arc<ClientError>> {
    let _busy = floor.progress.begin(item.key());
    if let Some(other) = floor.look(|graph| item.moved(graph)) {
        floor.queues.deletes.add(other);
        return Ok(Next::Done);
    }
    let evaluate = || floor.look(|graph| graph.judge(&item.item, floor.now()));
    let (scopes, verb) = match evaluate() {
        Judgement::Act(act) if floor.options.dry_run => {
            pretend(&floor, &act);
            return Ok(Next::Done);
        }
        Judgement::Act(act) => (vec![scope(&act)], act::verb(&act.deed)),
        Judgement::Ask(questions) => {
            let questions = first(&questions);
            if floor.lookups.wait(questions, &item) {
                return Ok(Next::Parked);
            }
            (questions.iter().map(asked).collect(), "GET")
        }
        other => return Ok(rest(&other)),
    };
    if let Some(wait) = floor.breaker.hold(&scopes, floor.now()) {
        return Ok(Next::After(wait));
    }
    let client = floor.client.with_token(verb).await;
    if floor.halt.is_cancelled() {
        return Ok(Next::Done);
    }
    let judgement = match evaluate() {
        Judgement::Ask(questions) => {
            if !lookup::read(&floor, first(&questions), &client, &item, &slot).await? {
                return Ok(Next::Parked);
            }
            evaluate()
        }
        judgement => judgement,
    };
    let act = match judgement {
        Judgement::Act(act) => act,
        other => return Ok(rest(&other)),
    };
    if floor.options.dry_run {
        pretend(&floor, &act);
        return Ok(Next::Done);
    }
    match act::send(&floor, &act, &client, &slot).await? {
        Came::Done | Came::Gone => {}
        Came::Unsupported => return Ok(Next::Backoff),
        Came::Changed => {
            act::read_again(&floor, &act, &slot).await?;
            return Ok(Next::Backoff);
        }
    }
    // A write can be the first of two; a server that takes it without effect is not asked all the time.
    Ok(match evaluate() {
        Judgement::Act(_) => Next::Backoff,
        other => rest(&other),
    })
}

/// When an item is processed again that has nothing to do now.
fn rest(judgement: &Judgement) -> Next {
    match judgement {
        Judgement::Nothing => Next::Done,
        Judgement::Later(delay) => Next::After(*delay),
        Judgement::Unresolvable(owner) => {
            tracing::debug!(?owner, "An owner is of an unknown kind");
            Next::After(UNRESOLVED)
        }
        Judgement::Poll | Judgement::Ask(_) | Judgement::Act(_) => Next::Backoff,
    }
}

fn first(questions: &[Question]) -> &[Question] {
    &questions[..questions.len().min(QUESTIONS)]
}

fn asked(Question { kind, identity }: &Question) -> Scope {
    (kind.resource.clone(), identity.namespace.clone())
}

pub(super) fn scope(act: &Act) -> Scope {
    (act.kind.resource.clone(), act.key.namespace.clone())
}

/// Reports a write that a dry run does not send.
pub(super) fn pretend(floor: &Floor, act: &Act) {
    audit::done(act, true);
    floor.metrics.acted(&act.deed, true);
}
