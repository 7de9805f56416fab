use proptest::prelude::*;

use super::*;
use crate::cache::told::{Told, kinds, object};
use crate::object::{Meta, MetaObject};

const A: Feed = Feed(0);
const B: Feed = Feed(1);
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 3] = ["p", "q", "r"];

fn store() -> Store<MetaObject> {
    Store::new(1, ["app".into()])
}

fn known(name: &str, uid: &str, version: u64) -> Item<MetaObject> {
    Item::Known(object("a", name, uid, version, "o", "x"))
}

fn unknown(name: &str, uid: &str, version: u64) -> Item<MetaObject> {
    Item::Unknown(Identity {
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
    kinds(&store.replace(A, items, v(version)).expect("a newer list"))
}

fn put(store: &mut Store<MetaObject>, item: Item<MetaObject>) -> Vec<String> {
    kinds(&store.put(A, item).expect("a newer event"))
}

fn removed(store: &mut Store<MetaObject>, item: Item<MetaObject>) -> Vec<String> {
    kinds(&store.remove(A, item).expect("a newer event"))
}

/// One of a kind whose unmanaged objects are indexed.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Loose(MetaObject);

impl Object for Loose {
    const INDEX_UNMANAGED: bool = true;

    fn meta(&self) -> &Meta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.0.metadata
    }
}

#[test]
fn what_nobody_manages_is_found_without_looking_at_the_rest() {
    let loose = |namespace: &str, name: &str, version: u64, owner: &str| {
        let mut object = object(namespace, name, name, version, owner, "x");
        if owner.is_empty() {
            object.metadata.owner_references = Box::default();
        }
        Item::Known(Loose(object))
    };
    let mut store: Store<Loose> = Store::new(1, []);
    let mut items: Vec<Item<Loose>> = (0..1000).map(|i| loose("b", &format!("p{i}"), 1, "o")).collect();
    items.extend([
        loose("a", "x", 1, ""),
        loose("b", "y", 1, ""),
        loose("b", "z", 1, ""),
        loose("c", "x", 1, ""),
    ]);
    store.replace(A, items, v(1)).expect("a list");
    let names = |store: &Store<Loose>| {
        let keys = store.indexes.unmanaged("b").expect("an index");
        let looked_at: Vec<String> = keys.map(|key| key.name.to_string()).collect();
        let found: Vec<String> = store
            .unmanaged("b")
            .iter()
            .map(|it| it.meta().name.to_string())
            .collect();
        assert_eq!(looked_at, found);
        found
    };
    assert_eq!(names(&store), ["y", "z"]);
    store.put(A, loose("b", "y", 2, "o")).expect("an event");
    store.put(A, loose("b", "p7", 3, "")).expect("an event");
    assert_eq!(names(&store), ["p7", "z"]);
    store.remove(A, loose("b", "z", 4, "")).expect("an event");
    assert_eq!(names(&store), ["p7"]);
}

#[test]
fn index_that_is_added_later_holds_old_and_new_objects() {
    let labelled = |name: &str, version: u64| Item::Known(object("a", name, name, version, "o", "x"));
    let mut store: Store<MetaObject> = Store::new(1, []);
    store
        .replace(A, [labelled("p", 1), labelled("q", 2)], v(2))
        .expect("a list");
    assert!(!store.has_index("app") && store.labelled("app", "x").len() == 2);
    store.index("app".into());
    store.put(A, labelled("r", 3)).expect("an event");
    store.remove(A, labelled("p", 4)).expect("an event");
    let indexed: Vec<_> = store.indexes.labelled("app", "x").expect("an index").collect();
    assert_eq!(indexed, [&at("q"), &at("r")]);
    store.index("app".into());
    assert_eq!(store.labelled("app", "x").len(), 2);
}

#[test]
fn a_relist_shows_what_vanished_then_the_rest_in_its_order() {
    let mut store = store();
    assert_eq!(
        replaced(
            &mut store,
            vec![known("q", "1", 2), known("p", "2", 3), known("r", "3", 4)],
            5
        ),
        ["initial q 1@2", "initial p 2@3", "initial r 3@4"]
    );
    assert_eq!(
        replaced(
            &mut store,
            vec![known("s", "6", 9), known("r", "5", 8), known("q", "1", 7)],
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
            vec![known("q", "1", 7), known("r", "5", 8), known("s", "6", 9)],
            11
        ),
        [""; 0]
    );
    assert_eq!(store.version(), v(11));
}

#[test]
fn an_old_list_changes_nothing_unless_the_storage_was_restored() {
    let mut store = store();
    replaced(&mut store, vec![known("p", "1", 5), known("q", "2", 6)], 9);
    let refused = store.replace(A, [known("p", "1", 4)], v(8));
    assert_eq!(
        refused.map(|_| ()),
        Err(Backwards {
            reached: v(9),
            offered: v(8)
        })
    );
    assert_eq!((store.len(), store.version(), store.epoch()), (2, v(9), 0));

    // The same version can be of another state now.
    let deltas = store.reset(A, [known("p", "1", 4), known("q", "2", 6)], v(8));
    assert_eq!(kinds(&deltas), ["updated p 1@4", "updated q 2@6"]);
    assert_eq!((store.version(), store.epoch()), (v(8), 1));
    store.reset(A, [], Version::none());
    assert!(store.version().is_none(), "what was reached before means nothing");
}

#[test]
fn what_cannot_be_read_deletes_nothing() {
    let nameless = Item::Known(object("a", "", "9", 6, "o", "x"));
    let anonymous = Item::Known(object("a", "n", "", 6, "o", "x"));
    for unreadable in [Item::Unreadable, nameless, anonymous, unknown("n", "", 6)] {
        let mut store = store();
        replaced(&mut store, vec![known("p", "1", 2), known("q", "2", 3)], 5);
        assert_eq!(
            replaced(&mut store, vec![known("q", "3", 6), unreadable], 7),
            ["deleted q 2@3", "added q 3@6"],
            "another uid is proof enough"
        );
        assert_eq!(store.len(), 2);
        assert_eq!(
            replaced(&mut store, vec![known("q", "3", 6)], 8),
            ["deleted p 1@2"]
        );
    }
}

#[test]
fn an_event_without_identity_is_refused() {
    let mut store = store();
    replaced(&mut store, vec![known("p", "1", 2)], 5);
    assert_eq!(
        store.put(A, Item::Unreadable).map(|_| ()),
        Err(Refused::Unreadable)
    );
    assert_eq!(
        store.remove(A, Item::Unreadable).map(|_| ()),
        Err(Refused::Unreadable)
    );
    assert_eq!((store.len(), store.version()), (1, v(5)));
}

#[test]
fn nothing_goes_back() {
    let mut store = store();
    replaced(&mut store, vec![known("p", "1", 4)], 5);
    for refused in [
        store.put(A, known("p", "1", 4)),
        store.remove(A, known("p", "1", 4)),
    ] {
        assert!(matches!(refused, Err(Refused::Backwards(_))));
    }
    assert!(store.bookmark(A, v(4)).is_err());
    assert_eq!(put(&mut store, known("q", "2", 5)), ["added q 2@5"]);
    assert_eq!(put(&mut store, known("q", "2", 5)), [""; 0], "seen before");
    store.bookmark(A, v(8)).expect("a newer bookmark");
    // Not a version that means anything: neither refused, nor progress.
    store.bookmark(A, Version::from("0")).expect("no order");
    assert_eq!(store.version(), v(8));
}

#[test]
fn list_replaces_objects_of_a_newer_version() {
    // The storage was restored from a backup, and its revision was raised above all earlier ones.
    let mut store = store();
    replaced(&mut store, vec![known("p", "1", 7), known("q", "2", 5)], 8);
    assert_eq!(
        replaced(&mut store, vec![known("p", "1", 3), known("q", "2", 5)], 1000),
        ["updated p 1@3"]
    );
    assert_eq!(store.identity(&at("p")), Some((&"1".into(), &v(3))));
    assert_eq!(store.epoch(), 0, "versions still compare");
    assert_eq!(put(&mut store, known("p", "1", 1001)), ["updated p 1@1001"]);
}

#[test]
fn list_without_a_version_adds_and_updates_but_deletes_nothing() {
    let mut store = store();
    let list = |store: &mut Store<MetaObject>, items: Vec<Item<MetaObject>>| {
        kinds(&store.replace(A, items, Version::none()).expect("a list"))
    };
    assert_eq!(list(&mut store, vec![known("p", "1", 2)]), ["initial p 1@2"]);
    assert!(store.filled());
    assert_eq!(
        list(&mut store, vec![known("q", "2", 3)]),
        ["added q 2@3"],
        "the list may be older than p"
    );
    assert_eq!(store.len(), 2);
    assert_eq!(removed(&mut store, known("p", "1", 4)), ["deleted p 1@4"]);
    assert_eq!(replaced(&mut store, vec![], 5), ["deleted q 2@3"]);
}

#[test]
fn a_former_object_does_not_come_back_in_the_place_of_a_later_one() {
    // The later pages of a list show more than its version says; what the watch tells again is old.
    let mut store = store();
    replaced(&mut store, vec![known("p", "2", 15)], 10);
    assert!(store.put(A, known("p", "1", 12)).is_err());
    assert!(store.remove(A, known("p", "1", 14)).is_err());
    assert_eq!(put(&mut store, known("p", "2", 15)), [""; 0]);
    assert_eq!(
        put(&mut store, known("p", "3", 16)),
        ["deleted p 2@15", "added p 3@16"]
    );
}

#[test]
fn what_a_restored_list_does_not_show_has_no_version() {
    let mut store = store();
    replaced(
        &mut store,
        vec![known("p", "1", 1000), known("q", "2", 1001)],
        1002,
    );
    assert_eq!(kinds(&store.reset(A, [Item::Unreadable], v(5))), [""; 0]);
    assert_eq!((store.len(), store.unknown_len()), (2, 2));
    assert_eq!(
        put(&mut store, known("p", "3", 6)),
        ["deleted p 1@1000", "added p 3@6"]
    );
    assert_eq!(removed(&mut store, known("q", "2", 7)), ["deleted q 2@7"]);
}

#[test]
fn the_version_advances_although_nothing_else_changed() {
    let mut store = store();
    replaced(&mut store, vec![known("p", "1", 4)], 5);
    assert_eq!(put(&mut store, known("p", "1", 6)), ["updated p 1@6"]);
    assert_eq!(store.identity(&at("p")), Some((&"1".into(), &v(6))));
    assert_eq!(store.version(), v(6));
}

#[test]
fn a_deletion_has_the_final_state_and_everything_under_the_name_is_gone() {
    let mut store = store();
    replaced(&mut store, vec![known("p", "1", 4), known("q", "2", 4)], 5);
    assert_eq!(removed(&mut store, known("p", "1", 6)), ["deleted p 1@6"]);
    assert_eq!(
        removed(&mut store, known("p", "1", 7)),
        ["deleted p 1@7"],
        "not known, but told"
    );
    assert_eq!(
        removed(&mut store, known("q", "3", 8)),
        ["deleted q 2@4", "deleted q 3@8"]
    );
    assert_eq!((store.len(), store.bytes(), store.version()), (0, 0, v(8)));
}

#[test]
fn the_unknown_stay_present_until_they_are_gone() {
    let mut store = store();
    replaced(
        &mut store,
        vec![known("p", "1", 2), unknown("q", "2", 3), unknown("r", "3", 3)],
        5,
    );
    assert_eq!(put(&mut store, unknown("p", "1", 6)), [""; 0]);
    assert_eq!(store.get(&at("p")), Lookup::Unknown);
    assert_eq!(store.get(&at("q")), Lookup::Unknown);
    assert_eq!(store.get(&at("x")), Lookup::Absent);
    assert_eq!((store.len(), store.unknown_len()), (1, 3));
    assert_eq!(store.unknown().map(|key| &*key.name).collect::<Vec<_>>(), NAMES);
    assert_eq!(
        store.owned(&"o".into()).len(),
        1,
        "the last known state is still there"
    );

    let again = || vec![unknown("p", "1", 6), unknown("q", "2", 3), unknown("r", "3", 3)];
    assert_eq!(replaced(&mut store, again(), 7), [""; 0]);
    assert_eq!(
        replaced(
            &mut store,
            vec![known("p", "1", 6), known("q", "2", 3), unknown("r", "3", 3)],
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
    // The state of this version is known already.
    assert_eq!(replaced(&mut store, again(), 9), [""; 0]);
    assert_eq!(store.unknown_len(), 1);
    assert_eq!(
        removed(&mut store, unknown("r", "3", 10)),
        [""; 0],
        "no state was ever known"
    );
    assert_eq!(removed(&mut store, unknown("p", "1", 11)), ["deleted p 1@6"]);
    assert_eq!(
        put(&mut store, unknown("q", "4", 12)),
        ["deleted q 2@3"],
        "another one, whatever it is"
    );
    assert_eq!(replaced(&mut store, vec![], 13), [""; 0]);
    assert_eq!((store.unknown_len(), store.len()), (0, 0));
}

#[test]
fn a_store_has_come_as_far_as_its_last_feed() {
    let mut store = Store::<MetaObject>::new(2, []);
    store.replace(A, [], v(5)).expect("the first list");
    store.bookmark(B, v(2)).expect("an event");
    assert!(!store.filled() && store.version().is_none());
    store.replace(B, [], v(3)).expect("the first list");
    assert!(store.filled());
    assert_eq!((store.version(), store.reached(A)), (v(3), &v(5)));
    store.bookmark(B, v(9)).expect("newer");
    assert_eq!(store.version(), v(5));
    // A feed that was relisted later than the others is not at its first list.
    let added = store.replace(A, [known("p", "1", 6)], v(6)).expect("newer");
    assert_eq!(kinds(&added), ["added p 1@6"]);
}

#[test]
fn objects_are_packed() {
    let mut store = store();
    replaced(&mut store, vec![known("p", "1", 2), known("q", "2", 3)], 5);
    put(&mut store, known("p", "1", 6));
    let [p, q] = &store.iter().collect::<Vec<_>>()[..] else {
        panic!("two objects");
    };
    assert_eq!(p.metadata.annotations.iter().count(), 0);
    assert!(p.metadata.namespace.shares(&q.metadata.namespace));
    let (key, _) = store.entries.first_key_value().expect("an object");
    assert!(key.name.shares(&p.metadata.name) && key.namespace.shares(&p.metadata.namespace));
}

#[test]
fn objects_are_found_by_what_they_have_in_common() {
    let mut store = Store::new(2, ["app".into()]);
    let items = |namespace, uid| [Item::Known(object(namespace, "p", uid, 1, "o", uid))];
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
        .put(A, Item::Known(object("a", "q", "3", 2, "", "x")))
        .expect("an event");
    assert_eq!(names(store.owned(&"".into())), [""; 0], "no uid is nobody's");
    for label in ["app", "other"] {
        assert_eq!(names(store.labelled(label, "2")), ["b/p"], "{label}");
        assert_eq!(names(store.labelled(label, "3")), [""; 0], "{label}");
    }
    assert_eq!(names(store.labelled("none", "2")), [""; 0]);
}

/// An object of a namespace, of any form, as a list or an event may show it.
#[derive(Clone, Debug)]
struct Shown {
    name: usize,
    uid: usize,
    owner: usize,
    label: usize,
    form: usize,
    /// How far its version is from the one that was reached.
    step: i64,
}

#[derive(Clone, Debug)]
enum Op {
    Put(Shown),
    Remove(Shown),
    Bookmark(i64),
    Replace(Vec<Shown>, i64),
    Reset(Vec<Shown>, i64),
}

fn shown() -> impl Strategy<Value = Shown> {
    (
        0..3_usize,
        0..2_usize,
        0..3_usize,
        0..3_usize,
        0..12_usize,
        -1..3_i64,
    )
        .prop_map(|(name, uid, owner, label, form, step)| Shown {
            name,
            uid,
            owner,
            label,
            form,
            step,
        })
}

fn op() -> impl Strategy<Value = Op> {
    let list = || prop::collection::vec(shown(), 0..4);
    prop_oneof![
        6 => shown().prop_map(Op::Put),
        4 => shown().prop_map(Op::Remove),
        1 => (-1..3_i64).prop_map(Op::Bookmark),
        3 => (list(), -1..4_i64).prop_map(|(list, step)| Op::Replace(list, step)),
        1 => (list(), -4..4_i64).prop_map(|(list, step)| Op::Reset(list, step)),
    ]
}

impl Shown {
    fn item(&self, namespace: &str, reached: i64) -> Item<MetaObject> {
        let version = reached.saturating_add(self.step).max(1).unsigned_abs();
        let (name, uid) = (NAMES[self.name], ["1", "2"][self.uid]);
        match self.form {
            0 => Item::Unreadable,
            1..=3 => Item::Unknown(Identity {
                key: Key::new(namespace, name),
                uid: uid.into(),
                version: v(version),
            }),
            _ => {
                let (owner, label) = (["", "o", "p"][self.owner], ["x", "y", "z"][self.label]);
                Item::Known(object(namespace, name, uid, version, owner, label))
            }
        }
    }
}

fn identities(store: &Store<MetaObject>) -> BTreeMap<Key, (Uid, Version)> {
    let identity = |(key, entry): (&Key, &Entry<MetaObject>)| {
        (
            key.clone(),
            (entry.state.uid().clone(), entry.state.version().clone()),
        )
    };
    store.entries.iter().map(identity).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn all_that_is_derived_agrees_after_any_history(history in prop::collection::vec((0..2_usize, op()), 0..30)) {
        let mut store = Store::<MetaObject>::new(2, ["app".into()]);
        let mut told = Told::default();
        for (feed, op) in history {
            let (feed, namespace) = (Feed(feed), NAMESPACES[feed]);
            let reached = store.reached(feed).gauge();
            let to = |step: i64| v((reached + step).max(1).unsigned_abs());
            let items = |list: &[Shown]| list.iter().map(|it| it.item(namespace, reached)).collect::<Vec<_>>();
            let before = (identities(&store), store.version(), store.reached(feed).clone());
            let mut listed = None;
            let deltas = match &op {
                Op::Put(shown) => store.put(feed, shown.item(namespace, reached)).ok(),
                Op::Remove(shown) => store.remove(feed, shown.item(namespace, reached)).ok(),
                Op::Bookmark(step) => store.bookmark(feed, to(*step)).ok().map(|()| Vec::new()),
                Op::Replace(list, step) => {
                    listed = Some(list);
                    store.replace(feed, items(list), to(*step)).ok()
                }
                Op::Reset(list, step) => {
                    listed = Some(list);
                    Some(store.reset(feed, items(list), to(*step)))
                }
            };
            let after = identities(&store);

            let Some(deltas) = deltas else {
                prop_assert_eq!(before, (after, store.version(), store.reached(feed).clone()));
                continue;
            };
            for delta in &deltas {
                told.apply(delta);
            }
            prop_assert!(told.holds(store.iter()));

            if !matches!(op, Op::Reset(..)) {
                prop_assert!(store.reached(feed).has_reached(&before.2) || before.2.is_none());
                prop_assert!(store.version().has_reached(&before.1) || before.1.is_none());
                // A list replaces an object by an older one, an event does not.
                for (key, (uid, version)) in before.0.iter().filter(|_| listed.is_none()) {
                    // None: what is known is from before a restore.
                    let now = after.get(key).filter(|now| now.0 == *uid && !version.is_none());
                    prop_assert!(now.is_none_or(|now| now.1.has_reached(version)), "{} went back", key);
                }
            }
            if let Some(list) = listed {
                let readable = list.iter().filter(|it| it.form > 0);
                let mut keys: BTreeSet<Key> =
                    readable.map(|it| Key::new(namespace, NAMES[it.name])).collect();
                if list.iter().any(|it| it.form == 0) {
                    keys.extend(before.0.keys().filter(|key| key.namespace == namespace).cloned());
                }
                let there: BTreeSet<Key> = after.keys().filter(|key| key.namespace == namespace).cloned().collect();
                prop_assert_eq!(there, keys);
            }

            let mut indexes = Indexes::new(["app".into()], false);
            for object in store.iter() {
                indexes.change(&object.metadata.key(), None, Some(&object.metadata));
            }
            prop_assert_eq!(&store.indexes, &indexes);
            prop_assert_eq!(store.bytes(), store.iter().map(|it| it.bytes()).sum::<usize>());
            prop_assert_eq!(store.len(), store.iter().count());
            let unknown = |entry: &&Entry<MetaObject>| matches!(entry.state, State::Unknown(_));
            prop_assert_eq!(store.unknown_len(), store.entries.values().filter(unknown).count());
            prop_assert_eq!(store.unknown_len(), store.unknown().count());
        }
    }
}
