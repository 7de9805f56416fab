//! From the caches of all collected kinds into the graph.
//!
//! One cache of metadata per kind, shared with whoever else has one. One processor, the only one that tells the graph what
//! caches show, takes a kind whose cache has moved and passes on what is new; a kind that has much to tell takes turns with
//! the others. What a cache proves, it proves only if it holds all objects of its kind: one that does not is never read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coxswain_manager::cache::{CachePositions as _, Caches, Delta, MetaCache, Status, Subscription};
use coxswain_manager::env::later;
use coxswain_manager::object::{MetaObject, Resource};
use futures_util::future::join_all;
use prometheus::IntCounter;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::discovery::Discovery;
use super::floor::Floor;
use super::graph::PATIENCE;
use super::kinds::{Kind, Kinds};
use super::live_list;

/// How much one kind tells before it is another one's turn.
const BATCH: usize = 1000;
/// How much longer a kind is followed that is no longer served. Its objects have gone before it, but each cache tells what it
/// shows in its own time: that they are gone may be told last.
const LINGER: Duration = Duration::from_secs(5);
/// For how long after a restore of the API's store no cache is believed that something is gone: one that has not noticed
/// tells of the store of before. Every watch ends within that time.
const DOUBT: Duration = Duration::from_mins(15);
/// The number of inherited caches that are listed again at the same time.
const RELISTS: usize = 8;
/// The time between two attempts to prove a kind current.
const PROOF_RETRY: Duration = Duration::from_secs(2);
/// How often it is looked which kinds do not sync.
const LOOK: Duration = Duration::from_secs(10);

/// The monitors of one term.
#[derive(Debug)]
pub(super) struct Monitors {
    caches: Caches,
    by_kind: Mutex<BTreeMap<Resource, Arc<Monitor>>>,
    /// Until when caches are doubted.
    doubted: Mutex<Option<Instant>>,
    refresh: Arc<Notify>,
    sync_errors: IntCounter,
}

/// One kind.
#[derive(Debug)]
pub(super) struct Monitor {
    kind: Arc<Kind>,
    pub(super) cache: MetaCache,
    since: Instant,
    told: Mutex<Told>,
    /// How many rounds were begun.
    begun: AtomicU64,
    /// The last round after which nothing was left to tell.
    done: watch::Sender<u64>,
    /// Queues the kind when its cache has moved.
    feeder: AbortHandle,
}

#[derive(Debug)]
struct Told {
    subscription: Subscription<MetaObject>,
    /// How often versions began anew, as far as the graph was told.
    epoch: u64,
    /// The graph was told that the kind has synced.
    synced: bool,
    /// The kind was not served when its cache last changed.
    unserved: bool,
}

/// A kind that does not tell what there is of it.
#[derive(Debug)]
pub(super) struct Laggard {
    pub(super) resource: Resource,
    pub(super) status: Status,
    pub(super) since: Instant,
}

/// The processor: follows the kinds that there are, and what their caches show, until the term is over.
pub(super) async fn process(floor: Arc<Floor>) {
    let mut feeders = JoinSet::new();
    let mut kinds = floor.kinds.clone();
    kinds.mark_changed();
    let mut discovers = true;
    let mut named = Vec::new();
    let mut look = floor.env.clock.after(LOOK);
    let mut leaving = Leaving::default();
    loop {
        let left = leaving.next();
        tokio::select! {
            biased;
            () = floor.halt.cancelled() => return,
            changed = kinds.changed(), if discovers => {
                discovers = changed.is_ok();
                let served = kinds.borrow_and_update().clone();
                if let Some(served) = served {
                    let all = leaving.serve(&served, floor.monitors.kinds(), floor.now());
                    floor.monitors.serve(&floor, &all, &mut feeders);
                }
            }
            () = floor.env.clock.sleep_until(left.unwrap_or(look)), if left.is_some() => {
                let all = leaving.serve(&floor.kinds(), floor.monitors.kinds(), floor.now());
                floor.monitors.serve(&floor, &all, &mut feeders);
            }
            Some(ended) = feeders.join_next() => {
                if let Err(error) = ended
                    && let Ok(panic) = error.try_into_panic()
                {
                    std::panic::resume_unwind(panic);
                }
            }
            () = floor.env.clock.sleep_until(look) => {
                name_laggards(&floor, &mut named);
                look = floor.env.clock.after(LOOK);
            }
            resource = floor.queues.changes.get() => {
                let Some(resource) = resource else { return };
                floor.monitors.tell(&floor, &resource);
                floor.queues.changes.done(&resource);
                let mut unproven = Vec::new();
                let deadline = floor.env.clock.after(PATIENCE);
                floor.steps(|graph, _| unproven = graph.begin_proof(deadline));
                if !unproven.is_empty() {
                    feeders.spawn(prove(Arc::clone(&floor), unproven, deadline));
                }
                tokio::task::consume_budget().await;
            }
        }
    }
}

