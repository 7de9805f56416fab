//! Orphans the dependents of an owner, all of them, before its finalizer is removed.
//!
//! A dependent that no cache has shown yet would be deleted once the owner is gone. So after the finalizer was seen a
//! [live list](super::live_list) is taken; every dependent that it finds, or the graph knows, loses the reference; then the
//! owner loses the finalizer, at the version that was evaluated. The list is kept until then: a failed patch does not cost
//! another one.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::object::{Key, Meta, OwnerRef, Uid};
use futures_util::{StreamExt as _, stream};

use super::act::{self, Came};
use super::floor::{Floor, InNamespace, Slot};
use super::graph::{Act, Deed};
use super::kinds::Kind;
use super::progress::Busy;
use super::worker::{Next, pretend, scope};

/// How often an owner looks whether the kinds have synced.
const SYNC_POLL: Duration = Duration::from_secs(1);
/// The number of dependents that are patched before other owners have their turn.
const PATCHES_PER_PASS: usize = 100;

/// Orphans the dependents of one owner.
pub(super) async fn process(
    floor: Arc<Floor>,
    item: InNamespace<Uid>,
    slot: Slot,
) -> Result<Next, Arc<ClientError>> {
    let busy = floor
        .progress
        .begin(Key::new(item.namespace.clone(), format!("uid {}", item.item)));
    let owner = &item.item;
    let next = attend(&floor, owner, &busy, &slot).await;
    if matches!(next, Ok(Next::Done)) {
        floor.lists.forget(owner);
    }
    next
}

async fn attend(
    floor: &Arc<Floor>,
    owner: &Uid,
    busy: &Busy<'_>,
    slot: &Slot,
) -> Result<Next, Arc<ClientError>> {
    let Some(finish) = floor.look(|graph| graph.finish_orphaning(owner)) else {
        return Ok(Next::Done);
    };
    if floor.look(|graph| graph.unsettled(owner, floor.now())).is_some() {
        return Ok(Next::After(SYNC_POLL));
    }
    if floor.options.dry_run {
        let releases = floor.look(|graph| graph.releases(owner));
        let acts = releases.iter().chain([&finish]);
        acts.for_each(|act| pretend(floor, act));
        return Ok(Next::Done);
    }
    let Some(mut acts) = floor.lists.listed(owner) else {
        floor.request_list(&finish.key.namespace, owner);
        return Ok(Next::Parked);
    };
    acts.extend(floor.look(|graph| graph.releases(owner)));
    let more = acts.len() > PATCHES_PER_PASS;
    acts.truncate(PATCHES_PER_PASS);
    if let Some(next) = patch_all(floor, owner, acts, busy).await? {
        return Ok(next);
    }
    if more {
        return Ok(Next::After(Duration::ZERO));
    }
    remove_finalizer(floor, owner, busy, slot).await
}

/// Patches the dependents. Returns when to look again if one of them may still refer to the owner.
async fn patch_all(
    floor: &Arc<Floor>,
    owner: &Uid,
    acts: Vec<Act>,
    busy: &Busy<'_>,
) -> Result<Option<Next>, Arc<ClientError>> {
    let patches = stream::iter(acts).map(|act| patch(floor, owner, act, busy));
    let mut patches = patches.buffer_unordered(floor.options.workers);
    // One that cannot be patched does not keep the others.
    let (mut failed, mut again) = (None, None);
    while let Some(patched) = patches.next().await {
        match patched {
            Ok(next) => again = again.or(next),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(again), |error| Err(Arc::new(error)))
}

/// Patches one dependent. Returns when to look again if it may still refer to the owner.
async fn patch(floor: &Floor, owner: &Uid, act: Act, busy: &Busy<'_>) -> Result<Option<Next>, ClientError> {
    let slot = Slot::new(Arc::clone(&floor.patches).acquire_owned().await.ok());
    if let Some(wait) = floor.breaker.hold(&[scope(&act)], floor.now()) {
        return Ok(Some(Next::After(wait)));
    }
    let client = floor.client.with_token("PATCH").await;
    busy.touch();
    // A second DELETE of the owner can have another propagation policy.
    if floor.halt.is_cancelled() || floor.look(|graph| graph.finish_orphaning(owner)).is_none() {
        return Ok(Some(Next::Backoff));
    }
    let changed = match act::send(floor, &act, &client, &slot).await? {
        Came::Unsupported => return Ok(Some(Next::Backoff)),
        Came::Done | Came::Gone => None,
        Came::Changed => act::read_again(floor, &act, &slot).await?,
    };
    let again = changed.and_then(|meta| detach(&act.kind, &meta, owner));
    let next = again.is_some().then_some(Next::Backoff);
    floor.lists.patched(owner, &act.uid, again);
    Ok(next)
}

/// Removes the finalizer from the owner, unless an object refers to it.
async fn remove_finalizer(
    floor: &Arc<Floor>,
    owner: &Uid,
    busy: &Busy<'_>,
    slot: &Slot,
) -> Result<Next, Arc<ClientError>> {
    let client = floor.client.with_token("PATCH").await;
    busy.touch();
    let (dependents, finish) = floor.look(|graph| (graph.releases(owner), graph.finish_orphaning(owner)));
    let Some(finish) = finish else {
        return Ok(Next::Done);
    };
    if !dependents.is_empty() || floor.halt.is_cancelled() {
        return Ok(Next::Backoff);
    }
    if let Some(wait) = floor.breaker.hold(&[scope(&finish)], floor.now()) {
        return Ok(Next::After(wait));
    }
    match act::send(floor, &finish, &client, slot).await? {
        Came::Done | Came::Gone => Ok(Next::Done),
        Came::Unsupported => Ok(Next::Backoff),
        Came::Changed => {
            act::read_again(floor, &finish, slot).await?;
            Ok(Next::Backoff)
        }
    }
}

/// The patch that removes an owner from an object; none if it is not one of its owners.
pub(super) fn detach(kind: &Arc<Kind>, meta: &Meta, owner: &Uid) -> Option<Act> {
    let remaining = meta.owner_references.iter().filter(|it| it.uid != *owner);
    let remaining: Box<[OwnerRef]> = remaining.cloned().collect();
    (remaining.len() < meta.owner_references.len()).then(|| Act {
        kind: Arc::clone(kind),
        key: meta.key(),
        uid: meta.uid.clone(),
        version: meta.resource_version.clone(),
        deed: Deed::RemoveOwners {
            uids: vec![owner.clone()],
            remaining,
        },
        because: Vec::new(),
    })
}
