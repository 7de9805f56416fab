//! Lists and relists.

use futures_util::{StreamExt as _, stream};
use steersman_harness::{Cluster, Test, test};
use steersman_manager::cache::{Cache, CachePositions as _};

use super::{Fixture, MAPS, Map, line};
use crate::process::{soon, until};

pub fn tests() -> Vec<Test> {
    vec![
        test!(many_objects_are_read_page_by_page),
        test!(requests_for_a_resource_share_one_list_and_watch),
        test!(relist_without_changes_sends_no_delta),
    ]
}

async fn many_objects_are_read_page_by_page(c: Cluster) {
    let f = Fixture::new(&c).await;
    let names: Vec<String> = (0..1001).map(|n| format!("m-{n:04}")).collect();
    stream::iter(&names)
        .for_each_concurrent(16, async |name| drop(f.create(name).await))
        .await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    soon("the cache syncs", maps.synced()).await;
    let found: Vec<String> = maps
        .all()
        .iter()
        .map(|map| map.metadata.name.to_string())
        .collect();
    assert!(found == names, "{} of {}: {found:?}", found.len(), names.len());
    assert_eq!(f.process.requests("LIST"), 3, "of 500 each");
    // The watch continues at the version of the first page.
    let mut changes = maps.subscribe();
    for name in &names {
        assert_eq!(line(&mut changes).await, format!("Found {name}"));
    }
    f.delete("m-0999").await;
    assert_eq!(line(&mut changes).await, "Deleted m-0999");
    assert_eq!(maps.len(), 1000);
}

async fn requests_for_a_resource_share_one_list_and_watch(c: Cluster) {
    let f = Fixture::new(&c).await;
    let one: Cache<Map> = f.caches.of(&MAPS);
    let two: Cache<Map> = f.caches.of(&MAPS);
    let three = f.caches.metadata(&MAPS);
    let mut changes = [one.subscribe(), two.subscribe()];
    let mut metadata = three.subscribe();
    soon("the cache syncs", f.caches.synced()).await;
    // The watch delivers later objects.
    f.create("a").await;
    for changes in &mut changes {
        assert_eq!(line(changes).await, "Added a");
    }
    assert_eq!(line(&mut metadata).await, "Added a");
    assert_eq!(f.process.requests("LIST"), 1);
    assert_eq!(f.process.requests("WATCH"), 1);
    assert_eq!(f.process.all_requests(), 2);
}

async fn relist_without_changes_sends_no_delta(c: Cluster) {
    let f = Fixture::new(&c).await;
    for name in ["a", "b"] {
        f.create(name).await;
    }
    let maps: Cache<Map> = f.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    assert_eq!(line(&mut changes).await, "Found a");
    assert_eq!(line(&mut changes).await, "Found b");
    let started = || f.caches.position(&MAPS).and_then(|view| view.list_started_at);
    let first = started();
    assert!(first.is_some());
    maps.relist();
    until("the second list is applied", || started() > first).await;
    assert_eq!(f.process.requests("LIST"), 2);
    assert_eq!(f.process.sum("test_cache_relists_total", "reason=\"asked\""), 1);
    // The first delta is the next change.
    f.update("a", "other").await;
    assert_eq!(line(&mut changes).await, "Updated a");
    assert!(changes.is_empty());
}
