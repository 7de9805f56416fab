//! Lists of large objects over a slow connection, in virtual time.

use steersman_manager::client::ListQuery;

use super::large_objects::{LargeObjects, SMALL};
use super::*;

const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const MILLISECOND: Duration = Duration::from_millis(1);

/// A projection without the large field.
#[derive(Debug, PartialEq, Deserialize)]
struct Set {
    metadata: Meta,
}

impl Object for Set {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

struct Large {
    env: Env,
    server: LargeObjects,
    transport: Transport,
    caches: Caches,
    _tasks: TaskSet,
}

/// 100 objects of 120 kB. A second transfers 40 kB, and the deadline of a page ten objects.
fn large() -> Large {
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
    let server = LargeObjects::new(&env.clock, 100, 2);
    server.change(|it| it.delay = 1500 * MILLISECOND);
    let registry = Registry::new("test");
    let transport = Transport::from_service(server.clone(), "large", "test", &env.clock, &registry);
    let transport = transport.expect("a transport");
    let caches = Caches::new(&env, transport.reader("cache", None), Scope::default(), &registry);
    Large {
        caches: caches.expect("caches"),
        env,
        server,
        transport,
        _tasks: tasks,
    }
}

impl Large {
    /// Waits until a cache is synced. Returns the continue token and limit of each list.
    async fn synced<T: Object>(&self, cache: &Cache<T>, seconds: u64) -> Vec<(usize, usize)> {
        let synced = cache.synced();
        let synced = self.env.clock.timeout(Duration::from_secs(seconds), synced).await;
        assert!(synced.is_some(), "{:?}", self.lists());
        self.lists()
    }

    fn lists(&self) -> Vec<(usize, usize)> {
        self.server.change(|it| std::mem::take(&mut it.lists))
    }
}

#[tokio::test(start_paused = true)]
async fn page_that_is_too_slow_is_requested_with_a_quarter_of_the_objects() {
    let f = large();
    let sets: Cache<Set> = f.caches.of(&SETS);
    let maps: Cache<Set> = f.caches.of(&MAPS);
    // Lists of other resources do not wait.
    let mut lists = f.synced(&maps, 1).await;
    assert_eq!(maps.len(), SMALL);
    lists.extend(f.synced(&sets, 600).await);
    let pages: Vec<_> = (0..100).step_by(7).map(|first| (first, 7)).collect();
    assert_eq!(lists.split_off(3), pages);
    assert_eq!(lists, [(0, 500), (0, 125), (0, 31)]);
    assert_eq!(sets.len(), 100);
    // The size of the pages is remembered.
    sets.relist();
    f.env.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.lists(), pages);
    // It recovers while pages take less than 7.5 s.
    f.server.change(|it| it.delay = 500 * MILLISECOND);
    let recovering = [(0, 7)]
        .into_iter()
        .chain((7..100).step_by(14).map(|first| (first, 14)));
    let recovered = (0..100).step_by(14).map(|first| (first, 14));
    for pages in [recovering.collect::<Vec<_>>(), recovered.collect()] {
        sets.relist();
        f.env.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.lists(), pages);
    }
    f.server.change(|it| it.delay = Duration::ZERO);
    for pages in [&[(0, 14), (14, 28), (42, 56), (98, 112)][..], &[(0, 112)]] {
        sets.relist();
        f.env.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.lists(), pages);
    }
}

#[tokio::test(start_paused = true)]
async fn list_continues_after_a_page_that_was_too_slow() {
    let f = large();
    f.server.change(|it| (it.count, it.small) = (600, 500));
    let sets: Cache<Set> = f.caches.of(&SETS);
    let mut changes = sets.subscribe();
    let mut lists = f.synced(&sets, 600).await;
    let pages: Vec<_> = (500..600).step_by(7).map(|first| (first, 7)).collect();
    assert_eq!(lists.split_off(4), pages);
    assert_eq!(lists, [(0, 500), (500, 500), (500, 125), (500, 31)]);
    // The objects of the incomplete pages were not added twice.
    let added = std::iter::from_fn(|| changes.try_next()).count();
    assert_eq!((added, sets.len()), (600, 600));
    // In a relist, an incomplete page changes nothing either.
    f.server
        .change(|it| (it.count, it.delay) = (599, 3000 * MILLISECOND));
    sets.relist();
    f.env.clock.sleep(Duration::from_mins(30)).await;
    let deltas: Vec<_> = std::iter::from_fn(|| changes.try_next()).collect();
    assert_eq!(deltas.len(), 1, "{deltas:?}");
    assert!(matches!(&deltas[0], Delta::Deleted { last } if last.metadata.name == "set-0599"));
    assert_eq!(sets.len(), 599);
}

