//! Live lists: the dependents of owners that are being orphaned, whether or not a cache has shown them.
//!
//! For a namespaced owner: a consistent list of every namespaced resource in its namespace. For a cluster-scoped owner: the
//! resourceVersion of every resource, which the graph must reach. Its dependents can be in any namespace. A list
//! serves all owners of a namespace that requested it before it started. Few namespaces are listed at the same time, by a
//! client with a rate limiter of its own: no other request waits for a live list.
//!
//! A list does not count after the list or watch of the owner's kind has failed: the storage may have been restored from a
//! backup, with other dependents.
//!
//! A resource that cannot be listed delays the first orphaning by [`UNLISTABLE_WAIT`]. Until a list of it succeeds, it is
//! retried at that interval, and orphaning proceeds without it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use steersman_manager::client::{ClientError, ListQuery, View, WatchQuery};
use steersman_manager::controller::Slot;
use steersman_manager::env::later;
use steersman_manager::object::{Key, Meta, MetaObject, Resource, Text, Uid, Version};
use steersman_manager::revived;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::attempt_to_orphan::detach;
use super::graph::{Action, Graph, SYNC_TIMEOUT};
use super::kinds::{Kind, Kinds};
use super::queues::{InNamespace, Next};
use super::term::GcTerm;

/// The number of namespaces that are listed at the same time.
pub(super) const NAMESPACES_MAX: usize = 4;
/// The number of resources of a namespace that are listed at the same time.
const RESOURCES_MAX: usize = 8;
/// The number of objects on a page.
const PAGE_SIZE: u32 = 500;
/// The time that the first orphaning waits for a resource that cannot be listed, and the interval of later attempts.
const UNLISTABLE_WAIT: Duration = SYNC_TIMEOUT;
/// The duration of the watch that shows whether a cache is up to date: the server sends a bookmark two seconds before its end.
const IDLE_WATCH: Duration = Duration::from_secs(4);
/// The time that a relist of a stale cache may take.
const RELIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The live lists of a term.
#[derive(Debug, Default)]
pub(super) struct LiveLists(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Owners that wait for a list that has not started, by namespace.
    requested: BTreeMap<Text, Owners>,
    /// Owners whose dependents were listed.
    listed: BTreeMap<Uid, Dependents>,
    unlistable: BTreeMap<Resource, Unlistable>,
}

#[derive(Debug)]
struct Dependents {
    /// The patches of listed objects that the graph does not show as dependents.
    actions: Vec<Action>,
    /// The number of proofs of absence when the list began.
    proofs: u64,
    /// The version of the owner at which its finalizer may have been removed.
    finished: Option<Version>,
}

#[derive(Debug)]
struct Unlistable {
    since: Instant,
    tried: Instant,
    reason: String,
}

/// Owners, with the time since which each is delayed by resources that cannot be listed.
type Owners = BTreeMap<Uid, Option<Instant>>;

type Listed = Result<Vec<Meta>, String>;

impl LiveLists {
    /// Returns up to `max` patches of listed dependents that the graph does not show. None before the dependents were listed, if
    /// the list began before `disregarded` proofs of absence, and if the owner has changed since its finalizer may have been
    /// removed: another DELETE may have set it again.
    pub(super) fn listed(
        &self,
        (owner, version): (&Uid, &Version),
        disregarded: u64,
        max: usize,
    ) -> Option<Vec<Action>> {
        let state = self.lock();
        let dependents = state.listed.get(owner).filter(|it| it.proofs >= disregarded)?;
        let finished = dependents.finished.as_ref();
        let is_valid = finished.is_none_or(|it| it == version);
        is_valid.then(|| dependents.actions.iter().take(max).cloned().collect())
    }

    /// Records that the finalizer of an owner may have been removed at this version.
    pub(super) fn may_be_finished(&self, owner: &Uid, version: &Version) {
        if let Some(dependents) = self.lock().listed.get_mut(owner) {
            dependents.finished = Some(version.clone());
        }
    }

