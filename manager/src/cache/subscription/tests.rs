use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::cache::shared_store::{AnyStore as _, SharedStore};
use crate::cache::store::Store;
use crate::cache::tests::{Replica, brief, object};
use crate::cache::wire::{self, Item};
use crate::object::{MetaObject, Resource, Version};

const PARTITION: Partition = Partition(0);
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// A store that publishes its deltas.
struct Source {
    store: Store<MetaObject>,
    publisher: Publisher<MetaObject>,
    version: u64,
}

fn source() -> (Source, Subscription<MetaObject>) {
    let (publisher, subscription) = channel();
    let mut store = Store::new(1);
    store
        .replace(PARTITION, [], Version::from("1"))
        .expect("the first list");
    let version = 1;
    (
        Source {
            store,
            publisher,
            version,
        },
        subscription,
    )
}

impl Source {
    fn item(&mut self, name: &str, uid: &str, owner: &str) -> Item<MetaObject> {
        self.version += 1;
        Item::Decoded(object("a", name, uid, self.version, owner, "x"))
    }

    fn put(&mut self, name: &str, uid: &str, owner: &str) -> bool {
        let item = self.item(name, uid, owner);
        let deltas = self.store.put(PARTITION, item).expect("a newer event");
        deltas.into_iter().all(|delta| self.publisher.publish(delta))
    }

    fn remove(&mut self, name: &str, uid: &str, owner: &str) -> bool {
        let item = self.item(name, uid, owner);
        let deltas = self.store.remove(PARTITION, item).expect("a newer event");
        deltas.into_iter().all(|delta| self.publisher.publish(delta))
    }
}

fn received(subscription: &mut Subscription<MetaObject>) -> Vec<String> {
    let deltas: Vec<_> = std::iter::from_fn(|| subscription.try_next()).collect();
    brief(&deltas)
}

#[test]
fn changes_of_one_key_are_merged() {
    let (mut source, mut subscription) = source();
    source.put("p", "1", "o");
    assert_eq!(received(&mut subscription), ["added p 1@2"]);
    for _ in 0..100 {
        source.put("p", "1", "o");
    }
    source.put("q", "2", "o");
    source.put("q", "2", "o");
    assert_eq!(subscription.len(), 2);
    assert_eq!(received(&mut subscription), ["updated p 1@102", "added q 2@104"]);
    assert!(subscription.is_empty());
}

#[test]
fn replaced_object_is_a_delete_and_an_add() {
    let (mut source, mut subscription) = source();
    source.put("p", "1", "o");
    received(&mut subscription);
    source.put("p", "1", "o");
    source.put("p", "2", "o");
    source.put("p", "3", "o");
    assert_eq!(received(&mut subscription), ["deleted p 1@2", "added p 3@5"]);
}

#[test]
fn readded_object_that_was_not_received_is_a_delete_and_an_add() {
    let (mut source, mut subscription) = source();
    source.put("p", "1", "o");
    source.remove("p", "1", "o");
    assert_eq!(subscription.len(), 1);
    source.put("p", "1", "o");
    assert_eq!(received(&mut subscription), ["deleted p 1@3", "added p 1@4"]);
}

#[test]
fn delete_after_a_change_of_owner_reports_both_owners() {
    let (mut source, mut subscription) = source();
    source.put("p", "1", "a");
    received(&mut subscription);
    source.put("p", "1", "b");
    source.remove("p", "1", "b");
    assert_eq!(received(&mut subscription), ["updated p 1@4", "deleted p 1@4"]);
}

/// Returns the owners in the pending deltas, in order.
fn owners(subscription: &mut Subscription<MetaObject>) -> Vec<String> {
    let deltas = std::iter::from_fn(|| subscription.try_next());
    let mut owners: Vec<String> = Vec::new();
    for delta in deltas {
        let owner = |object: &MetaObject| object.metadata.controller().map(|it| it.uid.to_string());
        if let Delta::Updated { old, .. } = &delta {
            owners.extend(owner(old));
        }
        owners.extend(owner(delta.latest()));
    }
    owners.dedup();
    owners
}

