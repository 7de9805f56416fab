//! The monitors: apply the changes of the caches of all collected kinds to the graph.
//!
//! There is one metadata cache per kind, shared with other controllers. One task applies all changes, in batches per kind. It is
//! not a worker pool, because a change must not be applied while the served kinds are replaced. Only a complete cache proves
//! that an object is absent: a restricted one is never read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use prometheus::IntCounter;
use steersman_manager::cache::{CachePositions as _, Caches, Delta, Lookup, MetaCache, Status, Subscription};
use steersman_manager::env::later;
use steersman_manager::object::{MetaObject, Resource, Version};
use steersman_manager::revived;
use steersman_manager::sync::watch;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::discovery::Discovery;
use super::graph::SYNC_TIMEOUT;
use super::kinds::{Kind, Kinds};
use super::live_list;
use super::term::GcTerm;

/// The maximum number of changes of one kind that are applied before other kinds.
const BATCH_MAX: usize = 1000;
/// The time for which a kind that is no longer served is still followed. Its objects were deleted before it, but its cache may
/// report that last.
const REMOVED_KIND_LINGER: Duration = Duration::from_secs(5);
/// The time after a restore of the API server's storage in which deletions in caches are not trusted: a cache may still show
/// the old storage. Every watch ends within that time.
const RESTORE_DISTRUST: Duration = Duration::from_mins(15);
/// The number of inherited caches that are relisted at the same time.
const RELISTS_MAX: usize = 8;
/// The time between two attempts to prove a kind current.
const PROOF_RETRY: Duration = Duration::from_secs(2);
/// The interval of the checks for kinds that have not synced, or whose list or watch fails.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The monitors of one term.
#[derive(Debug)]
pub(super) struct Monitors {
    caches: Caches,
    by_kind: Mutex<BTreeMap<Resource, Arc<Monitor>>>,
    /// The end of [`RESTORE_DISTRUST`]; none without a restore.
    distrusted_until: Mutex<Option<Instant>>,
    refresh: Arc<Notify>,
    sync_errors: IntCounter,
}

#[derive(Debug)]
pub(super) struct Monitor {
    kind: Arc<Kind>,
    pub(super) cache: MetaCache,
    since: Instant,
    applied: Mutex<Applied>,
    /// The number of rounds that have started.
    begun: AtomicU64,
    /// The last round that left no change to apply.
    done: watch::Sender<u64>,
    /// Enqueues the kind when its cache has changed.
    feeder: AbortHandle,
}

#[derive(Debug)]
struct Applied {
    subscription: Subscription<MetaObject>,
    /// The time of the request for the last list that the graph was compared with.
    listed: Option<Instant>,
    /// The objects of the cache that were not compared yet, and the version of the cache when the comparison began.
    compared: Option<(Subscription<MetaObject>, Version)>,
    /// The epoch of resource versions that the graph is in.
    epoch: u64,
    /// Whether the graph has been marked as synced.
    synced: bool,
    /// Whether the kind was not served when its cache last changed.
    unserved: bool,
    /// The number of failed lists and watches of the cache.
    failures: u64,
    /// That number when the last list was applied.
    listed_failures: u64,
    /// Whether the changes to apply may be from before a failure.
    disregards_proofs: bool,
    /// The number of checks in succession that have found the list or watch failing.
    failing_checks: u32,
}

/// A kind whose cache has not synced.
#[derive(Debug)]
pub(super) struct UnsyncedKind {
    pub(super) resource: Resource,
    pub(super) status: Status,
    pub(super) since: Instant,
}

