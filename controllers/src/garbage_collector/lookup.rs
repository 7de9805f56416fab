//! Live reads of owners: one GET per identity at a time, however many items need the answer.
//!
//! An item that needs an answer that is on its way does not wait for it in a worker: it leaves, and is queued again when the
//! answer has arrived, with its backoff if there was none.
//!
//! Absence counts only if the server says so of that very name, or shows another object under it. Any other answer proves
//! nothing, and is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coxswain_manager::client::{Client, ClientError, View};
use coxswain_manager::object::{Meta, MetaObject};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::floor::{Floor, Slot, WorkItem};
use super::graph::{FOREGROUND, Identity, Live, ORPHAN, Proof, Question};

type Reads = BTreeMap<Identity, BTreeSet<WorkItem>>;

/// The owners that are being read, with the items that wait for each answer.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<Reads>);

/// Reads these owners and tells the graph, by a client that has a token. Returns false if one of them is being read already:
/// then the item is queued again with that answer.
pub(super) async fn read(
    floor: &Floor,
    questions: &[Question],
    client: &Client,
    item: &WorkItem,
    slot: &Slot,
) -> Result<bool, ClientError> {
    if !floor.lookups.begin(questions, item) {
        return Ok(false);
    }
    let reads = questions.iter().map(async |question| {
        let read = get(floor, question, client, slot).await;
        for waiting in floor.lookups.end(&question.identity) {
            if read.is_ok() {
                floor.queues.deletes.add(waiting);
            } else {
                floor.queues.deletes.add_rate_limited(waiting);
            }
        }
        read
    });
    let reads: Result<Vec<()>, _> = join_all(reads).await.into_iter().collect();
    reads.map(|_| true)
}

impl Lookups {
    /// Lets an item wait if one of these owners is being read.
    pub(super) fn wait(&self, questions: &[Question], item: &WorkItem) -> bool {
        wait(&mut self.lock(), questions, item)
    }

    fn begin(&self, questions: &[Question], item: &WorkItem) -> bool {
        let mut reads = self.lock();
        if wait(&mut reads, questions, item) {
            return false;
        }
        let identities = questions.iter().map(|it| it.identity.clone());
        reads.extend(identities.map(|it| (it, BTreeSet::new())));
        true
    }

    fn end(&self, identity: &Identity) -> BTreeSet<WorkItem> {
        self.lock().remove(identity).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Reads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(reads: &mut Reads, questions: &[Question], item: &WorkItem) -> bool {
    let waiting = questions.iter().find(|it| reads.contains_key(&it.identity));
    let waiting = waiting.and_then(|it| reads.get_mut(&it.identity));
    waiting.map(|it| it.insert(item.clone())).is_some()
}

async fn get(floor: &Floor, question: &Question, client: &Client, slot: &Slot) -> Result<(), ClientError> {
    let Question { kind, identity } = question;
    let (scope, key) = (
        (kind.resource.clone(), identity.namespace.clone()),
        identity.key(),
    );
    let sent = floor.now();
    let read = client.get_as::<MetaObject>(&kind.resource, &key, View::Metadata);
    match floor.answer(&scope, slot, read).await {
        Ok(MetaObject { metadata }) => found(floor, question, &metadata, sent),
        Err(error) if error.is_not_found(&identity.name) => {
            floor.metrics.looked_up("not_found");
            floor.step(|graph| graph.absent(identity, Proof::NotFound));
            Ok(())
        }
        Err(error) => {
            floor.metrics.looked_up("error");
            Err(error)
        }
    }
}

fn found(floor: &Floor, question: &Question, meta: &Meta, sent: Instant) -> Result<(), ClientError> {
    let Question { kind, identity } = question;
    // Nothing follows from an answer that shows another object.
    if meta.uid.is_empty() || meta.name != identity.name || meta.namespace != identity.namespace {
        floor.metrics.looked_up("error");
        return Err(ClientError::Decode {
            request_line: format!("GET {}", kind.resource.path(&meta.key())),
            reason: "it shows another object than the one that was asked for".to_owned(),
        });
    }
    if meta.uid != identity.uid {
        floor.metrics.looked_up("other_uid");
        let proof = Proof::OtherUid(meta.uid.clone());
        floor.step(|graph| graph.absent(identity, proof));
        return Ok(());
    }
    let live = if meta.is_terminating() && meta.has_finalizer(FOREGROUND) && !meta.has_finalizer(ORPHAN) {
        floor.metrics.looked_up("waiting");
        Live::Waiting
    } else {
        floor.metrics.looked_up("solid");
        Live::Solid
    };
    floor.step(|graph| {
        let effects = graph.refresh(kind, meta);
        graph.exists(question, live, sent, floor.now());
        effects
    });
    Ok(())
}
