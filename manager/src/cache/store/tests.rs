mod randomized;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::cache::tests::{Replica, brief, object};
use crate::cache::wire::ItemIdentity;
use crate::object::{Meta, MetaObject, Text};

const A: Partition = Partition(0);
const B: Partition = Partition(1);
const NAMES: [&str; 3] = ["p", "q", "r"];

impl<T: Object> Store<T> {
    pub(in crate::cache) fn replace(
        &mut self,
        partition: Partition,
        items: impl IntoIterator<Item = Item<T>>,
        version: Version,
    ) -> Result<Vec<Delta<T>>, Stale> {
        let list = self.begin_list(partition, version, false)?;
        Ok(self.list(list, items))
    }

    fn reset(
        &mut self,
        partition: Partition,
        items: impl IntoIterator<Item = Item<T>>,
        version: Version,
    ) -> Vec<Delta<T>> {
        let list = self.begin_list(partition, version, true);
        self.list(list.expect("a restore"), items)
    }

    fn list(&mut self, mut list: StagedList<T>, items: impl IntoIterator<Item = Item<T>>) -> Vec<Delta<T>> {
        for item in items {
            let identity = match &item {
                Item::Decoded(object) => {
                    Some(object.meta()).map(|it| (it.key(), &it.uid, &it.resource_version))
                }
                Item::Undecodable(it) => Some((it.key.clone(), &it.uid, &it.version)),
                Item::Unidentified => None,
            };
            let identity = identity.map(|(key, uid, version)| ItemIdentity {
                namespace: Cow::Owned(key.namespace.to_string()),
                name: Cow::Owned(key.name.to_string()),
                uid: uid.clone(),
                version: version.clone(),
            });
            if identity.is_none_or(|identity| !self.is_unchanged(&list, &identity)) {
                self.stage(&mut list, item);
            }
        }
        let partition = list.partition();
        let deltas = self.commit(list);
        deltas.unwrap_or_else(|| {
            let initial = |new: &Arc<T>| Delta::Added {
                new: new.clone(),
                initial: true,
            };
            self.after(partition, None).map(initial).collect()
        })
    }
}

fn store() -> Store<MetaObject> {
    Store::new(1)
}

fn decoded(name: &str, uid: &str, version: u64) -> Item<MetaObject> {
    Item::Decoded(object("a", name, uid, version, "o", "x"))
}

fn undecodable(name: &str, uid: &str, version: u64) -> Item<MetaObject> {
    Item::Undecodable(Identity {
        key: Key::new("a", name),
        uid: uid.into(),
        version: v(version),
    })
}

fn v(version: u64) -> Version {
    Version::from(&*version.to_string())
}

fn at(name: &str) -> Key {
    Key::new("a", name)
}

fn replaced(store: &mut Store<MetaObject>, items: Vec<Item<MetaObject>>, version: u64) -> Vec<String> {
    brief(&store.replace(A, items, v(version)).expect("a newer list"))
}

fn put(store: &mut Store<MetaObject>, item: Item<MetaObject>) -> Vec<String> {
    brief(&store.put(A, item).expect("a newer event"))
}

fn removed(store: &mut Store<MetaObject>, item: Item<MetaObject>) -> Vec<String> {
    brief(&store.remove(A, item).expect("a newer event"))
}

/// An object type with an index of unmanaged objects.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Unmanaged(MetaObject);

impl Object for Unmanaged {
    const INDEX_UNMANAGED: bool = true;

    fn meta(&self) -> &Meta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.0.metadata
    }
}