/// Follows the served kinds and applies the changes of their caches until the term is over.
pub(super) async fn process(term: Arc<GcTerm>) {
    let mut feeders = JoinSet::new();
    let mut kinds = term.kinds.clone();
    kinds.mark_changed();
    let mut is_open = true;
    let mut reported = Vec::new();
    let mut check = term.env.clock.after(CHECK_INTERVAL);
    let mut removed = RemovedKinds::default();
    loop {
        let left = removed.next();
        tokio::select! {
            biased;
            () = term.stop.cancelled() => return,
            changed = kinds.changed(), if is_open => {
                is_open = changed.is_ok();
                let served = kinds.borrow_and_update().clone();
                if let Some(served) = served {
                    let all = removed.follow(&served, term.monitors.kinds(), term.now());
                    term.monitors.follow(&term, &all, &mut feeders);
                }
            }
            () = term.env.clock.sleep_until(left.unwrap_or(check)), if left.is_some() => {
                let all = removed.follow(&term.kinds(), term.monitors.kinds(), term.now());
                term.monitors.follow(&term, &all, &mut feeders);
            }
            Some(ended) = feeders.join_next() => {
                if let Err(error) = ended
                    && let Ok(panic) = error.try_into_panic()
                {
                    std::panic::resume_unwind(panic);
                }
            }
            () = term.env.clock.sleep_until(check) => {
                report_unsynced(&term, &mut reported);
                term.monitors.disregard_unwatched(&term);
                check = term.env.clock.after(CHECK_INTERVAL);
            }
            resource = term.queues.changes.get() => {
                let Some(resource) = resource else { return };
                term.monitors.apply_changes(&term, &resource);
                term.queues.changes.done(&resource);
                let mut unproven = Vec::new();
                let deadline = term.env.clock.after(SYNC_TIMEOUT);
                term.apply_all(|graph, _| unproven = graph.begin_proof(deadline));
                if !unproven.is_empty() {
                    feeders.spawn(prove(Arc::clone(&term), unproven, deadline));
                }
                tokio::task::consume_budget().await;
            }
        }
    }
}

/// The kinds that are no longer served but still followed, with the end of that time.
#[derive(Default)]
struct RemovedKinds(BTreeMap<Resource, (Arc<Kind>, Instant)>);

impl RemovedKinds {
    /// The kinds to follow, from those that are served and those that were followed.
    fn follow(&mut self, served: &Arc<Kinds>, followed: Vec<Arc<Kind>>, now: Instant) -> Arc<Kinds> {
        // Other versions of a resource are the same kind.
        let is_served = |it: &Resource| {
            let mut collected = served.collected().iter().map(|kind| &kind.resource);
            collected.any(|other| other.group == it.group && other.plural == it.plural)
        };
        for kind in followed.into_iter().filter(|it| !is_served(&it.resource)) {
            let until = later(now, REMOVED_KIND_LINGER);
            self.0.entry(kind.resource.clone()).or_insert((kind, until));
        }
        self.0
            .retain(|resource, (_, until)| !is_served(resource) && *until > now && !revived!(G11));
        if self.0.is_empty() {
            return Arc::clone(served);
        }
        Arc::new(served.and(self.0.values().map(|(kind, _)| kind)))
    }

    /// The time at which the first kind is no longer followed.
    fn next(&self) -> Option<Instant> {
        self.0.values().map(|(_, until)| *until).min()
    }
}

impl Monitors {
    pub(super) fn new(caches: &Caches, discovery: &Discovery) -> Self {
        Self {
            caches: caches.clone(),
            by_kind: Mutex::default(),
            distrusted_until: Mutex::default(),
            refresh: Arc::clone(&discovery.refresh),
            sync_errors: discovery.sync_errors.clone(),
        }
    }

    pub(super) fn get(&self, resource: &Resource) -> Option<Arc<Monitor>> {
        self.lock().get(resource).cloned()
    }

    fn kinds(&self) -> Vec<Arc<Kind>> {
        self.lock().values().map(|it| Arc::clone(&it.kind)).collect()
    }

    /// The kinds whose caches have not synced.
    pub(super) fn unsynced_kinds(&self) -> Vec<UnsyncedKind> {
        let monitors = self.lock();
        let unsynced = monitors.values().filter(|it| !it.cache.is_synced());
        let unsynced_kind = |it: &Arc<Monitor>| UnsyncedKind {
            resource: it.kind.resource.clone(),
            status: it.cache.status(),
            since: it.since,
        };
        unsynced.map(unsynced_kind).collect()
    }

    /// Disregards the proofs that objects of a kind are absent while its list or watch fails: its cache notices a restore of the
    /// storage with the next attempt, which can be a minute away. The intervals grow, because many owners, or a live list, have to
    /// be read within one.
    fn disregard_unwatched(&self, term: &GcTerm) {
        for monitor in self.lock().values() {
            let mut applied = lock(&monitor.applied);
            let fails = matches!(monitor.cache.status(), Status::Retrying { .. });
            applied.failing_checks = if fails { applied.failing_checks + 1 } else { 0 };
            if applied.failing_checks.is_power_of_two() {
                term.apply_all(|graph, _| graph.disregard_proofs(&monitor.kind.resource));
            }
        }
    }

