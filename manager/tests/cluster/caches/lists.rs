//! Lists: how many there are, how large, and what another one changes.

use coxswain_manager::cache::{Cache, Views as _};
use coxswain_tests::{Cluster, Test, test};
use futures_util::{StreamExt as _, stream};

use super::{Bed, MAPS, Map, line};
use crate::process::{soon, until};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(many_objects_are_read_page_by_page),
        test!(all_who_ask_for_a_resource_share_one_list_and_one_watch),
        test!(another_list_of_what_has_not_changed_tells_nothing),
    ]
}

async fn many_objects_are_read_page_by_page(c: Cluster) {
    let bed = Bed::new(&c).await;
    let names: Vec<String> = (0..1001).map(|n| format!("m-{n:04}")).collect();
    stream::iter(&names)
        .for_each_concurrent(16, async |name| drop(bed.create(name).await))
        .await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    soon("the cache is filled", maps.synced()).await;
    let found: Vec<String> = maps
        .all()
        .iter()
        .map(|map| map.metadata.name.to_string())
        .collect();
    assert!(found == names, "{} of {}: {found:?}", found.len(), names.len());
    assert_eq!(bed.process.requests("LIST"), 3, "of 500 each");
    // The watch goes on from where the first page was read.
    let mut changes = maps.subscribe();
    for name in &names {
        assert_eq!(line(&mut changes).await, format!("Found {name}"));
    }
    bed.delete("m-0999").await;
    assert_eq!(line(&mut changes).await, "Deleted m-0999");
    assert_eq!(maps.len(), 1000);
}

async fn all_who_ask_for_a_resource_share_one_list_and_one_watch(c: Cluster) {
    let bed = Bed::new(&c).await;
    let one: Cache<Map> = bed.caches.of(&MAPS);
    let two: Cache<Map> = bed.caches.of(&MAPS);
    let three = bed.caches.metadata(&MAPS);
    let mut changes = [one.subscribe(), two.subscribe()];
    let mut metadata = three.subscribe();
    soon("the cache is filled", bed.caches.synced()).await;
    // What is created after the list comes by a watch.
    bed.create("a").await;
    for changes in &mut changes {
        assert_eq!(line(changes).await, "Added a");
    }
    assert_eq!(line(&mut metadata).await, "Added a");
    assert_eq!(bed.process.requests("LIST"), 1);
    assert_eq!(bed.process.requests("WATCH"), 1);
    assert_eq!(bed.process.all_requests(), 2);
}

async fn another_list_of_what_has_not_changed_tells_nothing(c: Cluster) {
    let bed = Bed::new(&c).await;
    for name in ["a", "b"] {
        bed.create(name).await;
    }
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    assert_eq!(line(&mut changes).await, "Found a");
    assert_eq!(line(&mut changes).await, "Found b");
    let begun = || bed.caches.view(&MAPS).and_then(|view| view.list_begun_at);
    let first = begun();
    assert!(first.is_some());
    maps.relist();
    until("the second list is in the cache", || begun() > first).await;
    assert_eq!(bed.process.requests("LIST"), 2);
    assert_eq!(
        bed.process
            .sum("coxswain_cache_relists_total", "reason=\"asked\""),
        1
    );
    // The first that is told is the next change.
    bed.update("a", "other").await;
    assert_eq!(line(&mut changes).await, "Updated a");
    assert!(changes.is_empty());
}
