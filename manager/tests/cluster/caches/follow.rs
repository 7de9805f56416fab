//! From a change on the server to what a subscriber is told of it.

use coxswain_manager::cache::{Cache, Delta, Lookup};
use coxswain_manager::object::Uid;
use coxswain_tests::{Cluster, Test, test};

use super::{Bed, MAPS, Map, line, told, uid, version};
use crate::process::{soon, until};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(creates_updates_and_deletes_are_followed),
        test!(a_late_subscriber_is_told_the_present_state_and_then_each_change),
        test!(another_object_under_the_same_name_is_a_deletion_and_an_addition),
        test!(the_version_follows_what_is_written),
    ]
}

async fn creates_updates_and_deletes_are_followed(c: Cluster) {
    let bed = Bed::new(&c).await;
    bed.create("old").await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    assert_eq!(line(&mut changes).await, "Found old");
    assert!(maps.is_synced());

    let made = bed.create("new").await;
    let added = told(&mut changes).await;
    assert!(matches!(&added, Delta::Added { initial: false, .. }), "{added:?}");
    assert_eq!(added.latest().metadata.uid, Uid::from(uid(&made)));
    assert_eq!(added.latest().metadata.resource_version, version(&made));
    assert_eq!(maps.get(&bed.key("new")), Lookup::Present(added.latest().clone()));

    bed.update("new", "other").await;
    let Delta::Updated { old, new } = told(&mut changes).await else {
        panic!("no update");
    };
    assert_eq!((&*old.data["k"], &*new.data["k"]), ("v", "other"));

    bed.delete("new").await;
    let Delta::Deleted { last } = told(&mut changes).await else {
        panic!("no deletion");
    };
    assert_eq!(last.data["k"], "other", "the last known state");
    assert_eq!(maps.get(&bed.key("new")), Lookup::Absent);
    assert_eq!(maps.all().len(), 1);
}

async fn a_late_subscriber_is_told_the_present_state_and_then_each_change(c: Cluster) {
    let bed = Bed::new(&c).await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    soon("the cache is filled", maps.synced()).await;
    let mut early = maps.subscribe();
    for name in ["a", "b", "c"] {
        bed.create(name).await;
        assert_eq!(line(&mut early).await, format!("Added {name}"));
    }
    bed.update("a", "other").await;
    assert_eq!(line(&mut early).await, "Updated a");
    bed.delete("b").await;
    assert_eq!(line(&mut early).await, "Deleted b");

    let mut late = maps.subscribe();
    bed.create("d").await;
    let mut lines = Vec::new();
    for _ in 0..3 {
        lines.push(line(&mut late).await);
    }
    assert_eq!(lines, ["Found a", "Found c", "Added d"]);
    assert_eq!(line(&mut early).await, "Added d");
    assert!(early.is_empty() && late.is_empty());
}

async fn another_object_under_the_same_name_is_a_deletion_and_an_addition(c: Cluster) {
    let bed = Bed::new(&c).await;
    let first = bed.create("a").await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    assert_eq!(line(&mut changes).await, "Found a");
    bed.delete("a").await;
    let second = bed.create("a").await;
    assert_ne!(uid(&first), uid(&second));
    let gone = told(&mut changes).await;
    assert!(matches!(&gone, Delta::Deleted { .. }), "{gone:?}");
    assert_eq!(gone.latest().metadata.uid, Uid::from(uid(&first)));
    let added = told(&mut changes).await;
    assert!(matches!(&added, Delta::Added { .. }), "{added:?}");
    assert_eq!(added.latest().metadata.uid, Uid::from(uid(&second)));
    assert!(changes.is_empty());
}

async fn the_version_follows_what_is_written(c: Cluster) {
    let bed = Bed::new(&c).await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    assert!(maps.version().is_none(), "nothing was read yet");
    soon("the cache is filled", maps.synced()).await;
    let begun = maps.version();
    let made = bed.create("a").await;
    assert!(version(&made).has_reached(&begun));
    until("the create is reached", || {
        maps.version().has_reached(&version(&made))
    })
    .await;
    let changed = bed.update("a", "other").await;
    until("the update is reached", || {
        maps.version().has_reached(&version(&changed))
    })
    .await;
    let reached = maps.version();
    bed.delete("a").await;
    // Its version is that of the deletion, which no answer has told.
    until("the deletion is reached", || maps.version() > reached).await;
    assert!(maps.is_empty());
}