#[test]
fn every_owner_in_between_is_reported() {
    // A controller may have read that state from the cache.
    let (mut source, mut subscription) = source();
    source.put("p", "1", "a");
    assert_eq!(owners(&mut subscription), ["a"]);
    for owner in ["b", "b", "c", "b", "c"] {
        source.put("p", "1", owner);
    }
    assert_eq!(owners(&mut subscription), ["a", "b", "c"]);
    source.put("q", "2", "a");
    source.put("q", "2", "b");
    assert_eq!(owners(&mut subscription), ["a", "b"]);
    source.put("r", "3", "a");
    source.put("r", "3", "b");
    source.remove("r", "3", "b");
    assert_eq!(owners(&mut subscription), ["a", "b"]);
    source.put("s", "4", "a");
    source.remove("s", "4", "a");
    source.put("s", "5", "b");
    source.remove("s", "5", "b");
    source.put("s", "6", "c");
    assert_eq!(owners(&mut subscription), ["a", "b", "c"]);
    source.remove("s", "6", "c");
    source.put("s", "6", "d");
    source.remove("s", "6", "e");
    assert_eq!(owners(&mut subscription), ["c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_subscriber_is_woken() {
    let (mut source, mut subscription) = source();
    let clock = crate::env::Clock::system();
    let publish = async {
        clock.sleep(Duration::from_secs(1)).await;
        source.put("p", "1", "o");
        clock.sleep(Duration::from_secs(1)).await;
        drop(source);
    };
    let take = async {
        let start = clock.now();
        let first = subscription.next().await.expect("a change");
        assert_eq!(clock.now() - start, Duration::from_secs(1));
        (brief(&[first]), subscription.next().await.is_none())
    };
    let ((), (first, ended)) = tokio::join!(publish, take);
    assert_eq!(first, ["added p 1@2"]);
    assert!(ended);
}

#[tokio::test]
async fn published_changes_are_received_before_the_end() {
    let (mut source, mut subscription) = source();
    source.put("p", "1", "o");
    source.put("q", "2", "o");
    drop(source);
    assert!(subscription.next().await.is_some());
    assert!(subscription.next().await.is_some());
    assert!(subscription.next().await.is_none());
}

#[test]
fn publish_to_a_dropped_subscription_returns_false() {
    let (mut source, subscription) = source();
    assert!(source.put("p", "1", "o"));
    drop(subscription);
    assert!(!source.put("p", "1", "o"));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(usize, usize, usize),
    Remove(usize, usize),
    Take(usize),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn received_deltas_result_in_the_store(history in prop::collection::vec(prop_oneof![
        4 => (0..3_usize, 0..2_usize, 0..3_usize).prop_map(|(name, uid, owner)| Op::Put(name, uid, owner)),
        3 => (0..3_usize, 0..2_usize).prop_map(|(name, uid)| Op::Remove(name, uid)),
        2 => (0..4_usize).prop_map(Op::Take),
    ], 0..40)) {
        const NAMES: [&str; 3] = ["p", "q", "r"];
        const UIDS: [&str; 2] = ["1", "2"];
        let (mut source, mut subscription) = source();
        let mut replica = Replica::default();
        for op in history {
            match op {
                Op::Put(name, uid, owner) => prop_assert!(source.put(NAMES[name], UIDS[uid], NAMES[owner])),
                Op::Remove(name, uid) => prop_assert!(source.remove(NAMES[name], UIDS[uid], "deleted")),
                Op::Take(count) => {
                    for delta in std::iter::from_fn(|| subscription.try_next()).take(count) {
                        replica.apply(&delta);
                    }
                }
            }
            let half = usize::from(!subscription.next.is_empty());
            prop_assert!(subscription.len() - half <= NAMES.len());
        }
        while let Some(delta) = subscription.try_next() {
            replica.apply(&delta);
        }
        prop_assert!(replica.equals(source.store.iter()));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize, usize, usize),
    Remove(usize, usize),
    Take(usize),
    Subscribe,
}

fn deliver(shared: &SharedStore<MetaObject>, kind: &str, object: &serde_json::Value) {
    let line = serde_json::json!({"type": kind, "object": object}).to_string();
    match wire::event(&line).expect("an event") {
        wire::Event::Put(item) => shared.put(PARTITION, &item),
        wire::Event::Deleted(item) => shared.remove(PARTITION, &item),
        _ => unreachable!("only changes of objects are delivered"),
    }
}

fn list(shared: &Arc<SharedStore<MetaObject>>, version: u64, items: &[serde_json::Value]) {
    let version = version.to_string();
    let version = Version::from(&*version);
    let mut staged = Arc::clone(shared)
        .begin_list(PARTITION, version, false)
        .expect("a newer list");
    for item in items {
        staged.add(&wire::item(&item.to_string()).expect("an item"));
    }
    staged.commit();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn scan_and_changes_result_in_the_store(
        listed in 0..8_usize,
        early in any::<bool>(),
        history in prop::collection::vec(prop_oneof![
            4 => (0..8_usize, 0..2_usize, 0..3_usize).prop_map(|(name, uid, owner)| Step::Put(name, uid, owner)),
            3 => (0..8_usize, 0..2_usize).prop_map(|(name, uid)| Step::Remove(name, uid)),
            3 => (0..4_usize).prop_map(Step::Take),
            1 => Just(Step::Subscribe),
        ], 0..40),
    ) {
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let shared = Arc::new(SharedStore::<MetaObject>::new(&PODS, 1));
        let mut version = 1;
        let item = |name: usize, uid: usize, owner: usize, version: u64| serde_json::json!({"metadata": {
            "namespace": "a", "name": NAMES[name], "uid": format!("{name}-{uid}"),
            "resourceVersion": version.to_string(),
            "ownerReferences": [{"uid": format!("o{owner}"), "controller": true}]}});
        let mut subscribers: Vec<(Subscription<MetaObject>, Replica)> = Vec::new();
        if early {
            subscribers.push((shared.subscribe(), Replica::default()));
        }
        let items: Vec<_> = (0..listed).map(|name| item(name, 0, 0, 1)).collect();
        list(&shared, version, &items);
        for step in history {
            version += 1;
            match step {
                Step::Put(name, uid, owner) => deliver(&shared, "MODIFIED", &item(name, uid, owner, version)),
                Step::Remove(name, uid) => deliver(&shared, "DELETED", &item(name, uid, 0, version)),
                Step::Take(count) => {
                    for (subscription, replica) in &mut subscribers {
                        for delta in std::iter::from_fn(|| subscription.try_next()).take(count) {
                            replica.apply(&delta);
                        }
                    }
                }
                Step::Subscribe => subscribers.push((shared.subscribe(), Replica::default())),
            }
        }
        for (subscription, replica) in &mut subscribers {
            let mut pending = subscription.len();
            while let Some(delta) = subscription.try_next() {
                replica.apply(&delta);
                pending = subscription.len();
            }
            prop_assert_eq!(pending, 0);
            prop_assert!(shared.read(|store| replica.equals(store.iter())));
        }
    }
}

#[test]
fn initial_state_is_not_queued_unless_it_changes() {
    let shared = Arc::new(SharedStore::<MetaObject>::new(&PODS, 1));
    let item = |name: &str, owner: &str, version: u64| {
        serde_json::json!({"metadata": {
        "name": name, "uid": name, "resourceVersion": version.to_string(),
        "ownerReferences": [{"uid": owner, "controller": true}]}})
    };
    let mut early = shared.subscribe();
    assert!(early.is_empty());
    list(&shared, 5, &["p", "q", "r"].map(|name| item(name, "a", 1)));
    let mut late = shared.subscribe();
    for subscription in [&mut early, &mut late] {
        assert_eq!(subscription.shared.backlog(|backlog| backlog.pending.len()), 0);
        assert_eq!(subscription.len(), 3);
        assert_eq!(
            brief(&[subscription.try_next().expect("an object")]),
            ["initial p p@1"]
        );
    }
    deliver(&shared, "MODIFIED", &item("p", "a", 6));
    deliver(&shared, "MODIFIED", &item("r", "b", 7));
    for subscription in [&mut early, &mut late] {
        assert_eq!(subscription.len(), 3);
        // Both owners of r are reported.
        let expected = ["initial q q@1", "updated p p@6", "added r r@1", "updated r r@7"];
        assert_eq!(received(subscription), expected);
        assert!(subscription.is_empty());
    }
}

#[test]
fn ended_subscriptions_are_dropped_without_a_change() {
    let shared = Arc::new(SharedStore::<MetaObject>::new(&PODS, 1));
    list(&shared, 5, &[]);
    let ended = shared.subscribe();
    let state = Arc::downgrade(&ended.shared);
    drop(ended);
    let _open = shared.subscribe();
    assert!(state.upgrade().is_none());
}
