//! Lets the dependents of an owner go, all of them, before the owner itself goes.
//!
//! What no cache has shown yet would be deleted once the owner is gone. So after the finalizer was seen a [`census`] is
//! taken; whoever it finds, or the graph knows, loses the reference; then the owner loses the finalizer, at the version that
//! was judged. A kind that cannot be listed holds this up for a while; then it goes on, and the graph lets late dependents
//! go, too.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::object::{Key, Meta, OwnerRef, Text, Uid};
use futures_util::{StreamExt as _, stream};

use super::act::{self, Came};
use super::census::{self, Found};
use super::floor::{Floor, Slot};
use super::graph::{Act, Deed};
use super::kinds::Kind;
use super::progress::Busy;
use super::worker::{Next, pretend, scope};

/// How often it is looked whether the kinds have synced.
const LOOK: Duration = Duration::from_secs(1);
/// How often an object that has changed in between is tried again at once.
const CONFLICTS: usize = 5;
/// How long a census may take.
const CENSUS: Duration = Duration::from_mins(2);
/// How often dependents that turn up meanwhile are let go before it is somebody else's turn.
const ROUNDS: usize = 8;

/// Orphans the dependents of one owner.
pub(super) async fn process(floor: Arc<Floor>, owner: Uid, slot: Slot) -> Result<Next, Arc<ClientError>> {
    let busy = floor.progress.begin(Key::cluster(format!("uid {owner}")));
    attend(&floor, &owner, &busy, &slot).await
}

async fn attend(
    floor: &Arc<Floor>,
    owner: &Uid,
    busy: &Busy<'_>,
    slot: &Slot,
) -> Result<Next, Arc<ClientError>> {
    let Some(finish) = floor.look(|graph| graph.finish_orphaning(owner)) else {
        floor.holds.end(owner);
        return Ok(Next::Done);
    };
    let unsettled = floor.look(|graph| graph.unsettled(owner, floor.now()));
    if unsettled.is_some() {
        return Ok(Next::After(LOOK));
    }
    if floor.options.dry_run {
        let releases = floor.look(|graph| graph.releases(owner));
        releases
            .iter()
            .chain([&finish])
            .for_each(|act| pretend(floor, act));
        return Ok(Next::Done);
    }
    let kind = [(finish.kind.resource.clone(), Text::default())];
    if let Some(wait) = floor.censuses.hold(&kind, floor.now()) {
        return Ok(Next::After(wait));
    }
    let census = census::take(floor, &finish.key.namespace, owner);
    // Longer than any one kind can take: the API server is in trouble.
    let Some(found) = floor.env.clock.timeout(CENSUS, census).await else {
        return Ok(Next::Backoff);
    };
    busy.touch();
    if found.counted == 0 && !found.missing.is_empty() {
        // No kind at all: there is nobody to ask, which is no reason to do without.
        floor.censuses.unanswered(&kind[0], floor.now());
        return Ok(Next::Backoff);
    }
    floor.censuses.record(&kind[0], &Ok(()), floor.now());
    if !found.missing.is_empty()
        && let Some(wait) = floor.holds.hold(owner, floor.now())
    {
        tracing::info!(owner = %finish.key, resources = missing(&found), "Orphaning waits for kinds that cannot be listed");
        return Ok(Next::After(wait));
    }
    if !found.missing.is_empty() {
        floor.steps(|graph, _| graph.let_go(owner));
        for (kind, _) in &found.missing {
            floor.metrics.unlisted(&kind.resource);
        }
        tracing::warn!(owner = %finish.key, uid = %owner, resources = missing(&found), "Orphaning without kinds that cannot be listed: what they show later is let go, too");
    }
    let unknown = apply(floor, owner, &found);
    if let Some(next) = free(floor, owner, unknown, busy).await? {
        return Ok(next);
    }
    let finished = finish_up(floor, owner, busy, slot).await?;
    if finished == Next::Done {
        floor.holds.end(owner);
    }
    Ok(finished)
}