#[test]
fn unmanaged_objects_are_found_by_index() {
    let item = |namespace: &str, name: &str, version: u64, owner: &str| {
        let mut object = object(namespace, name, name, version, owner, "x");
        if owner.is_empty() {
            object.metadata.owner_references = Arc::default();
        }
        Item::Decoded(Unmanaged(object))
    };
    let mut store: Store<Unmanaged> = Store::new(1);
    let mut items: Vec<Item<Unmanaged>> = (0..1000).map(|i| item("b", &format!("p{i}"), 1, "o")).collect();
    items.extend([
        item("a", "x", 1, ""),
        item("b", "y", 1, ""),
        item("b", "z", 1, ""),
        item("c", "x", 1, ""),
    ]);
    store.replace(A, items, v(1)).expect("a list");
    let names = |store: &Store<Unmanaged>| {
        let indexed = store.indexes.unmanaged("b").expect("an index").iter();
        let indexed: Vec<String> = indexed.map(|it| it.meta().name.to_string()).collect();
        let found: Vec<String> = store
            .unmanaged("b")
            .iter()
            .map(|it| it.meta().name.to_string())
            .collect();
        assert_eq!(indexed, found);
        found
    };
    assert_eq!(names(&store), ["y", "z"]);
    store.put(A, item("b", "y", 2, "o")).expect("an event");
    store.put(A, item("b", "p7", 3, "")).expect("an event");
    assert_eq!(names(&store), ["p7", "z"]);
    store.remove(A, item("b", "z", 4, "")).expect("an event");
    assert_eq!(names(&store), ["p7"]);
}

fn by_label(label: &'static str) -> IndexFunction<MetaObject> {
    Box::new(move |object| object.metadata.labels.get(label).cloned().into_iter().collect())
}

#[test]
fn index_added_later_includes_old_and_new_objects() {
    let labelled =
        |name: &str, version: u64, label: &str| Item::Decoded(object("a", name, name, version, "o", label));
    let mut store: Store<MetaObject> = Store::new(1);
    store
        .replace(A, [labelled("p", 1, "x"), labelled("q", 2, "x")], v(2))
        .expect("a list");
    let id = store.add_index(by_label("app"));
    let names = |store: &Store<MetaObject>, value: &str| -> Vec<String> {
        let found = store.indexed(id, value);
        found.iter().map(|it| it.metadata.name.to_string()).collect()
    };
    assert_eq!(names(&store, "x"), ["p", "q"]);
    store.put(A, labelled("r", 3, "x")).expect("an event");
    store.remove(A, labelled("p", 4, "x")).expect("an event");
    store.put(A, labelled("q", 5, "y")).expect("an event");
    assert_eq!(
        (names(&store, "x"), names(&store, "y")),
        (vec!["r".to_owned()], vec!["q".to_owned()])
    );
    store.put(A, labelled("q", 6, "y")).expect("an event");
    assert_eq!(
        store.indexed(id, "y")[0].metadata.resource_version,
        v(6),
        "the latest state"
    );
    store.remove_index(id);
    assert_eq!(names(&store, "x"), [""; 0]);
}

#[test]
fn object_is_indexed_by_every_value_of_a_function() {
    let mut store: Store<MetaObject> = Store::new(1);
    let labels = |object: &MetaObject| {
        object
            .metadata
            .labels
            .iter()
            .map(|(label, _)| label.clone())
            .collect()
    };
    let id = store.add_index(Box::new(labels));
    replaced(&mut store, vec![decoded("p", "1", 2)], 2);
    for label in ["app", "other"] {
        assert_eq!(store.indexed(id, label).len(), 1, "{label}");
    }
    removed(&mut store, decoded("p", "1", 3));
    assert!(store.indexed(id, "app").is_empty() && store.indexed(id, "other").is_empty());
}

#[test]
fn relist_deletes_missing_objects_first_then_applies_the_list_in_order() {
    let mut store = store();
    assert_eq!(
        replaced(
            &mut store,
            vec![decoded("q", "1", 2), decoded("p", "2", 3), decoded("r", "3", 4)],
            5
        ),
        ["initial p 2@3", "initial q 1@2", "initial r 3@4"]
    );
    assert_eq!(
        replaced(
            &mut store,
            vec![decoded("s", "6", 9), decoded("r", "5", 8), decoded("q", "1", 7)],
            10
        ),
        [
            "deleted r 3@4",
            "deleted p 2@3",
            "added s 6@9",
            "added r 5@8",
            "updated q 1@7"
        ]
    );
    assert_eq!(
        replaced(
            &mut store,
            vec![decoded("q", "1", 7), decoded("r", "5", 8), decoded("s", "6", 9)],
            11
        ),
        [""; 0]
    );
    assert_eq!(store.version(), v(11));
}

