//! Reading what was written: by a leader before us, or by ourselves.

use std::collections::BTreeMap;

use coxswain_manager::cache::{Cache, Lookup, Readiness, Write, Written};
use coxswain_manager::object::{MetaObject, Resource, Uid};
use coxswain_tests::{Cluster, Test, fixtures, test};

use super::{Bed, MAPS, Map, uid, version};
use crate::process::{soon, until};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(what_somebody_wrote_before_is_seen_after_catching_up),
        test!(a_version_that_was_left_is_waited_for),
        test!(a_kind_that_is_idle_catches_up_too),
        test!(our_own_writes_are_waited_for),
    ]
}

async fn what_somebody_wrote_before_is_seen_after_catching_up(c: Cluster) {
    let bed = Bed::new(&c).await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    soon("the cache is filled", maps.synced()).await;
    for n in 0..20 {
        let name = format!("m-{n}");
        let made = bed.create(&name).await;
        let unserved = soon("the caches catch up", bed.caches.catch_up(&BTreeMap::new())).await;
        assert_eq!(unserved, []);
        let seen = maps.get(&bed.key(&name)).present();
        let seen = seen.unwrap_or_else(|| panic!("{name} was there before"));
        assert_eq!(seen.metadata.resource_version, version(&made));
        bed.delete(&name).await;
        soon("the caches catch up", bed.caches.catch_up(&BTreeMap::new())).await;
        assert_eq!(
            maps.get(&bed.key(&name)),
            Lookup::Absent,
            "{name} was deleted before"
        );
    }
}

async fn a_version_that_was_left_is_waited_for(c: Cluster) {
    let bed = Bed::new(&c).await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    soon("the cache is filled", maps.synced()).await;
    for n in 0..10 {
        let name = format!("m-{n}");
        let made = bed.create(&name).await;
        let left = BTreeMap::from([("configmaps".to_owned(), version(&made))]);
        soon("the cache catches up", bed.caches.catch_up(&left)).await;
        assert!(maps.get(&bed.key(&name)).present().is_some(), "{name}");
    }
}

async fn a_kind_that_is_idle_catches_up_too(c: Cluster) {
    let bed = Bed::new(&c).await;
    let sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    let idle: Cache<MetaObject> = bed.caches.of(&sets);
    soon("the cache is filled", idle.synced()).await;
    // It is at a version that has nothing to do with this one.
    let before = idle.version();
    let made = bed.create("a").await;
    assert!(!before.has_reached(&version(&made)));
    soon("the cache catches up", bed.caches.catch_up(&BTreeMap::new())).await;
    assert!(
        idle.version().has_reached(&version(&made)),
        "{:?} {made:#}",
        idle.version()
    );
}

async fn our_own_writes_are_waited_for(c: Cluster) {
    let bed = Bed::new(&c).await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    soon("the cache is filled", maps.synced()).await;
    let written = Written::default();
    let owner = bed.key("owner");
    let clock = &bed.process.env.clock;
    for n in 0..10 {
        let name = format!("m-{n}");
        let path = fixtures::core(&bed.ns, "configmaps");
        let made = c.api().post(&path, fixtures::config_map(&name)).await.expect(201);
        let write = Write {
            object: bed.key(&name),
            uid: Uid::from(uid(&made)),
            version: version(&made),
            at: clock.now(),
            seen: false,
        };
        written.record(&owner, &MAPS, write, &bed.caches);
        until("the write is in the cache", || {
            // In this order: what makes it ready is there already.
            let ready = written.ready(&owner, clock.now(), &bed.caches);
            assert!(!matches!(ready, Readiness::Stuck { .. }), "{ready:?}");
            ready == Readiness::Ready
        })
        .await;
        assert!(maps.get(&bed.key(&name)).present().is_some(), "{name}");
    }
}
