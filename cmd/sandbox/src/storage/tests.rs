//! Tests of the store and its history.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::json::{Value, json};

fn draft(n: u32) -> Draft {
    Draft {
        shape: 0,
        value: json!({"metadata": {"labels": {"n": n.to_string()}}}),
    }
}

fn keys(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.objects.iter().map(|o| o.key.as_str()).collect()
}

#[test]
fn write_with_stale_revision_is_conflict() {
    let store = Store::new(Limits::default());
    let first = store.create("pods", "a/x", draft(1), &[]).expect("a free key");
    assert_eq!(
        store.create("pods", "a/x", draft(2), &[]).err(),
        Some(StoreError::Exists)
    );
    let second = store
        .replace("pods", "a/x", first.revision, draft(2))
        .expect("the present version");
    assert_eq!(
        store.replace("pods", "a/x", first.revision, draft(3)).err(),
        Some(StoreError::Changed)
    );
    assert_eq!(
        store.remove("pods", "a/x", first.revision).err(),
        Some(StoreError::Changed)
    );
    let removed = store
        .remove("pods", "a/x", second.revision)
        .expect("the present version");
    assert_eq!(
        store.remove("pods", "a/x", second.revision).err(),
        Some(StoreError::Missing)
    );
    assert_eq!((first.revision, second.revision, removed.revision), (2, 3, 4));
    assert_eq!(
        removed.value()["metadata"]["resourceVersion"],
        "4",
        "watchers receive the revision of the removal"
    );
    let encoded: Value = serde_json::from_slice(removed.json()).expect("JSON");
    assert_eq!(&encoded, removed.value(), "JSON and tree are equal");
}

#[test]
fn failed_write_after_fork_copies_nothing() {
    let store = Store::new(Limits::default());
    let object = store.create("pods", "a/x", draft(1), &[]).expect("a free key");
    let fork = store.fork();
    // A write to another collection of the fork copies the map of the collections.
    for other in ["nodes", "services"] {
        let outcomes = [
            fork.create("pods", "a/x", draft(2), &[]),
            fork.replace("pods", "a/x", object.revision + 1, draft(2)),
            fork.replace("pods", "a/y", object.revision, draft(2)),
            fork.remove("pods", "a/x", object.revision + 1),
            fork.remove("pods", "a/y", object.revision),
        ];
        assert_eq!(
            outcomes.map(Result::err),
            [
                StoreError::Exists,
                StoreError::Changed,
                StoreError::Missing,
                StoreError::Changed,
                StoreError::Missing
            ]
            .map(Some)
        );
        let [pods, copy] = [&store, &fork].map(|store| store.lock().state.collections["pods"].clone());
        assert!(Arc::ptr_eq(&pods, &copy), "the collection is shared");
        fork.create(other, "n", draft(1), &[]).expect("a free key");
    }
    fork.remove("pods", "a/x", object.revision)
        .expect("the present version");
    assert!(
        store.get("pods", "a/x").is_some(),
        "a write copies the collection"
    );
}

#[test]
fn guard_is_checked_at_commit() {
    let store = Store::new(Limits::default());
    let present = |o: Option<&Object>| o.is_some();
    let guard = || {
        [Guard {
            collection: "namespaces",
            key: "a",
            holds: &present,
        }]
    };
    assert_eq!(
        store.create("pods", "a/x", draft(1), &guard()).err(),
        Some(StoreError::Refused)
    );
    store
        .create("namespaces", "a", draft(0), &[])
        .expect("a free key");
    assert!(store.create("pods", "a/x", draft(1), &guard()).is_ok());
}

#[test]
fn prefix_selects_one_namespace() {
    let store = Store::new(Limits::default());
    for key in ["a/x", "a-b/x", "a/y", "b/x"] {
        store.create("pods", key, draft(0), &[]).expect("a free key");
    }
    assert_eq!(
        keys(&store.snapshot("pods", "a/", None, None).expect("now")),
        ["a/x", "a/y"]
    );
    assert_eq!(
        keys(&store.snapshot("pods", "a/", Some("a/x\0"), None).expect("now")),
        ["a/y"]
    );
    assert_eq!(
        keys(&store.snapshot("pods", "", None, None).expect("now")),
        ["a-b/x", "a/x", "a/y", "b/x"]
    );
}

