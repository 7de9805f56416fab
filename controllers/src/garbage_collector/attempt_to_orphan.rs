//! The workers of the orphan queue: orphan all dependents of an owner, then remove its finalizer.
//!
//! A dependent that no cache has shown yet would be deleted once the owner is deleted. So the dependents are listed
//! [live](super::live_list) after the finalizer was observed; the reference is removed from every dependent in that list or in
//! the graph; then the finalizer is removed, at the version that was evaluated. The list is kept until then, so that a rejected
//! patch does not cost another one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use steersman_manager::client::ClientError;
use steersman_manager::controller::Slot;
use steersman_manager::object::{Meta, OwnerRef, Uid};
use steersman_manager::revived;

use super::act::{self, Outcome};
use super::attempt_to_delete::{log_dry_run, scope};
use super::graph::{Action, Operation};
use super::kinds::Kind;
use super::queues::{InNamespace, Next};
use super::term::GcTerm;
use crate::support::errors;

/// The interval at which an owner checks whether the kinds have synced.
const SYNC_POLL: Duration = Duration::from_secs(1);
/// The maximum number of dependents that are patched in one pass. Then other owners are processed.
const PATCHES_PER_PASS: usize = 100;

/// Orphans the dependents of one owner.
pub(super) async fn process(
    term: Arc<GcTerm>,
    item: InNamespace<Uid>,
    slot: Slot,
) -> Result<Next, ClientError> {
    let owner = &item.item;
    let next = orphan(&term, owner, &slot).await;
    if matches!(next, Ok(Next::Done)) {
        term.lists.forget(owner);
    }
    next
}

async fn orphan(term: &Arc<GcTerm>, owner: &Uid, slot: &Slot) -> Result<Next, ClientError> {
    let Some(finish) = term.read(|graph| graph.remove_orphan_finalizer(owner)) else {
        return Ok(Next::Done);
    };
    if term
        .read(|graph| graph.unsynced_wait(owner, term.now()))
        .is_some()
    {
        return Ok(Next::After(SYNC_POLL));
    }
    if term.options.dry_run {
        let dependents = term.read(|graph| graph.orphan_dependents(owner, usize::MAX));
        let actions = dependents.iter().chain([&finish]);
        actions.for_each(|action| log_dry_run(term, action));
        return Ok(Next::Done);
    }
    let uncached = revived!(G10).then(Vec::new);
    // One more than a pass patches shows that another pass is due. All of them would make the passes quadratic.
    let most = PATCHES_PER_PASS + 1;
    let Some(mut actions) = uncached.or_else(|| listed(term, &finish, most)) else {
        term.request_list(&finish.key.namespace, owner);
        return Ok(Next::Parked);
    };
    actions.extend(term.read(|graph| graph.orphan_dependents(owner, most)));
    let more = actions.len() > PATCHES_PER_PASS;
    actions.truncate(PATCHES_PER_PASS);
    if let Some(next) = patch_all(term, owner, actions, slot).await? {
        return Ok(next);
    }
    if more {
        return Ok(Next::After(Duration::ZERO));
    }
    remove_finalizer(term, owner, slot).await
}

/// Returns up to `max` patches of dependents that a list has shown, for the owner whose finalizer `finish` removes.
fn listed(term: &GcTerm, finish: &Action, max: usize) -> Option<Vec<Action>> {
    let disregarded = term.read(|graph| graph.disregarded_lists(&finish.uid));
    term.lists
        .listed((&finish.uid, &finish.version), disregarded, max)
}

/// Patches the dependents. Returns the requeue if one of them may still refer to the owner.
async fn patch_all(
    term: &Arc<GcTerm>,
    owner: &Uid,
    actions: Vec<Action>,
    slot: &Slot,
) -> Result<Option<Next>, ClientError> {
    let patches = stream::iter(actions).map(|action| patch(term, owner, action, slot));
    let mut patches = patches.buffer_unordered(term.options.workers);
    // A failed patch does not stop the others.
    let (mut failed, mut again) = (None, None);
    while let Some(patched) = patches.next().await {
        match patched {
            Ok(next) => again = again.or(next),
            Err(error) => errors::keep(&mut failed, error),
        }
    }
    failed.map_or(Ok(again), Err)
}