/// Tells the graph what was listed. What has to be done about those that it does not know is returned.
fn apply(floor: &Floor, owner: &Uid, found: &Found) -> Vec<Act> {
    let refers = |meta: &Meta| meta.owner_references.iter().any(|it| it.uid == *owner);
    let listed: Vec<_> = found.dependents.iter().filter(|(_, it)| refers(it)).collect();
    floor.steps(|graph, effects| {
        effects.extend(listed.iter().map(|(kind, meta)| graph.refresh(kind, meta)));
    });
    let known: BTreeSet<Uid> =
        floor.look(|graph| graph.releases(owner).into_iter().map(|it| it.uid).collect());
    let unknown = listed.into_iter().filter(|(_, meta)| !known.contains(&meta.uid));
    unknown
        .filter_map(|(kind, meta)| detach(kind, meta, owner))
        .collect()
}

/// Lets those go, and all that the graph knows. If one of them may still refer to the owner, nobody else would notice: it says
/// when to look again.
async fn free(
    floor: &Arc<Floor>,
    owner: &Uid,
    mut acts: Vec<Act>,
    busy: &Busy<'_>,
) -> Result<Option<Next>, Arc<ClientError>> {
    for _ in 0..ROUNDS {
        acts.extend(floor.look(|graph| graph.releases(owner)));
        if acts.is_empty() {
            return Ok(None);
        }
        let freed = stream::iter(acts.drain(..)).map(|act| free_one(floor, owner, act, busy));
        let mut freed = freed.buffer_unordered(floor.options.workers);
        // One that cannot be let go does not keep the others.
        let (mut failed, mut held) = (None, None);
        while let Some(freed) = freed.next().await {
            match freed {
                Ok(next) => held = held.or(next),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(Arc::new(error));
        }
        if held.is_some() {
            return Ok(held);
        }
        if floor.halt.is_cancelled() {
            return Ok(Some(Next::Done));
        }
    }
    Ok(None)
}

/// Lets one go. If it may still refer to the owner, says when to look again.
async fn free_one(
    floor: &Floor,
    owner: &Uid,
    mut act: Act,
    busy: &Busy<'_>,
) -> Result<Option<Next>, ClientError> {
    let slot = Slot::new(Arc::clone(&floor.releases).acquire_owned().await.ok());
    for _ in 0..=CONFLICTS {
        if floor.halt.is_cancelled() {
            return Ok(Some(Next::Done));
        }
        if let Some(wait) = floor.breaker.hold(&[scope(&act)], floor.now()) {
            return Ok(Some(Next::After(wait)));
        }
        let client = floor.client.paid("PATCH").await;
        busy.touch();
        // Who deletes the owner once more can have changed their mind.
        if floor.look(|graph| graph.finish_orphaning(owner)).is_none() {
            return Ok(None);
        }
        match act::send(floor, &act, &client, &slot).await? {
            Came::Done | Came::Gone => return Ok(None),
            Came::Unsupported => continue,
            Came::Changed => {}
        }
        let Some(meta) = act::read_again(floor, &act, &slot).await? else {
            return Ok(None);
        };
        let Some(again) = detach(&act.kind, &meta, owner) else {
            return Ok(None);
        };
        act = again;
    }
    // It changes all the time.
    Ok(Some(Next::Backoff))
}

/// Takes the finalizer off the owner, if nobody refers to it any more.
async fn finish_up(
    floor: &Arc<Floor>,
    owner: &Uid,
    busy: &Busy<'_>,
    slot: &Slot,
) -> Result<Next, Arc<ClientError>> {
    for _ in 0..=CONFLICTS {
        busy.touch();
        if floor.halt.is_cancelled() {
            return Ok(Next::Done);
        }
        let client = floor.client.paid("PATCH").await;
        let (rest, finish) = floor.look(|graph| (graph.releases(owner), graph.finish_orphaning(owner)));
        let Some(finish) = finish else {
            return Ok(Next::Done);
        };
        if !rest.is_empty() {
            return Ok(Next::Backoff);
        }
        if let Some(wait) = floor.breaker.hold(&[scope(&finish)], floor.now()) {
            return Ok(Next::After(wait));
        }
        if act::send(floor, &finish, &client, slot).await? != Came::Changed {
            return Ok(Next::Done);
        }
        act::read_again(floor, &finish, slot).await?;
    }
    Ok(Next::Backoff)
}

/// What takes an owner from an object; none if it is not one of its owners.
fn detach(kind: &Arc<Kind>, meta: &Meta, owner: &Uid) -> Option<Act> {
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

fn missing(found: &Found) -> String {
    let named = found.missing.iter();
    let named: Vec<_> = named
        .map(|(kind, why)| format!("{} ({why})", kind.resource))
        .collect();
    named.join(", ")
}
