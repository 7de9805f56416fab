//! The workers: from an item of a queue to what is to be done about it, and when it is looked at again.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::{Client, ClientError};
use coxswain_manager::object::Key;
use coxswain_manager::queue::{Item, Queue};
use futures_util::future::join_all;

use super::act::{self, Came};
use super::floor::Floor;
use super::graph::{Act, Judgement, Question, Work};
use super::progress::Busy;
use super::{audit, lookup, orphan};

/// How often one item is judged before it is somebody else's turn.
const ROUNDS: usize = 16;
/// How many owners are asked for at once: an object can claim to have ten thousand.
const QUESTIONS: usize = 8;
/// How often an object that has changed in between is tried again at once.
pub(super) const CONFLICTS: usize = 5;
/// When an object is looked at again that has an owner nobody can ask for. That a kind turns up is an event; this is for its
/// other owners. No backoff: it costs no request, and many of them would keep others from theirs.
const UNRESOLVED: Duration = Duration::from_mins(1);
/// No server is believed that asks for a longer wait: the item would be lost.
const LONGEST_ASKED: Duration = Duration::from_mins(5);

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is done with, until something changes.
    Done,
    /// It is looked at again after this time.
    After(Duration),
    /// It is looked at again after its backoff.
    Backoff,
}

/// One worker of the queue of deletions.
pub(super) async fn delete(floor: Arc<Floor>) {
    let queue = floor.queues.deletes.clone();
    while let Some(work) = next(&floor, &queue).await {
        let busy = floor.progress.begin(name(&work));
        let attended = attend(&floor, &work, &busy).await;
        drop(busy);
        settle(&queue, &work, attended);
    }
}

/// One worker of the queue of owners that let their dependents go.
pub(super) async fn release(floor: Arc<Floor>) {
    let queue = floor.queues.orphans.clone();
    while let Some(owner) = next(&floor, &queue).await {
        let busy = floor.progress.begin(Key::cluster(format!("uid {owner}")));
        let attended = orphan::attend(&floor, &owner, &busy).await;
        drop(busy);
        settle(&queue, &owner, attended);
    }
}

async fn next<K: Item>(floor: &Floor, queue: &Queue<K>) -> Option<K> {
    // What finds nothing to do has not waited for anything, and there may be much of it.
    tokio::task::consume_budget().await;
    tokio::select! {
        biased;
        () = floor.halt.cancelled() => None,
        item = queue.get() => item,
    }
}

fn settle<K: Item>(queue: &Queue<K>, item: &K, attended: Result<Next, Arc<ClientError>>) {
    match attended {
        Ok(Next::Done) => queue.forget(item),
        Ok(Next::After(delay)) => {
            queue.forget(item);
            queue.add_after(item.clone(), delay);
        }
        Ok(Next::Backoff) => queue.add_rate_limited(item.clone()),
        Err(error) if matches!(*error, ClientError::Fenced { .. }) => {
            tracing::debug!(?item, "Work was cut short by the end of the term");
        }
        Err(error) => {
            let least = error.retry_after().unwrap_or_default().min(LONGEST_ASKED);
            queue.add_rate_limited_after(item.clone(), least);
            let failures = queue.num_requeues(item);
            tracing::warn!(%error, ?item, failures, "Collecting failed, and will be tried again");
        }
    }
    queue.done(item);
}

/// Looks at an object, or at an owner that no cache has shown, until there is nothing left to do.
async fn attend(floor: &Arc<Floor>, work: &Work, busy: &Busy<'_>) -> Result<Next, Arc<ClientError>> {
    let mut conflicts = 0;
    for _ in 0..ROUNDS {
        busy.touch();
        let act = match floor.look(|graph| graph.judge(work, floor.now())) {
            Judgement::Nothing => return Ok(Next::Done),
            Judgement::Later(delay) => return Ok(Next::After(delay)),
            Judgement::Unresolvable(owner) => {
                tracing::debug!(?owner, "It is not known whether an owner exists");
                return Ok(Next::After(UNRESOLVED));
            }
            Judgement::Poll => return Ok(Next::Backoff),
            Judgement::Ask(questions) => {
                let kinds = questions.iter().take(QUESTIONS).map(|it| &it.kind.resource);
                if let Some(wait) = floor.brakes.hold(kinds, floor.now()) {
                    return Ok(Next::After(wait));
                }
                ask(floor, &questions, None).await?;
                continue;
            }
            Judgement::Act(act) => act,
        };
        if floor.options.dry_run {
            pretend(floor, &act);
            return Ok(Next::Done);
        }
        if let Some(wait) = floor.brakes.hold([&act.kind.resource].into_iter(), floor.now()) {
            return Ok(Next::After(wait));
        }
        let client = floor.client.paid(act::verb(&act.deed)).await;
        let Some(act) = confirm(floor, work, &client).await? else {
            continue;
        };
        match act::send(floor, &act, &client).await? {
            Came::Done | Came::Gone => {}
            Came::Changed if conflicts == CONFLICTS => return Ok(Next::Backoff),
            Came::Changed => {
                conflicts += 1;
                act::read_again(floor, &act).await?;
            }
        }
    }
    Ok(Next::Backoff)
}

/// What is to be done now that the token is there, which may have taken long: a verdict does not live long. An owner that has
/// to be asked for again is asked for at once, without another wait: it would be too old again after it.
async fn confirm(floor: &Arc<Floor>, work: &Work, client: &Client) -> Result<Option<Act>, Arc<ClientError>> {
    let judge = || floor.look(|graph| graph.judge(work, floor.now()));
    let judgement = match judge() {
        Judgement::Ask(questions) => {
            ask(floor, &questions, Some(client)).await?;
            judge()
        }
        judgement => judgement,
    };
    match judgement {
        Judgement::Act(act) => Ok(Some(act)),
        _ => Ok(None),
    }
}

async fn ask(
    floor: &Arc<Floor>,
    questions: &[Question],
    paid: Option<&Client>,
) -> Result<(), Arc<ClientError>> {
    let asked = questions.iter().take(QUESTIONS);
    let asked = join_all(asked.map(|question| lookup::ask(floor, question, paid)));
    asked.await.into_iter().collect()
}

/// Says what would be done.
pub(super) fn pretend(floor: &Floor, act: &Act) {
    audit::done(act, true);
    floor.metrics.acted(&act.deed, true);
}

fn name(work: &Work) -> Key {
    match work {
        Work::Object(uid) => Key::cluster(format!("uid {uid}")),
        Work::Owner(it) => Key::new(it.namespace.clone(), it.name.clone()),
    }
}