/// The kinds that are no longer served and still followed, and until when.
#[derive(Default)]
struct Leaving(BTreeMap<Resource, (Arc<Kind>, Instant)>);

impl Leaving {
    /// What is followed now that these are served, and those were followed so far.
    fn serve(&mut self, served: &Arc<Kinds>, followed: Vec<Arc<Kind>>, now: Instant) -> Arc<Kinds> {
        // In another version it is the same kind.
        let is_served = |it: &Resource| {
            let mut collected = served.collected().iter().map(|kind| &kind.resource);
            collected.any(|other| other.group == it.group && other.plural == it.plural)
        };
        for kind in followed.into_iter().filter(|it| !is_served(&it.resource)) {
            let until = later(now, LINGER);
            self.0.entry(kind.resource.clone()).or_insert((kind, until));
        }
        self.0
            .retain(|resource, (_, until)| !is_served(resource) && *until > now);
        if self.0.is_empty() {
            return Arc::clone(served);
        }
        Arc::new(served.and(self.0.values().map(|(kind, _)| kind)))
    }

    /// When the first of them is over.
    fn next(&self) -> Option<Instant> {
        self.0.values().map(|(_, until)| *until).min()
    }
}

impl Monitors {
    pub(super) fn new(caches: &Caches, discovery: &Discovery) -> Self {
        Self {
            caches: caches.clone(),
            by_kind: Mutex::default(),
            doubted: Mutex::default(),
            refresh: Arc::clone(&discovery.refresh),
            sync_errors: discovery.sync_errors.clone(),
        }
    }

    pub(super) fn get(&self, resource: &Resource) -> Option<Arc<Monitor>> {
        self.lock().get(resource).cloned()
    }

    /// The kinds that are followed.
    fn kinds(&self) -> Vec<Arc<Kind>> {
        self.lock().values().map(|it| Arc::clone(&it.kind)).collect()
    }

    /// The kinds whose caches have never been filled.
    pub(super) fn laggards(&self) -> Vec<Laggard> {
        let monitors = self.lock();
        let unsynced = monitors.values().filter(|it| !it.cache.is_synced());
        let laggard = |it: &Arc<Monitor>| Laggard {
            resource: it.kind.resource.clone(),
            status: it.cache.status(),
            since: it.since,
        };
        unsynced.map(laggard).collect()
    }