#[test]
fn history_is_bounded_in_entries_and_in_bytes() {
    for limits in [
        Limits {
            entries: 3,
            bytes: usize::MAX,
        },
        Limits {
            entries: usize::MAX,
            bytes: 1500,
        },
    ] {
        let store = Store::new(limits);
        for n in 0..20 {
            store
                .create("pods", &format!("{n:02}"), draft(n), &[])
                .expect("a free key");
        }
        let oldest = store.compacted("pods");
        assert!(oldest > 10, "most of the past is gone: {oldest}");
        assert!(store.changes("pods", oldest - 1, 100).is_err());
        let (changes, known) = store.changes("pods", oldest, 100).expect("a retained revision");
        assert_eq!(known, 21);
        assert_eq!(changes.len() as u64, known - oldest);
        assert!(store.snapshot("pods", "", None, Some(oldest - 1)).is_err());
        let past = store
            .snapshot("pods", "", None, Some(oldest))
            .expect("a retained revision");
        assert_eq!(past.objects.len() as u64, oldest - 1);
    }
}

#[derive(Debug, Clone)]
enum Op {
    Create(u8),
    Replace(u8),
    Remove(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..6_u8;
    prop_oneof![
        key.clone().prop_map(Op::Create),
        key.clone().prop_map(Op::Replace),
        key.prop_map(Op::Remove)
    ]
}

proptest! {
    /// Compares the store with a model that copies every state: any retained state can be read, and replaying the changes
    /// after it yields the current state.
    #[test]
    fn retained_states_can_be_read_and_replayed(ops in prop::collection::vec(op(), 1..60), entries in 1_usize..40) {
        let store = Store::new(Limits { entries, bytes: usize::MAX });
        let mut states: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::from([(store.revision(), BTreeMap::new())]);
        for (n, op) in (0..).zip(ops) {
            let (Op::Create(key) | Op::Replace(key) | Op::Remove(key)) = op;
            let key = format!("ns/{key}");
            let mut state = states.last_key_value().map(|(_, s)| s.clone()).unwrap_or_default();
            let expected = state.get(&key).copied().unwrap_or(0);
            let before = store.revision();
            let done = match op {
                Op::Create(_) => store.create("pods", &key, draft(n), &[]).map(|o| state.insert(key, o.revision)),
                Op::Replace(_) => store.replace("pods", &key, expected, draft(n)).map(|o| state.insert(key, o.revision)),
                Op::Remove(_) => store.remove("pods", &key, expected).map(|_| state.remove(&key)),
            };
            prop_assert_eq!(store.revision(), before + u64::from(done.is_ok()), "only a write that happened takes a revision");
            states.insert(store.revision(), state);
        }
        let oldest = store.compacted("pods");
        for (revision, expected) in &states {
            let read = store.snapshot("pods", "", None, Some(*revision));
            if *revision < oldest {
                prop_assert!(read.is_err());
                continue;
            }
            let mut state: BTreeMap<String, u64> =
                read.expect("it is retained").objects.iter().map(|o| (o.key.clone(), o.revision)).collect();
            prop_assert_eq!(&state, expected);
            let page = store.page("pods", "", None, Some(*revision), 2).expect("it is retained");
            prop_assert_eq!(keys(&page), expected.keys().take(2).collect::<Vec<_>>());
            prop_assert_eq!(page.remaining, expected.len().saturating_sub(2));
            for (key, version) in expected {
                let one = store.get_at("pods", key, *revision).expect("it is retained");
                prop_assert_eq!(one.map(|o| o.revision), Some(*version));
            }
            let (changes, known) = store.changes("pods", *revision, usize::MAX).expect("it is retained");
            let mut last = *revision;
            for change in changes {
                prop_assert!(change.revision > last);
                last = change.revision;
                match &change.after {
                    Some(object) => state.insert(object.key.clone(), object.revision),
                    None => state.remove(change.key()),
                };
            }
            prop_assert_eq!(known, store.revision());
            prop_assert_eq!(Some(&state), states.get(&known));
        }
    }
}

/// The history retains the replaced version with the update, so both count towards the limit.
#[test]
fn history_bytes_include_replaced_versions() {
    let store = Store::new(Limits {
        entries: 10_000,
        bytes: 1 << 20,
    });
    let big = || Draft {
        shape: 0,
        value: json!({"metadata": {}, "data": "x".repeat(100_000)}),
    };
    let replaced: Vec<_> = (0..200)
        .map(|n| {
            store
                .create("pods", &format!("a/{n:03}"), big(), &[])
                .expect("a free key")
        })
        .map(|object| (object.key.clone(), object.revision, Arc::downgrade(&object)))
        .collect();
    for (key, revision, _) in &replaced {
        store
            .replace("pods", key, *revision, draft(1))
            .expect("the present version");
    }
    let kept = replaced
        .iter()
        .filter(|(_, _, object)| object.upgrade().is_some())
        .count();
    assert!(
        kept <= 11,
        "{kept} versions of 100 kB each are kept in 1 MiB of history"
    );
}