#[test]
fn older_list_is_rejected_unless_the_storage_was_restored() {
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 5), decoded("q", "2", 6)], 9);
    let rejected = store.replace(A, [decoded("p", "1", 4)], v(8));
    assert_eq!(
        rejected.map(|_| ()),
        Err(Stale {
            reached: v(9),
            offered: v(8)
        })
    );
    assert_eq!((store.len(), store.version()), (2, v(9)));

    // After a restore, the same version may have another state.
    let deltas = store.reset(A, [decoded("p", "1", 4), decoded("q", "2", 6)], v(8));
    assert_eq!(brief(&deltas), ["updated p 1@4", "updated q 2@6"]);
    assert_eq!(store.version(), v(8));
    store.reset(A, [], Version::none());
    assert!(
        store.version().is_none(),
        "versions from before the restore are not comparable"
    );
}

#[test]
fn list_with_an_unidentified_item_deletes_nothing() {
    let nameless = Item::Decoded(object("a", "", "9", 6, "o", "x"));
    let anonymous = Item::Decoded(object("a", "n", "", 6, "o", "x"));
    for unidentified in [Item::Unidentified, nameless, anonymous, undecodable("n", "", 6)] {
        let mut store = store();
        replaced(&mut store, vec![decoded("p", "1", 2), decoded("q", "2", 3)], 5);
        assert_eq!(
            replaced(&mut store, vec![decoded("q", "3", 6), unidentified], 7),
            ["deleted q 2@3", "added q 3@6"],
            "another uid proves the deletion"
        );
        assert_eq!(store.len(), 2);
        assert_eq!(
            replaced(&mut store, vec![decoded("q", "3", 6)], 8),
            ["deleted p 1@2"]
        );
    }
}

#[test]
fn items_of_a_dropped_page_are_not_applied() {
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 5)], 5);
    let mut list = store.begin_list(A, v(3), true).expect("a restore");
    store.stage(&mut list, decoded("q", "2", 2));
    list.end_page();
    store.stage(&mut list, decoded("p", "1", 3));
    list.drop_page();
    store.stage(&mut list, decoded("p", "1", 3));
    list.end_page();
    let deltas = store.commit(list).expect("not the first list");
    assert_eq!(brief(&deltas), ["added q 2@2", "updated p 1@3"]);
}

#[test]
fn unidentified_item_counts_only_on_a_complete_page() {
    for (complete, deleted) in [(false, &["deleted p 1@2"][..]), (true, &[])] {
        let mut store = store();
        replaced(&mut store, vec![decoded("p", "1", 2)], 5);
        let mut list = store.begin_list(A, v(6), false).expect("a newer list");
        store.stage(&mut list, Item::Unidentified);
        if complete {
            list.end_page();
        }
        list.drop_page();
        assert_eq!(brief(&store.commit(list).expect("not the first list")), deleted);
    }
}

#[test]
fn event_without_identity_is_rejected() {
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 2)], 5);
    assert_eq!(
        store.put(A, Item::Unidentified).map(|_| ()),
        Err(Rejected::Unidentified)
    );
    assert_eq!(
        store.remove(A, Item::Unidentified).map(|_| ()),
        Err(Rejected::Unidentified)
    );
    assert_eq!((store.len(), store.version()), (1, v(5)));
}

#[test]
fn older_events_are_rejected() {
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 4)], 5);
    for rejected in [
        store.put(A, decoded("p", "1", 4)),
        store.remove(A, decoded("p", "1", 4)),
    ] {
        assert!(matches!(rejected, Err(Rejected::Stale(_))));
    }
    assert!(store.bookmark(A, v(4)).is_err());
    assert_eq!(put(&mut store, decoded("q", "2", 5)), ["added q 2@5"]);
    assert_eq!(put(&mut store, decoded("q", "2", 5)), [""; 0], "repeated event");
    store.bookmark(A, v(8)).expect("a newer bookmark");
    // An incomparable version is neither rejected nor progress.
    store.bookmark(A, Version::from("0")).expect("no order");
    assert_eq!(store.version(), v(8));
}

#[test]
fn list_replaces_objects_of_a_newer_version() {
    // The storage was restored from a backup, and its revision was raised above all earlier ones.
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 7), decoded("q", "2", 5)], 8);
    assert_eq!(
        replaced(&mut store, vec![decoded("p", "1", 3), decoded("q", "2", 5)], 1000),
        ["updated p 1@3"]
    );
    assert_eq!(store.identity(&at("p")), Some((&"1".into(), &v(3))));
    assert_eq!(put(&mut store, decoded("p", "1", 1001)), ["updated p 1@1001"]);
}