    /// Requests a list for an owner. The owner is enqueued when the list is complete.
    pub(super) fn request(&self, namespace: &Text, owner: &Uid) {
        let mut state = self.lock();
        let requested = state.requested.entry(namespace.clone()).or_default();
        requested.entry(owner.clone()).or_default();
    }

    /// Replaces the patch of a dependent that was patched.
    pub(super) fn patched(&self, owner: &Uid, dependent: &Uid, again: Option<Action>) {
        let mut state = self.lock();
        if let Some(Dependents { actions, .. }) = state.listed.get_mut(owner)
            && let Some(at) = actions.iter().position(|it| it.uid == *dependent)
        {
            actions.splice(at..=at, again);
        }
    }

    /// Drops the list of an owner.
    pub(super) fn forget(&self, owner: &Uid) {
        self.lock().listed.remove(owner);
    }

    fn begin(&self, namespace: &Text) -> Owners {
        self.lock().requested.remove(namespace).unwrap_or_default()
    }

    fn request_again(&self, namespace: &Text, owners: Owners) {
        let mut state = self.lock();
        let requested = state.requested.entry(namespace.clone()).or_default();
        requested.extend(owners);
    }

    /// The resources that could not be listed, with the reason.
    pub(super) fn unlistable(&self) -> Vec<String> {
        let state = self.lock();
        let unlistable = state.unlistable.iter();
        let named = unlistable.map(|(resource, it)| format!("{resource} cannot be listed: {}", it.reason));
        named.collect()
    }

    /// Drops resources that are no longer served.
    fn prune(&self, kinds: &Kinds) {
        let is_served = |it: &Resource| {
            let undescribed = kinds.undescribed().iter();
            kinds.watched(it).is_some() || undescribed.map(|kind| &kind.resource).any(|other| other == it)
        };
        self.lock().unlistable.retain(|resource, _| is_served(resource));
    }

    /// Whether to skip a resource: its last list failed less than [`UNLISTABLE_WAIT`] ago, and orphaning no longer waits for it.
    fn skips(&self, resource: &Resource, now: Instant) -> bool {
        let recent = |then: Instant| now.duration_since(then) < UNLISTABLE_WAIT;
        let state = self.lock();
        let known = state.unlistable.get(resource);
        known.is_some_and(|it| !recent(it.since) && recent(it.tried))
    }