    /// Starts and stops monitors so that exactly these kinds are followed.
    fn follow(&self, term: &Arc<GcTerm>, kinds: &Arc<Kinds>, feeders: &mut JoinSet<()>) {
        let now = term.now();
        term.apply(|graph| graph.set_kinds(Arc::clone(kinds), now));
        let mut monitors = self.lock();
        monitors.retain(|resource, monitor| {
            let stays = kinds.watched(resource).is_some();
            if !stays {
                tracing::info!(%resource, "Stopped collecting resource");
                monitor.feeder.abort();
                self.caches.forget_metadata(resource);
            }
            stays
        });
        for kind in kinds.collected() {
            let resource = &kind.resource;
            if monitors.contains_key(resource) {
                continue;
            }
            let cache = self.caches.metadata(resource);
            if !cache.includes_all() {
                continue;
            }
            tracing::debug!(%resource, "Collecting resource");
            if cache.is_synced() {
                term.apply_all(|graph, _| graph.mark_unproven(resource));
            }
            // While the kind was not followed, no failure was recorded.
            term.apply_all(|graph, _| graph.disregard_proofs(resource));
            let failures = cache.failures();
            let monitor = Monitor {
                kind: Arc::clone(kind),
                since: now,
                applied: Mutex::new(Applied {
                    listed: self.listed(resource),
                    compared: None,
                    subscription: cache.subscribe(),
                    epoch: self.epoch(resource),
                    synced: false,
                    unserved: false,
                    failures,
                    listed_failures: failures,
                    disregards_proofs: false,
                    failing_checks: 0,
                }),
                begun: AtomicU64::new(0),
                done: watch::Sender::new(0),
                feeder: feeders.spawn(feed(Arc::clone(term), cache.changes(), resource.clone())),
                cache,
            };
            monitors.insert(resource.clone(), Arc::new(monitor));
        }
    }

    /// Applies a batch of changes of a kind to the graph.
    fn apply_changes(&self, term: &GcTerm, resource: &Resource) {
        let Some(monitor) = self.get(resource) else { return };
        let round = monitor.begun.fetch_add(1, Ordering::SeqCst) + 1;
        // Read before the changes: the objects of the first list are then among them, or were applied before.
        let synced = monitor.cache.is_synced();
        let mut applied = lock(&monitor.applied);
        let unserved = monitor.cache.status().is_unavailable();
        if unserved && !applied.unserved {
            self.refresh.notify_one();
        }
        applied.unserved = unserved;
        // Read before the changes: those from before a failure are then in this batch or in the following ones.
        let failures = monitor.cache.failures();
        if failures != applied.failures {
            applied.failures = failures;
            applied.disregards_proofs = true;
        }
        applied.compare_again(&monitor.cache, self.listed(resource));
        let mut deltas = Vec::new();
        while deltas.len() < BATCH_MAX
            && let Some(delta) = applied.subscription.try_next()
        {
            deltas.push(delta);
        }
        let listed = applied.next_listed(&monitor.cache, BATCH_MAX - deltas.len());
        let more_changes = !applied.subscription.is_empty();
        let more = more_changes || applied.compared.is_some();
        // Read after the changes: a new epoch is known before a change of it is applied.
        let epoch = self.epoch(resource);
        let kind = &monitor.kind;
        let now = term.now();
        let mut distrusted_until = lock(&self.distrusted_until);
        term.apply_all(|graph, effects| {
            if epoch != applied.epoch {
                *distrusted_until = Some(later(now, RESTORE_DISTRUST));
                tracing::warn!(%resource, "Storage of the API server was restored, resetting the graph");
                effects.push(graph.reset());
                applied.epoch = epoch;
                applied.synced = false;
            }
            let distrusted = distrusted_until.is_some_and(|until| now < until);
            effects.extend(deltas.iter().map(|delta| match delta {
                Delta::Added { new, .. } | Delta::Updated { new, .. } => graph.observe(kind, &new.metadata),
                Delta::Deleted { last } if distrusted => graph.observe_lost(kind, &last.metadata),
                Delta::Deleted { last } => graph.observe_deleted(kind, &last.metadata),
            }));
            for (object, version) in &listed {
                effects.push(graph.observe_listed(kind, &object.metadata, (version, applied.listed)));
            }
            if synced && !more && !applied.synced {
                effects.push(graph.synced(kind));
                applied.synced = true;
            }
            if applied.disregards_proofs {
                graph.disregard_proofs(resource);
                applied.disregards_proofs = more_changes;
            }
        });
        drop((applied, distrusted_until));
        if more {
            term.queues.changes.add(resource.clone());
        } else {
            monitor.done.send_replace(round);
        }
    }

    /// Returns the time of the request for the last list that a cache includes.
    fn listed(&self, resource: &Resource) -> Option<Instant> {
        self.caches.position(resource)?.list_started_at
    }