    /// From now on these kinds are served.
    fn serve(&self, floor: &Arc<Floor>, kinds: &Arc<Kinds>, feeders: &mut JoinSet<()>) {
        let now = floor.now();
        floor.step(|graph| graph.serve(Arc::clone(kinds), now));
        let mut monitors = self.lock();
        monitors.retain(|resource, monitor| {
            let stays = kinds.watched(resource).is_some();
            if !stays {
                tracing::info!(%resource, "A kind is no longer collected");
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
            tracing::debug!(%resource, "A kind is collected");
            if cache.is_synced() {
                floor.steps(|graph, _| graph.inherited(resource));
            }
            let monitor = Monitor {
                kind: Arc::clone(kind),
                since: now,
                told: Mutex::new(Told {
                    subscription: cache.subscribe(),
                    epoch: self.epoch(resource),
                    synced: false,
                    unserved: false,
                }),
                begun: AtomicU64::new(0),
                done: watch::Sender::new(0),
                feeder: feeders.spawn(feed(Arc::clone(floor), cache.changes(), resource.clone())),
                cache,
            };
            monitors.insert(resource.clone(), Arc::new(monitor));
        }
    }

    /// Tells the graph what is new of a kind, or some of it.
    fn tell(&self, floor: &Floor, resource: &Resource) {
        let Some(monitor) = self.get(resource) else { return };
        let round = monitor.begun.fetch_add(1, Ordering::SeqCst) + 1;
        // Before it is asked for what is new: what was there when it was filled is then among it, or was told before.
        let synced = monitor.cache.is_synced();
        let mut told = lock(&monitor.told);
        let unserved = monitor.cache.status().is_unavailable();
        if unserved && !told.unserved {
            self.refresh.notify_one();
        }
        told.unserved = unserved;
        let mut deltas = Vec::new();
        while deltas.len() < BATCH
            && let Some(delta) = told.subscription.try_next()
        {
            deltas.push(delta);
        }
        let more = !told.subscription.is_empty();
        // After it: if versions began anew, this is known before anything of the new ones is applied.
        let epoch = self.epoch(resource);
        let kind = &monitor.kind;
        let now = floor.now();
        let mut doubted = lock(&self.doubted);
        floor.steps(|graph, effects| {
            if epoch != told.epoch {
                *doubted = Some(later(now, DOUBT));
                tracing::warn!(%resource, "The store of the API was restored: the graph starts over");
                effects.push(graph.start_over());
                told.epoch = epoch;
                told.synced = false;
            }
            let doubts = doubted.is_some_and(|until| now < until);
            effects.extend(deltas.iter().map(|delta| match delta {
                Delta::Added { new, .. } | Delta::Updated { new, .. } => graph.observe(kind, &new.metadata),
                Delta::Deleted { last } if doubts => graph.lost(kind, &last.metadata),
                Delta::Deleted { last } => graph.gone(kind, &last.metadata),
            }));
            if synced && !more && !told.synced {
                effects.push(graph.synced(kind));
                told.synced = true;
            }
        });
        drop((told, doubted));
        if more {
            floor.queues.changes.add(resource.clone());
        } else {
            monitor.done.send_replace(round);
        }
    }

    fn epoch(&self, resource: &Resource) -> u64 {
        self.caches.position(resource).map_or(0, |view| view.epoch)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Resource, Arc<Monitor>>> {
        lock(&self.by_kind)
    }
}

impl Monitor {
    /// Resolves when the graph knows all that the cache shows now. Cancel safe.
    pub(super) async fn told(&self, floor: &Floor) {
        let begun = self.begun.load(Ordering::SeqCst);
        floor.queues.changes.add(self.kind.resource.clone());
        // The sender lives in `self`.
        let _ = self.done.subscribe().wait_for(|done| *done > begun).await;
    }
}

/// Proves that caches from before the term are current: each has to reach the version of a consistent list.
async fn prove(floor: Arc<Floor>, mut unproven: Vec<Resource>, deadline: Instant) {
    let relists = Semaphore::new(RELISTS);
    loop {
        let catch_up = async |resource: Resource| {
            let monitor = floor.monitors.get(&resource)?;
            let caught_up = live_list::catch_up(&floor, &monitor.kind, &relists).await;
            if caught_up.is_ok() {
                floor.step(|graph| graph.proven(&resource));
            }
            caught_up.err().map(|why| (resource, why))
        };
        let failed = join_all(unproven.into_iter().map(catch_up)).await;
        let failed: Vec<_> = failed.into_iter().flatten().collect();
        if failed.is_empty() || floor.halt.is_cancelled() {
            return;
        }
        if floor.now() >= deadline {
            let resources: Vec<_> = failed.iter().map(|(it, why)| format!("{it} ({why})")).collect();
            let resources = resources.join(", ");
            tracing::warn!(
                resources,
                "Removing foreground finalizers with caches that may be stale"
            );
            return;
        }
        floor.env.clock.sleep(PROOF_RETRY).await;
        unproven = failed.into_iter().map(|(resource, _)| resource).collect();
    }
}

/// Queues a kind whenever its cache has moved.
async fn feed(floor: Arc<Floor>, mut moved: watch::Receiver<()>, resource: Resource) {
    loop {
        floor.queues.changes.add(resource.clone());
        if moved.changed().await.is_err() {
            return;
        }
    }
}

/// Says, once each, which kinds have used up their time.
fn name_laggards(floor: &Floor, named: &mut Vec<Resource>) {
    let now = floor.now();
    let laggards = floor.monitors.laggards();
    let kinds = floor.kinds();
    let undescribed = kinds.undescribed().iter().map(|it| &it.resource);
    floor
        .metrics
        .unsynced(laggards.iter().map(|it| &it.resource).chain(undescribed));
    named.retain(|it| laggards.iter().any(|laggard| laggard.resource == *it));
    let before = named.len();
    for Laggard {
        resource,
        status,
        since,
    } in laggards
    {
        if now.duration_since(since) >= PATIENCE && !named.contains(&resource) {
            tracing::warn!(%resource, %status, "Collecting without a kind that cannot be read");
            named.push(resource);
        }
    }
    if named.len() > before {
        floor.monitors.sync_errors.inc();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