    /// Records whether a resource can be listed. Returns the time that orphaning still waits for it.
    fn tried<T>(&self, resource: &Resource, listed: &Result<T, String>, now: Instant) -> Duration {
        let mut state = self.lock();
        let Err(reason) = listed else {
            if state.unlistable.remove(resource).is_some() {
                tracing::info!(%resource, "Listed resource for orphaning again");
            }
            return Duration::ZERO;
        };
        tracing::warn!(%resource, reason, "Failed to list resource for orphaning");
        let entry = state.unlistable.entry(resource.clone());
        let known = entry.or_insert_with(|| Unlistable {
            since: now,
            tried: now,
            reason: reason.clone(),
        });
        known.tried = now;
        UNLISTABLE_WAIT.saturating_sub(now.duration_since(known.since))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists a namespace, or all resources if it is empty, for the owners that wait for it.
pub(super) async fn process(term: Arc<GcTerm>, item: Key, slot: Slot) -> Result<Next, ClientError> {
    let namespace = item.namespace;
    let proofs = term.read(Graph::proofs);
    let mut owners = term.lists.begin(&namespace);
    if owners.is_empty() {
        return Ok(Next::Done);
    }
    let started = revived!(A6).then(|| term.now());
    let known = term.kinds();
    term.lists.prune(&known);
    let kinds = known.collected().iter();
    let kinds = kinds
        .filter(|it| namespace.is_empty() || it.resource.namespaced)
        .cloned();
    let (mut missing, kinds): (Vec<_>, Vec<_>) =
        kinds.partition(|it| term.lists.skips(&it.resource, term.now()));
    let concurrent = Semaphore::new(RESOURCES_MAX);
    let (within, sender, dependents_of, slot) = (&namespace, &*term, &owners, &slot);
    let lists = kinds.into_iter().map(|kind| {
        let concurrent = &concurrent;
        async move {
            let listed = if within.is_empty() {
                catch_up(sender, &kind, concurrent).await
            } else {
                let _permit = concurrent.acquire().await;
                list(sender, &kind, within, dependents_of, slot).await
            };
            slot.touch();
            (kind, listed)
        }
    });
    let listed: Vec<(Arc<Kind>, Listed)> = tokio::select! {
        biased;
        () = term.stop.cancelled() => return Ok(Next::Parked),
        listed = join_all(lists) => listed,
    };
    let is_late = started.is_some_and(|it| term.now() > later(it, Duration::from_secs(5)));
    if is_late || listed.iter().all(|(_, listed)| listed.is_err()) {
        // The API server is down: that is not a reason to proceed without any list.
        term.lists.request_again(&namespace, owners);
        return Ok(Next::Backoff);
    }
    let now = term.now();
    let (mut wait, mut dependents) = (Duration::ZERO, Vec::new());
    for (kind, listed) in listed {
        wait = wait.max(term.lists.tried(&kind.resource, &listed, now));
        match listed {
            Ok(items) => dependents.extend(items.into_iter().map(|it| (Arc::clone(&kind), it))),
            Err(_) => missing.push(kind),
        }
    }
    for kind in known.undescribed() {
        let undescribed: Listed = Err("discovery does not describe it".to_owned());
        wait = wait.max(term.lists.tried(&kind.resource, &undescribed, now));
        missing.push(Arc::clone(kind));
    }
    let mut next = Next::Done;
    if !wait.is_zero() {
        // Each owner is delayed once, even if several resources fail one after the other.
        let is_delayed = |_: &Uid, since: &mut Option<Instant>| {
            now.duration_since(*since.get_or_insert(now)) < UNLISTABLE_WAIT
        };
        let delayed = owners.extract_if(.., is_delayed).collect();
        term.lists.request_again(&namespace, delayed);
        next = Next::After(wait.min(UNLISTABLE_WAIT / 3));
    }
    apply(&term, (&namespace, &owners), proofs, &dependents, &missing);
    Ok(next)
}

/// Updates the graph and enqueues the owners.
fn apply(
    term: &GcTerm,
    (namespace, owners): (&Text, &Owners),
    proofs: u64,
    dependents: &[(Arc<Kind>, Meta)],
    missing: &[Arc<Kind>],
) {
    if owners.is_empty() {
        return;
    }
    let mut actions: BTreeMap<Uid, Vec<Action>> = owners.keys().map(|it| (it.clone(), Vec::new())).collect();
    term.apply_all(|graph, effects| {
        for owner in owners.keys().filter(|_| !missing.is_empty()) {
            graph.add_orphaned_owner(owner);
        }
        for (kind, meta) in dependents {
            effects.push(graph.refresh(kind, meta));
            for reference in &*meta.owner_references {
                if let Some(actions) = actions.get_mut(&reference.uid)
                    // After a restore, the graph may have a newer state than the list.
                    && !graph.has_dependent(&reference.uid, &meta.uid)
                    // One patch removes both of two references to the same owner.
                    && actions.last().is_none_or(|it| it.uid != meta.uid)
                {
                    actions.extend(detach(kind, meta, &reference.uid));
                }
            }
        }
    });
    if !missing.is_empty() {
        let resources: Vec<_> = missing.iter().map(|it| it.resource.to_string()).collect();
        let (resources, owners) = (resources.join(", "), owners.len());
        tracing::warn!(%namespace, owners, resources, "Orphaning without resources that cannot be listed");
        for kind in missing {
            term.metrics.unlisted(&kind.resource, owners);
        }
    }
    let listed = actions.into_iter().map(|(owner, actions)| {
        let dependents = Dependents {
            actions,
            proofs,
            finished: None,
        };
        (owner, dependents)
    });
    let mut state = term.lists.lock();
    state.listed.extend(listed);
    // Another list would show dependents that this one has patched meanwhile.
    if let Some(requested) = state.requested.get_mut(namespace) {
        requested.retain(|owner, _| !owners.contains_key(owner));
    }
    drop(state);
    for owner in owners.keys() {
        let (namespace, item) = (namespace.clone(), owner.clone());
        term.queues.orphans.add(InNamespace { namespace, item });
    }
}

/// The objects of a kind that refer to one of the owners.
async fn list(term: &GcTerm, kind: &Kind, namespace: &str, owners: &Owners, slot: &Slot) -> Listed {
    let refers = |meta: &Meta| {
        // A list of many pages takes longer than one request may take.
        slot.touch();
        let mut references = meta.owner_references.iter();
        references.any(|it| owners.contains_key(&it.uid))
    };
    let query = ListQuery {
        limit: PAGE_SIZE,
        ..ListQuery::default()
    };
    let listed = term
        .lister
        .list_all_metadata(&kind.resource, namespace, query, refers);
    listed.await.map_err(|error| error.to_string())
}

/// Waits until the graph has reached the current version of a kind. `relists` bounds the number of concurrent relists.
pub(super) async fn catch_up(term: &GcTerm, kind: &Kind, relists: &Semaphore) -> Listed {
    let resource = &kind.resource;
    let monitor = term.monitors.get(resource).ok_or("it is not watched yet")?;
    let query = ListQuery {
        limit: 1,
        ..ListQuery::default()
    };
    let before = monitor.cache.version();
    let page = term.lister.list_metadata(resource, "", &query).await;
    let version = page.map_err(|error| error.to_string())?.version;
    if version.partial_cmp(&before) == Some(Ordering::Less) {
        // The storage was restored, which the cache has not detected yet.
        return Err(format!("a list has version {version}, older than its cache"));
    }
    let is_behind = !is_reached(&monitor.cache.version(), &version)
        && !is_unchanged(term, resource, monitor.cache.version(), &version).await
        && !is_reached(&monitor.cache.version(), &version);
    let _permit = if is_behind {
        relists.acquire().await.ok()
    } else {
        None
    };
    let known = async {
        if is_behind {
            let clock = &term.env.clock;
            monitor.cache.reach(&version, Duration::ZERO, clock).await;
        }
        monitor.caught_up(term).await;
    };
    let in_time = term.env.clock.timeout(RELIST_TIMEOUT, known).await;
    let late = || format!("its cache does not reach version {version}");
    in_time.map(|()| Vec::new()).ok_or_else(late)
}

/// Whether no object of a resource has changed between two versions. The cache of an idle resource has an old version; a
/// short watch from there starts with a change, or with a current bookmark.
async fn is_unchanged(term: &GcTerm, resource: &Resource, from: Version, to: &Version) -> bool {
    if from.is_none() || revived!(A7) {
        return false;
    }
    let query = WatchQuery {
        resource_version: from,
        timeout_seconds: IDLE_WATCH.as_secs(),
        ..WatchQuery::default()
    };
    let first = async {
        let watch = term.lister.watch(resource, "", &query, View::Metadata);
        let mut lines = watch.await.ok()?;
        let line = lines.next().await.ok()??;
        serde_json::from_slice::<Event>(&line).ok()
    };
    let first = term.env.clock.timeout(IDLE_WATCH, first).await.flatten();
    let first = first.filter(|it| it.kind == "BOOKMARK");
    first.is_some_and(|it| is_reached(&it.object.metadata.resource_version, to))
}

fn is_reached(version: &Version, to: &Version) -> bool {
    version.partial_cmp(to).is_some_and(Ordering::is_ge)
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: MetaObject,
}