#[tokio::test(start_paused = true)]
async fn list_whose_token_expires_starts_over_with_the_smaller_pages() {
    let f = large();
    f.server
        .change(|it| (it.count, it.small, it.expired) = (520, 500, Some(507)));
    let sets: Cache<Set> = f.caches.of(&SETS);
    let mut lists = f.synced(&sets, 900).await;
    let retried = lists.split_off(6);
    assert_eq!(
        lists,
        [(0, 500), (500, 500), (500, 125), (500, 31), (500, 7), (507, 7)]
    );
    assert_eq!(retried[0], (0, 7));
    assert_eq!(sets.len(), 520);
}

#[tokio::test(start_paused = true)]
async fn list_of_many_slow_pages_delays_no_other_list_and_has_contact() {
    let f = large();
    // A page takes 15 s if it has one object, and arrives too late otherwise.
    f.server
        .change(|it| (it.chunks, it.delay) = (1, 15_000 * MILLISECOND));
    let resources = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p",
    ]
    .map(|group| Resource::namespaced(group, "v1", "replicasets", "ReplicaSet"));
    let slow = resources.map(|resource| f.caches.of::<Set>(&resource));
    f.env.clock.sleep(Duration::from_mins(15)).await;
    for cache in &slow {
        assert!(!cache.is_synced());
        let silence = cache.silence().expect("a served resource");
        assert!(silence <= Duration::from_secs(15), "{silence:?}");
    }
    let maps: Cache<Set> = f.caches.of(&MAPS);
    f.synced(&maps, 15).await;
    assert!(slow.iter().all(|it| !it.is_synced()));
}

#[tokio::test(start_paused = true)]
async fn object_that_never_arrives_in_time_is_requested_alone_and_with_backoff() {
    let f = large();
    f.server.change(|it| it.delay = 20 * 1000 * MILLISECOND);
    let sets: Cache<Set> = f.caches.of(&SETS);
    f.env.clock.sleep(Duration::from_mins(20)).await;
    assert!(!sets.is_synced());
    let lists = f.lists();
    let limits: Vec<_> = lists.iter().map(|(_, limit)| *limit).collect();
    assert_eq!(limits[..5], [500, 125, 31, 7, 1]);
    assert!(limits[5..].iter().all(|limit| *limit == 1), "{limits:?}");
    // Each takes 30 s, and the backoff grows to 30 s, plus as much jitter.
    assert!((17..=30).contains(&limits.len()), "{} lists", limits.len());
    f.server.change(|it| it.delay = 10 * MILLISECOND);
    f.synced(&sets, 120).await;
    assert_eq!(sets.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn typed_and_metadata_lists_continue_after_a_page_that_was_too_slow() {
    use futures_util::TryStreamExt as _;
    use k8s_openapi::api::apps::v1::ReplicaSet;

    let f = large();
    f.server.change(|it| (it.count, it.small) = (520, 500));
    let reader = f.transport.reader("user", None);
    let query = ListQuery {
        limit: 500,
        ..ListQuery::default()
    };
    let keep = |meta: &Meta| meta.name != "set-0007";
    let all = reader.list_all_metadata(&SETS, "", query, keep).await;
    let names: Vec<_> = { all.expect("a list") }
        .into_iter()
        .map(|it| it.name.to_string())
        .collect();
    let expected: Vec<_> = (0..520)
        .filter(|n| *n != 7)
        .map(|n| format!("set-{n:04}"))
        .collect();
    assert_eq!(names, expected);
    let lists = [
        (0, 500),
        (500, 500),
        (500, 125),
        (500, 31),
        (500, 7),
        (507, 7),
        (514, 7),
    ];
    assert_eq!(f.lists(), lists);

    let sets: Vec<ReplicaSet> = { reader.api::<ReplicaSet>() }
        .list("", ListQuery::default())
        .try_collect()
        .await
        .expect("a list");
    assert_eq!(sets.len(), 520);
    assert_eq!(f.lists(), lists);
}