/// Patches one dependent. Returns the requeue if it may still refer to the owner.
async fn patch(term: &GcTerm, owner: &Uid, action: Action, slot: &Slot) -> Result<Option<Next>, ClientError> {
    let permit = slot.wait(Arc::clone(&term.patches).acquire_owned()).await;
    let slot = slot.part(permit.ok());
    if let Some(wait) = term.breaker.hold(&[scope(&action)], term.now()) {
        return Ok(Some(Next::After(wait)));
    }
    let client = slot.wait(term.client.with_token("PATCH")).await?;
    // A second DELETE of the owner can have another propagation policy.
    if term.stop.is_cancelled() || term.read(|graph| graph.remove_orphan_finalizer(owner)).is_none() {
        return Ok(Some(Next::Backoff));
    }
    let changed = match act::send(term, &action, &client, &slot).await? {
        Outcome::Unsupported => return Ok(Some(Next::Backoff)),
        Outcome::Done | Outcome::NotFound => None,
        Outcome::Conflict => act::read_again(term, &action, &slot).await?,
    };
    let again = changed.and_then(|meta| detach(&action.kind, &meta, owner));
    let next = again.is_some().then_some(Next::Backoff);
    term.lists.patched(owner, &action.uid, again);
    Ok(next)
}

/// Removes the finalizer from the owner, unless an object still refers to it.
async fn remove_finalizer(term: &Arc<GcTerm>, owner: &Uid, slot: &Slot) -> Result<Next, ClientError> {
    let client = slot.wait(term.client.with_token("PATCH")).await?;
    let (dependents, finish) = term.read(|graph| {
        (
            graph.orphan_dependents(owner, 1),
            graph.remove_orphan_finalizer(owner),
        )
    });
    let Some(finish) = finish else {
        return Ok(Next::Done);
    };
    // Another list may have been completed meanwhile.
    let is_patched = revived!(G10) || listed(term, &finish, 1).is_some_and(|it| it.is_empty());
    if !dependents.is_empty() || !is_patched || term.stop.is_cancelled() {
        return Ok(Next::Backoff);
    }
    if let Some(wait) = term.breaker.hold(&[scope(&finish)], term.now()) {
        return Ok(Next::After(wait));
    }
    let sent = act::send(term, &finish, &client, slot).await;
    match &sent {
        Ok(Outcome::Done) => term.lists.forget(owner),
        Err(error) if error.is_unknown_outcome() => term.lists.may_be_finished(owner, &finish.version),
        _ => {}
    }
    match sent? {
        // The finalizer is still present if a webhook has restored it, or another DELETE has set it again.
        Outcome::Done | Outcome::NotFound => {
            Ok(match term.read(|graph| graph.remove_orphan_finalizer(owner)) {
                Some(_) => Next::Backoff,
                None => Next::Done,
            })
        }
        Outcome::Unsupported => Ok(Next::Backoff),
        Outcome::Conflict => {
            act::read_again(term, &finish, slot).await?;
            Ok(Next::Backoff)
        }
    }
}

/// The action that removes an owner from an object; none if the object does not refer to it.
pub(super) fn detach(kind: &Arc<Kind>, meta: &Meta, owner: &Uid) -> Option<Action> {
    let remaining = meta.owner_references.iter().filter(|it| it.uid != *owner);
    let remaining: Box<[OwnerRef]> = remaining.cloned().collect();
    (remaining.len() < meta.owner_references.len()).then(|| Action {
        kind: Arc::clone(kind),
        key: meta.key(),
        uid: meta.uid.clone(),
        version: meta.resource_version.clone(),
        operation: Operation::RemoveOwners {
            uids: vec![owner.clone()],
            remaining,
        },
        reasons: Vec::new(),
    })
}
