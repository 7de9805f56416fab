//! Deltas of changes on the server.

use steersman_harness::{Cluster, Test, test};
use steersman_manager::cache::{Cache, Delta, Lookup};
use steersman_manager::object::Uid;

use super::{Fixture, MAPS, Map, line, next_delta, uid, version};
use crate::process::{soon, until};

pub fn tests() -> Vec<Test> {
    vec![
        test!(creates_updates_and_deletes_are_received),
        test!(late_subscriber_receives_the_current_state_and_each_change),
        test!(replaced_object_is_a_delete_and_an_add),
        test!(version_follows_the_writes),
    ]
}

async fn creates_updates_and_deletes_are_received(c: Cluster) {
    let f = Fixture::new(&c).await;
    f.create("old").await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    assert_eq!(line(&mut changes).await, "Found old");
    assert!(maps.is_synced());

    let made = f.create("new").await;
    let added = next_delta(&mut changes).await;
    assert!(matches!(&added, Delta::Added { initial: false, .. }), "{added:?}");
    assert_eq!(added.latest().metadata.uid, Uid::from(uid(&made)));
    assert_eq!(added.latest().metadata.resource_version, version(&made));
    assert_eq!(maps.get(&f.key("new")), Lookup::Present(added.latest().clone()));

    f.update("new", "other").await;
    let Delta::Updated { old, new } = next_delta(&mut changes).await else {
        panic!("not an update");
    };
    assert_eq!((&*old.data["k"], &*new.data["k"]), ("v", "other"));

    f.delete("new").await;
    let Delta::Deleted { last } = next_delta(&mut changes).await else {
        panic!("not a delete");
    };
    assert_eq!(last.data["k"], "other", "the last known state");
    assert_eq!(maps.get(&f.key("new")), Lookup::Absent);
    assert_eq!(maps.all().len(), 1);
}

async fn late_subscriber_receives_the_current_state_and_each_change(c: Cluster) {
    let f = Fixture::new(&c).await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    soon("the cache syncs", maps.synced()).await;
    let mut early = maps.subscribe();
    for name in ["a", "b", "c"] {
        f.create(name).await;
        assert_eq!(line(&mut early).await, format!("Added {name}"));
    }
    f.update("a", "other").await;
    assert_eq!(line(&mut early).await, "Updated a");
    f.delete("b").await;
    assert_eq!(line(&mut early).await, "Deleted b");

    let mut late = maps.subscribe();
    f.create("d").await;
    let mut lines = Vec::new();
    for _ in 0..3 {
        lines.push(line(&mut late).await);
    }
    assert_eq!(lines, ["Found a", "Found c", "Added d"]);
    assert_eq!(line(&mut early).await, "Added d");
    assert!(early.is_empty() && late.is_empty());
}

async fn replaced_object_is_a_delete_and_an_add(c: Cluster) {
    let f = Fixture::new(&c).await;
    let first = f.create("a").await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    assert_eq!(line(&mut changes).await, "Found a");
    f.delete("a").await;
    let second = f.create("a").await;
    assert_ne!(uid(&first), uid(&second));
    let gone = next_delta(&mut changes).await;
    assert!(matches!(&gone, Delta::Deleted { .. }), "{gone:?}");
    assert_eq!(gone.latest().metadata.uid, Uid::from(uid(&first)));
    let added = next_delta(&mut changes).await;
    assert!(matches!(&added, Delta::Added { .. }), "{added:?}");
    assert_eq!(added.latest().metadata.uid, Uid::from(uid(&second)));
    assert!(changes.is_empty());
}

async fn version_follows_the_writes(c: Cluster) {
    let f = Fixture::new(&c).await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    soon("the cache syncs", maps.synced()).await;
    let begun = maps.version();
    let made = f.create("a").await;
    assert!(version(&made).has_reached(&begun));
    until("the create is reached", || {
        maps.version().has_reached(&version(&made))
    })
    .await;
    let changed = f.update("a", "other").await;
    until("the update is reached", || {
        maps.version().has_reached(&version(&changed))
    })
    .await;
    let reached = maps.version();
    f.delete("a").await;
    // The version of the deletion is not in any response.
    until("the deletion is reached", || maps.version() > reached).await;
    assert!(maps.is_empty());
}