#[test]
fn list_without_a_version_adds_and_updates_but_deletes_nothing() {
    let mut store = store();
    let list = |store: &mut Store<MetaObject>, items: Vec<Item<MetaObject>>| {
        brief(&store.replace(A, items, Version::none()).expect("a list"))
    };
    assert_eq!(list(&mut store, vec![decoded("p", "1", 2)]), ["initial p 1@2"]);
    assert!(store.is_synced());
    assert_eq!(
        list(&mut store, vec![decoded("q", "2", 3)]),
        ["added q 2@3"],
        "the list may be older than p"
    );
    assert_eq!(store.len(), 2);
    assert_eq!(removed(&mut store, decoded("p", "1", 4)), ["deleted p 1@4"]);
    assert_eq!(replaced(&mut store, vec![], 5), ["deleted q 2@3"]);
}

#[test]
fn earlier_object_does_not_replace_a_later_one() {
    // Later pages of a list may be newer than its version; the watch then repeats older events.
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "2", 15)], 10);
    assert!(store.put(A, decoded("p", "1", 12)).is_err());
    assert!(store.remove(A, decoded("p", "1", 14)).is_err());
    assert_eq!(put(&mut store, decoded("p", "2", 15)), [""; 0]);
    assert_eq!(
        put(&mut store, decoded("p", "3", 16)),
        ["deleted p 2@15", "added p 3@16"]
    );
}

#[test]
fn object_missing_in_an_incomplete_restored_list_has_no_version() {
    let mut store = store();
    replaced(
        &mut store,
        vec![decoded("p", "1", 1000), decoded("q", "2", 1001)],
        1002,
    );
    assert_eq!(brief(&store.reset(A, [Item::Unidentified], v(5))), [""; 0]);
    assert_eq!((store.len(), store.undecodable_len()), (2, 2));
    assert_eq!(
        put(&mut store, decoded("p", "3", 6)),
        ["deleted p 1@1000", "added p 3@6"]
    );
    assert_eq!(removed(&mut store, decoded("q", "2", 7)), ["deleted q 2@7"]);
}

#[test]
fn version_advances_without_other_changes() {
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 4)], 5);
    assert_eq!(put(&mut store, decoded("p", "1", 6)), ["updated p 1@6"]);
    assert_eq!(store.identity(&at("p")), Some((&"1".into(), &v(6))));
    assert_eq!(store.version(), v(6));
}

#[test]
fn delete_event_deletes_every_object_of_the_name() {
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 4), decoded("q", "2", 4)], 5);
    assert_eq!(removed(&mut store, decoded("p", "1", 6)), ["deleted p 1@6"]);
    assert_eq!(
        removed(&mut store, decoded("p", "1", 7)),
        ["deleted p 1@7"],
        "not cached, but published"
    );
    assert_eq!(
        removed(&mut store, decoded("q", "3", 8)),
        ["deleted q 2@4", "deleted q 3@8"]
    );
    assert_eq!((store.len(), store.bytes(), store.version()), (0, 0, v(8)));
}

#[test]
fn undecodable_object_stays_until_it_is_deleted() {
    let mut store = store();
    replaced(
        &mut store,
        vec![
            decoded("p", "1", 2),
            undecodable("q", "2", 3),
            undecodable("r", "3", 3),
        ],
        5,
    );
    assert_eq!(put(&mut store, undecodable("p", "1", 6)), [""; 0]);
    assert_eq!(store.get(&at("p")), Lookup::Undecodable);
    assert_eq!(store.get(&at("q")), Lookup::Undecodable);
    assert_eq!(store.get(&at("x")), Lookup::Absent);
    assert_eq!((store.len(), store.undecodable_len()), (1, 3));
    assert_eq!(store.undecodable().map(|key| key.name).collect::<Vec<_>>(), NAMES);
    assert_eq!(
        store.owned(&"o".into()).len(),
        1,
        "the last decoded state is kept"
    );

    let again = || {
        vec![
            undecodable("p", "1", 6),
            undecodable("q", "2", 3),
            undecodable("r", "3", 3),
        ]
    };
    assert_eq!(replaced(&mut store, again(), 7), [""; 0]);
    assert_eq!(
        replaced(
            &mut store,
            vec![
                decoded("p", "1", 6),
                decoded("q", "2", 3),
                undecodable("r", "3", 3)
            ],
            8
        ),
        ["updated p 1@6", "added q 2@3"]
    );
    assert_eq!(
        store
            .get(&at("p"))
            .present()
            .map(|it| it.metadata.resource_version.clone()),
        Some(v(6))
    );
    // This version was decoded before.
    assert_eq!(replaced(&mut store, again(), 9), [""; 0]);
    assert_eq!(store.undecodable_len(), 1);
    assert_eq!(
        removed(&mut store, undecodable("r", "3", 10)),
        [""; 0],
        "no state was ever decoded"
    );
    assert_eq!(removed(&mut store, undecodable("p", "1", 11)), ["deleted p 1@6"]);
    assert_eq!(
        put(&mut store, undecodable("q", "4", 12)),
        ["deleted q 2@3"],
        "another object, decoded or not"
    );
    assert_eq!(replaced(&mut store, vec![], 13), [""; 0]);
    assert_eq!((store.undecodable_len(), store.len()), (0, 0));
}

