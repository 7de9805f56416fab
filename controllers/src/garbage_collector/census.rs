//! All dependents that owners in one namespace have, whether or not a cache has shown them.
//!
//! For a namespaced owner: a consistent list of every namespaced kind in its namespace. For one that is cluster-scoped, whose
//! dependents can be anywhere: a version of every kind, until the graph has been told everything up to it. A census that is
//! under way may have passed what the next owner asks for; so whoever comes waits for the next one, which serves all who
//! have come until it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coxswain_manager::client::{ClientError, ListQuery};
use coxswain_manager::object::{Meta, Text, Uid};
use futures_util::future::{BoxFuture, Shared, WeakShared, join_all};
use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::floor::Floor;
use super::kinds::Kind;

/// How many objects are asked for at once.
const PAGE: u32 = 500;
/// How many kinds are listed at once.
const LISTS: usize = 8;
/// How often a list is begun again because it expired between two pages.
const EXPIRED: u32 = 3;
/// What a cache may take to show a version by itself; then it is listed.
const BY_ITSELF: Duration = Duration::from_secs(2);
/// What it may take altogether.
const AT_ALL: Duration = Duration::from_secs(10);

type Counting = BoxFuture<'static, Arc<Found>>;

/// The censuses that are under way or wanted, by namespace.
#[derive(Debug, Default)]
pub(super) struct Census(Mutex<BTreeMap<Text, Room>>);

#[derive(Debug, Default)]
struct Room {
    /// One at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The one that has not begun.
    next: Option<Next>,
}

#[derive(Debug)]
struct Next {
    owners: Arc<Mutex<BTreeSet<Uid>>>,
    count: WeakShared<Counting>,
}

/// What a census came to.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Who refers to one of the owners. Empty for cluster-scoped ones: the graph knows.
    pub(super) dependents: Vec<(Arc<Kind>, Meta)>,
    /// How many kinds were counted.
    pub(super) counted: usize,
    /// The kinds that could not be counted, and why.
    pub(super) missing: Vec<(Arc<Kind>, String)>,
}

/// A census of a namespace, or of everything if that is empty, that begins after this call.
pub(super) async fn take(floor: &Arc<Floor>, namespace: &Text, owner: &Uid) -> Arc<Found> {
    let found = floor.census.join(floor, namespace, owner).await;
    floor.census.leave(namespace);
    found
}

impl Census {
    fn join(&self, floor: &Arc<Floor>, namespace: &Text, owner: &Uid) -> Shared<Counting> {
        let mut rooms = self.lock();
        let room = rooms.entry(namespace.clone()).or_default();
        if let Some(next) = &room.next
            && let Some(count) = next.count.upgrade()
        {
            lock(&next.owners).insert(owner.clone());
            return count;
        }
        let owners = Arc::new(Mutex::new(BTreeSet::from([owner.clone()])));
        let (floor, namespace, turn) = (Arc::clone(floor), namespace.clone(), Arc::clone(&room.turn));
        let wanted = Arc::clone(&owners);
        let count = async move {
            let _turn = turn.lock().await;
            let wanted = floor.census.begin(&namespace, &wanted);
            Arc::new(count(&floor, &namespace, &wanted).await)
        };
        let count = count.boxed().shared();
        room.next = count.downgrade().map(|count| Next { owners, count });
        count
    }

    /// Whoever comes from now on waits for the next one.
    fn begin(&self, namespace: &Text, owners: &Mutex<BTreeSet<Uid>>) -> BTreeSet<Uid> {
        let mut rooms = self.lock();
        if let Some(room) = rooms.get_mut(namespace) {
            room.next = None;
        }
        std::mem::take(&mut lock(owners))
    }

    /// Forgets a namespace that nobody counts.
    fn leave(&self, namespace: &Text) {
        let mut rooms = self.lock();
        let idle = |room: &Room| room.next.is_none() && Arc::strong_count(&room.turn) == 1;
        if rooms.get(namespace).is_some_and(idle) {
            rooms.remove(namespace);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Text, Room>> {
        lock(&self.0)
    }
}

async fn count(floor: &Arc<Floor>, namespace: &Text, owners: &BTreeSet<Uid>) -> Found {
    let mut found = count_described(floor, namespace, owners).await;
    let kinds = floor.kinds();
    let undescribed = kinds.undescribed().iter().cloned();
    let why = || "discovery does not describe it".to_owned();
    found.missing.extend(undescribed.map(|kind| (kind, why())));
    found
}

async fn count_described(floor: &Arc<Floor>, namespace: &Text, owners: &BTreeSet<Uid>) -> Found {
    let mut kinds = floor.kinds().collected().to_vec();
    let mut found = Found::default();
    if namespace.is_empty() {
        let caught_up = join_all(kinds.iter().map(|kind| catch_up(floor, kind))).await;
        found.counted = caught_up.iter().filter(|it| it.is_ok()).count();
        let failed = kinds.into_iter().zip(caught_up);
        found.missing = failed.filter_map(|(kind, it)| Some((kind, it.err()?))).collect();
        return found;
    }
    kinds.retain(|kind| kind.resource.namespaced);
    let lists = stream::iter(kinds);
    let lists = lists.map(|kind| async move { (list(floor, &kind, namespace, owners).await, kind) });
    let mut lists = std::pin::pin!(lists.buffered(LISTS));
    while let Some((listed, kind)) = lists.next().await {
        match listed {
            Ok(items) => {
                found.counted += 1;
                let items = items.into_iter().map(|meta| (Arc::clone(&kind), meta));
                found.dependents.extend(items);
            }
            Err(error) => found.missing.push((kind, error.to_string())),
        }
    }
    found
}

/// The objects of a kind that refer to one of the owners.
async fn list(
    floor: &Floor,
    kind: &Kind,
    namespace: &str,
    owners: &BTreeSet<Uid>,
) -> Result<Vec<Meta>, ClientError> {
    let refers = |meta: &Meta| meta.owner_references.iter().any(|it| owners.contains(&it.uid));
    let mut expired = 0;
    let (mut items, mut token) = (Vec::new(), None);
    loop {
        let query = ListQuery {
            limit: PAGE,
            continue_token: token.take(),
            ..ListQuery::default()
        };
        match floor
            .client
            .list_metadata(&kind.resource, namespace, &query)
            .await
        {
            Ok(page) => {
                items.extend(page.items.into_iter().filter(refers));
                match page.continue_token {
                    Some(next) => token = Some(next),
                    None => return Ok(items),
                }
            }
            Err(error) if error.is_gone() && expired < EXPIRED => {
                expired += 1;
                items.clear();
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits until the graph knows all there is of a kind now.
pub(super) async fn catch_up(floor: &Floor, kind: &Kind) -> Result<(), String> {
    let Some(monitor) = floor.monitors.get(&kind.resource) else {
        return Err("it is not watched yet".to_owned());
    };
    let query = ListQuery {
        limit: 1,
        ..ListQuery::default()
    };
    let page = floor.client.list_metadata(&kind.resource, "", &query).await;
    let version = page.map_err(|error| error.to_string())?.version;
    let clock = &floor.env.clock;
    let known = async {
        monitor.cache.reach(&version, BY_ITSELF, clock).await;
        monitor.told(floor).await;
    };
    let in_time = clock.timeout(AT_ALL, known).await;
    in_time.ok_or_else(|| format!("its cache does not get to version {version}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
