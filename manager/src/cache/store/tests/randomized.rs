//! A store and its deltas agree after any sequence of lists and events.

use proptest::prelude::*;

use super::*;

const NAMESPACES: [&str; 2] = ["a", "b"];

/// An object of a list or event, decodable or not.
#[derive(Clone, Debug)]
struct Shown {
    name: usize,
    uid: usize,
    owner: usize,
    label: usize,
    form: usize,
    /// The distance of its version from the one that the partition has reached.
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
            0 => Item::Unidentified,
            1..=3 => Item::Undecodable(Identity {
                key: Key::new(namespace, name),
                uid: uid.into(),
                version: v(version),
            }),
            _ => {
                let (owner, label) = (["", "o", "p"][self.owner], ["x", "y", "z"][self.label]);
                Item::Decoded(object(namespace, name, uid, version, owner, label))
            }
        }
    }
}

fn identities(store: &Store<MetaObject>) -> BTreeMap<Key, (Uid, Version)> {
    let identity = |(namespace, name, entry): (&Text, &Text, &Entry<MetaObject>)| {
        (
            Key::new(namespace.clone(), name.clone()),
            (entry.state.uid().clone(), entry.state.version().clone()),
        )
    };
    store.entries.iter().map(identity).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn counts_indexes_and_deltas_are_consistent_after_any_history(history in prop::collection::vec((0..2_usize, op()), 0..30)) {
        let mut store = Store::<MetaObject>::new(2);
        let label = store.add_index(by_label("app"));
        let mut replica = Replica::default();
        for (partition, op) in history {
            let (partition, namespace) = (Partition::new(partition), NAMESPACES[partition]);
            // Events follow the first list.
            if !store.is_listed(partition) && !matches!(op, Op::Replace(..) | Op::Reset(..)) {
                continue;
            }
            let reached = store.reached(partition).gauge();
            let to = |step: i64| v((reached + step).max(1).unsigned_abs());
            let items = |list: &[Shown]| list.iter().map(|it| it.item(namespace, reached)).collect::<Vec<_>>();
            let before = (identities(&store), store.version(), store.reached(partition).clone());
            let mut listed = None;
            let deltas = match &op {
                Op::Put(shown) => store.put(partition, shown.item(namespace, reached)).ok(),
                Op::Remove(shown) => store.remove(partition, shown.item(namespace, reached)).ok(),
                Op::Bookmark(step) => store.bookmark(partition, to(*step)).ok().map(|()| Vec::new()),
                Op::Replace(list, step) => {
                    listed = Some(list);
                    store.replace(partition, items(list), to(*step)).ok()
                }
                Op::Reset(list, step) => {
                    listed = Some(list);
                    Some(store.reset(partition, items(list), to(*step)))
                }
            };
            let after = identities(&store);

            let Some(deltas) = deltas else {
                prop_assert_eq!(before, (after, store.version(), store.reached(partition).clone()));
                continue;
            };
            for delta in &deltas {
                replica.apply(delta);
            }
            prop_assert!(replica.equals(store.iter()));

            if !matches!(op, Op::Reset(..)) {
                prop_assert!(store.reached(partition).has_reached(&before.2) || before.2.is_none());
                prop_assert!(store.version().has_reached(&before.1) || before.1.is_none());
                // A list replaces an object by an older one, an event does not.
                for (key, (uid, version)) in before.0.iter().filter(|_| listed.is_none()) {
                    // An empty version is from before a restore.
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

            for owner in ["", "o", "p"] {
                let is_owned = |it: &&Arc<MetaObject>| {
                    let owner = (!owner.is_empty()).then(|| Uid::from(owner));
                    owner.is_some_and(|owner| it.metadata.controller().is_some_and(|it| it.uid == owner))
                };
                let owned: Vec<_> = store.iter().filter(is_owned).cloned().collect();
                prop_assert_eq!(store.owned(&owner.into()), owned);
            }
            for value in ["x", "y", "z"] {
                let has = |it: &&Arc<MetaObject>| it.metadata.labels.get("app").is_some_and(|it| *it == value);
                let labelled: Vec<_> = store.iter().filter(has).cloned().collect();
                prop_assert_eq!(store.indexed(label, value), labelled);
            }
            prop_assert_eq!(store.bytes(), store.iter().map(|it| it.bytes()).sum::<usize>());
            prop_assert_eq!(store.len(), store.iter().count());
            let undecodable = |entry: &Entry<MetaObject>| matches!(entry.state, State::Undecodable(_));
            let undecodable = store.entries.iter().filter(|(.., entry)| undecodable(entry));
            prop_assert_eq!(store.undecodable_len(), undecodable.count());
            prop_assert_eq!(store.undecodable_len(), store.undecodable().count());
        }
    }
}