#[test]
fn version_of_a_store_is_that_of_its_slowest_partition() {
    let mut store = Store::<MetaObject>::new(2);
    store.replace(A, [], v(5)).expect("the first list");
    store.bookmark(B, v(2)).expect("an event");
    assert!(!store.is_synced() && store.version().is_none());
    store.replace(B, [], v(3)).expect("the first list");
    assert!(store.is_synced());
    assert_eq!((store.version(), store.reached(A)), (v(3), &v(5)));
    store.bookmark(B, v(9)).expect("newer");
    assert_eq!(store.version(), v(5));
    // A relist of one partition is not initial.
    let added = store.replace(A, [decoded("p", "1", 6)], v(6)).expect("newer");
    assert_eq!(brief(&added), ["added p 1@6"]);
}

#[test]
fn store_has_no_version_if_its_partitions_are_not_comparable() {
    let mut store = Store::<MetaObject>::new(2);
    let text = |text: &str| Version::from(text);
    for partition in [A, B] {
        store.replace(partition, [], text("x")).expect("the first list");
    }
    assert_eq!(store.version(), text("x"));
    store.bookmark(A, text("y")).expect("an event");
    assert_eq!((store.reached(A), store.version()), (&text("y"), Version::none()));
    store.bookmark(A, Version::none()).expect("an event");
    assert_eq!(store.reached(A), &text("y"));
}

#[test]
fn objects_are_compacted() {
    let mut store = store();
    replaced(&mut store, vec![decoded("p", "1", 2), decoded("q", "2", 3)], 5);
    put(&mut store, decoded("p", "1", 6));
    let [p, q] = &store.iter().collect::<Vec<_>>()[..] else {
        panic!("two objects");
    };
    assert_eq!(store.bytes(), p.bytes() + q.bytes());
    assert_eq!(p.metadata.annotations.iter().count(), 0);
    assert!(p.metadata.namespace.shares(&q.metadata.namespace));
    let (namespace, name, _) = store.entries.iter().next().expect("an object");
    assert!(name.shares(&p.metadata.name) && namespace.shares(&p.metadata.namespace));
}

#[test]
fn objects_are_found_by_namespace_and_owner() {
    let mut store = Store::new(2);
    let items = |namespace, uid| [Item::Decoded(object(namespace, "p", uid, 1, "o", uid))];
    store.replace(A, items("a", "1"), v(1)).expect("the first list");
    store.replace(B, items("b", "2"), v(1)).expect("the first list");
    let names = |objects: Vec<Arc<MetaObject>>| -> Vec<String> {
        objects.iter().map(|it| it.metadata.key().to_string()).collect()
    };
    assert_eq!(names(store.in_namespace("a")), ["a/p"]);
    assert_eq!(names(store.in_namespace("")), [""; 0]);
    assert_eq!(names(store.owned(&"o".into())), ["a/p", "b/p"]);
    assert_eq!(names(store.owned(&"x".into())), [""; 0]);
    store
        .put(A, Item::Decoded(object("a", "q", "3", 2, "", "x")))
        .expect("an event");
    assert_eq!(
        names(store.owned(&"".into())),
        [""; 0],
        "an empty uid matches no owner"
    );
}