    fn epoch(&self, resource: &Resource) -> u64 {
        self.caches.position(resource).map_or(0, |view| view.epoch)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Resource, Arc<Monitor>>> {
        lock(&self.by_kind)
    }
}

impl Applied {
    /// Begins to compare the graph with the whole cache if it includes another list. In a restored storage, objects have the
    /// versions of the backup: the list shows no change of an object that the graph knows from an answer only, or knows as deleted.
    fn compare_again(&mut self, cache: &MetaCache, listed: Option<Instant>) {
        if listed == self.listed {
            return;
        }
        // The subscription includes the first list.
        if self.listed.is_some() {
            self.compared = Some((cache.subscribe(), cache.version()));
        }
        // Other lists were requested.
        self.disregards_proofs |= self.failures != self.listed_failures;
        (self.listed, self.listed_failures) = (listed, self.failures);
    }

    /// Returns up to `max` objects to compare with the graph.
    fn next_listed(&mut self, cache: &MetaCache, max: usize) -> Vec<(Arc<MetaObject>, Version)> {
        let mut listed = Vec::new();
        while listed.len() < max
            && let Some((objects, version)) = &mut self.compared
        {
            // Later changes are in the other subscription, too.
            match objects.try_next() {
                Some(Delta::Added { new, initial: true }) => {
                    // An object that cannot be decoded has an older state than the cache.
                    if let Lookup::Present(_) = cache.get(&new.metadata.key()) {
                        listed.push((new, version.clone()));
                    }
                }
                _ => self.compared = None,
            }
        }
        listed
    }
}

impl Monitor {
    /// Resolves when the graph has reached the current state of the cache. Cancel safe.
    pub(super) async fn caught_up(&self, term: &GcTerm) {
        let begun = self.begun.load(Ordering::SeqCst);
        term.queues.changes.add(self.kind.resource.clone());
        // The sender lives in `self`.
        let _ = self.done.subscribe().wait_for(|done| *done > begun).await;
    }
}

/// Proves that caches from before the term are current: each has to reach the version of a consistent list.
async fn prove(term: Arc<GcTerm>, mut unproven: Vec<Resource>, deadline: Instant) {
    let relists = Semaphore::new(RELISTS_MAX);
    loop {
        let catch_up = async |resource: Resource| {
            let monitor = term.monitors.get(&resource)?;
            let caught_up = live_list::catch_up(&term, &monitor.kind, &relists).await;
            if caught_up.is_ok() {
                term.apply(|graph| graph.proven(&resource));
            }
            caught_up.err().map(|why| (resource, why))
        };
        let failed = join_all(unproven.into_iter().map(catch_up)).await;
        let failed: Vec<_> = failed.into_iter().flatten().collect();
        if failed.is_empty() || term.stop.is_cancelled() {
            return;
        }
        if term.now() >= deadline {
            let resources: Vec<_> = failed.iter().map(|(it, why)| format!("{it} ({why})")).collect();
            let resources = resources.join(", ");
            tracing::warn!(
                resources,
                "Removing foreground finalizers with caches that may be stale"
            );
            return;
        }
        term.env.clock.sleep(PROOF_RETRY).await;
        unproven = failed.into_iter().map(|(resource, _)| resource).collect();
    }
}

/// Enqueues a kind whenever its cache has changed.
async fn feed(term: Arc<GcTerm>, mut moved: watch::Receiver<()>, resource: Resource) {
    loop {
        term.queues.changes.add(resource.clone());
        if moved.changed().await.is_err() {
            return;
        }
    }
}

/// Logs each kind that has not synced in time once.
fn report_unsynced(term: &GcTerm, reported: &mut Vec<Resource>) {
    let now = term.now();
    let unsynced_kinds = term.monitors.unsynced_kinds();
    let kinds = term.kinds();
    let undescribed = kinds.undescribed().iter().map(|it| &it.resource);
    term.metrics
        .unsynced(unsynced_kinds.iter().map(|it| &it.resource).chain(undescribed));
    reported.retain(|it| {
        unsynced_kinds
            .iter()
            .any(|unsynced_kind| unsynced_kind.resource == *it)
    });
    let before = reported.len();
    for UnsyncedKind {
        resource,
        status,
        since,
    } in unsynced_kinds
    {
        if now.duration_since(since) >= SYNC_TIMEOUT && !reported.contains(&resource) {
            tracing::warn!(%resource, %status, "Collecting without unreadable resource");
            reported.push(resource);
        }
    }
    if reported.len() > before {
        term.monitors.sync_errors.inc();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
