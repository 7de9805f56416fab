//! Live reads of owners: one GET per identity at a time, for all items that need it.
//!
//! An item does not occupy a worker while another item reads the same owner: it is enqueued again when the answer arrives, or
//! after its backoff if the read is refused.
//!
//! An owner is absent only if the server returns 404 for its name, or another uid. Any other answer is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use steersman_manager::client::{ClientError, Reader, View};
use steersman_manager::controller::Slot;
use steersman_manager::object::{Meta, MetaObject};
use steersman_manager::revived;
use tokio::time::Instant;

use super::breaker::is_unanswered;
use super::graph::{FOREGROUND, Graph, Identity, LiveState, Lookup, ORPHAN, Proof};
use super::queues::DeleteItem;
use super::term::GcTerm;

type Reads = BTreeMap<Identity, BTreeSet<DeleteItem>>;

/// The owners that are being read, with the items that wait for each answer.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<Reads>);

/// Reads these owners and updates the graph, by a client that has a token. Returns false if one of them is being read already:
/// then the item is enqueued again with that answer.
pub(super) async fn read(
    term: &GcTerm,
    lookups: &[Lookup],
    client: &Reader,
    item: &DeleteItem,
    slot: &Slot,
) -> Result<bool, ClientError> {
    if !term.lookups.begin(lookups, item) {
        return Ok(false);
    }
    let reads = lookups.iter().map(async |lookup| {
        let read = get(term, lookup, client, slot).await;
        for waiting in term.lookups.end(&lookup.identity) {
            match &read {
                // Behind all others, the item would find the answer expired and read the owner again.
                Ok(()) => term.queues.deletes.add_first(waiting),
                // The circuit breaker holds it. Its own backoff would delay it after the outage.
                Err(error) if is_unanswered(error) => term.queues.deletes.add(waiting),
                Err(_) => term.queues.deletes.add_rate_limited(waiting),
            }
        }
        read
    });
    let reads: Result<Vec<()>, _> = join_all(reads).await.into_iter().collect();
    reads.map(|_| true)
}

impl Lookups {
    /// Registers the item as waiting if one of these owners is being read.
    pub(super) fn wait(&self, lookups: &[Lookup], item: &DeleteItem) -> bool {
        wait(&mut self.lock(), lookups, item)
    }

    fn begin(&self, lookups: &[Lookup], item: &DeleteItem) -> bool {
        let mut reads = self.lock();
        if wait(&mut reads, lookups, item) {
            return false;
        }
        let identities = lookups.iter().map(|it| it.identity.clone());
        reads.extend(identities.map(|it| (it, BTreeSet::new())));
        true
    }

    fn end(&self, identity: &Identity) -> BTreeSet<DeleteItem> {
        self.lock().remove(identity).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Reads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(reads: &mut Reads, lookups: &[Lookup], item: &DeleteItem) -> bool {
    let waiting = lookups.iter().find(|it| reads.contains_key(&it.identity));
    let waiting = waiting.and_then(|it| reads.get_mut(&it.identity));
    waiting.map(|it| it.insert(item.clone())).is_some()
}

async fn get(term: &GcTerm, lookup: &Lookup, client: &Reader, slot: &Slot) -> Result<(), ClientError> {
    let Lookup { kind, identity } = lookup;
    let (scope, key) = (
        (kind.resource.clone(), identity.namespace.clone()),
        identity.key(),
    );
    let sent = (term.now(), term.read(Graph::proofs));
    let read = client.get_as::<MetaObject>(&kind.resource, &key, View::Metadata);
    let any_404 = revived!(G2 | G5);
    match term.answer(&scope, slot, read).await {
        Ok(MetaObject { metadata }) => found(term, lookup, &metadata, sent),
        Err(error) if error.is_not_found(&identity.name) || any_404 && error.code() == Some(404) => {
            term.metrics.looked_up("not_found");
            absent(term, identity, Proof::NotFound, sent.1);
            Ok(())
        }
        Err(error) => {
            term.metrics.looked_up("error");
            Err(error)
        }
    }
}

fn found(term: &GcTerm, lookup: &Lookup, meta: &Meta, sent: (Instant, u64)) -> Result<(), ClientError> {
    let Lookup { kind, identity } = lookup;
    // An answer about another object is not a proof.
    if meta.uid.is_empty() || meta.name != identity.name || meta.namespace != identity.namespace {
        term.metrics.looked_up("error");
        return Err(ClientError::Decode {
            request_line: format!("GET {}", kind.resource.path(&meta.key())),
            reason: "the answer is about another object".to_owned(),
        });
    }
    if meta.uid != identity.uid {
        term.metrics.looked_up("other_uid");
        absent(term, identity, Proof::OtherUid(meta.uid.clone()), sent.1);
        return Ok(());
    }
    let live = if meta.is_terminating() && meta.has_finalizer(FOREGROUND) && !meta.has_finalizer(ORPHAN) {
        term.metrics.looked_up("waiting");
        LiveState::Waiting
    } else {
        term.metrics.looked_up("solid");
        LiveState::Solid
    };
    term.apply_all(|graph, effects| {
        effects.push(graph.refresh(kind, meta));
        effects.push(graph.record_live_state(lookup, live, sent, term.now()));
    });
    Ok(())
}

/// Records that an object is absent. Returns false if the read is not a proof, see [`Graph::read_absent`].
pub(super) fn absent(term: &GcTerm, identity: &Identity, proof: Proof, sent: u64) -> bool {
    let mut counts = false;
    term.apply_all(|graph, effects| {
        let absent = graph.read_absent(identity, proof, sent);
        counts = absent.is_some();
        effects.extend(absent);
    });
    counts
}
