//! Caches include the writes of a previous leader and of the process itself.

use std::collections::BTreeMap;

use steersman_harness::{Cluster, Test, fixtures, test};
use steersman_manager::cache::{Cache, Lookup, PendingWrites, Readiness, Write};
use steersman_manager::object::{MetaObject, Resource, Uid};

use super::{Fixture, MAPS, Map, uid, version};
use crate::process::{soon, until};

pub fn tests() -> Vec<Test> {
    vec![
        test!(earlier_writes_are_cached_after_catch_up),
        test!(catch_up_waits_for_the_version_of_the_previous_leader),
        test!(idle_resource_catches_up),
        test!(own_writes_are_waited_for),
    ]
}

async fn earlier_writes_are_cached_after_catch_up(c: Cluster) {
    let f = Fixture::new(&c).await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    soon("the cache syncs", maps.synced()).await;
    for n in 0..20 {
        let name = format!("m-{n}");
        let made = f.create(&name).await;
        let unserved = soon("the caches catch up", f.caches.catch_up(&BTreeMap::new())).await;
        assert_eq!(unserved, []);
        let seen = maps.get(&f.key(&name)).present();
        let seen = seen.unwrap_or_else(|| panic!("{name} was there before"));
        assert_eq!(seen.metadata.resource_version, version(&made));
        f.delete(&name).await;
        soon("the caches catch up", f.caches.catch_up(&BTreeMap::new())).await;
        assert_eq!(
            maps.get(&f.key(&name)),
            Lookup::Absent,
            "{name} was deleted before"
        );
    }
}

async fn catch_up_waits_for_the_version_of_the_previous_leader(c: Cluster) {
    let f = Fixture::new(&c).await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    soon("the cache syncs", maps.synced()).await;
    for n in 0..10 {
        let name = format!("m-{n}");
        let made = f.create(&name).await;
        let left = BTreeMap::from([("configmaps".to_owned(), version(&made))]);
        soon("the cache catches up", f.caches.catch_up(&left)).await;
        assert!(maps.get(&f.key(&name)).present().is_some(), "{name}");
    }
}

async fn idle_resource_catches_up(c: Cluster) {
    let f = Fixture::new(&c).await;
    let sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    let idle: Cache<MetaObject> = f.caches.of(&sets);
    soon("the cache syncs", idle.synced()).await;
    // Its version is unrelated to this resource.
    let before = idle.version();
    let made = f.create("a").await;
    assert!(!before.has_reached(&version(&made)));
    soon("the cache catches up", f.caches.catch_up(&BTreeMap::new())).await;
    assert!(
        idle.version().has_reached(&version(&made)),
        "{:?} {made:#}",
        idle.version()
    );
}

async fn own_writes_are_waited_for(c: Cluster) {
    let f = Fixture::new(&c).await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    soon("the cache syncs", maps.synced()).await;
    let written = PendingWrites::default();
    let owner = f.key("owner");
    let clock = &f.process.env.clock;
    for n in 0..10 {
        let name = format!("m-{n}");
        let path = fixtures::core(&f.ns, "configmaps");
        let made = c.api().post(&path, fixtures::config_map(&name)).await.expect(201);
        let write = Write {
            object: f.key(&name),
            uid: Uid::from(uid(&made)),
            version: version(&made),
            at: clock.now(),
            seen: false,
        };
        written.record(&owner, &MAPS, write, &f.caches);
        until("the write is in the cache", || {
            // In this order: the write is cached when it is ready.
            let ready = written.ready(&owner, clock.now(), &f.caches);
            assert!(!matches!(ready, Readiness::Stuck { .. }), "{ready:?}");
            ready == Readiness::Ready
        })
        .await;
        assert!(maps.get(&f.key(&name)).present().is_some(), "{name}");
    }
}
