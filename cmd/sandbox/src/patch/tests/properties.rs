//! Property tests of all patch formats.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{Patch, PatchError, PatchType};
use super::json_patch;
use crate::json::{Value, json};
use crate::schema;

fn merge_patch(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    Patch::new(PatchType::Merge, patch.to_string().as_bytes()).apply(current, None)
}

/// Generates small objects over few keys, so that patches match. Lists contain no nulls: there the server deviates from
/// the RFC.
fn object(leaf: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let scalars = prop::collection::vec(any::<bool>(), 0..3).prop_map(Value::from);
    prop_oneof![3 => leaf, 1 => scalars.boxed()].prop_recursive(4, 40, 4, |inner| {
        prop::collection::btree_map("[abc]", inner, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    })
}

fn value() -> impl Strategy<Value = Value> {
    object(any::<u8>().prop_map(Value::from).boxed())
}

fn value_or_null() -> impl Strategy<Value = Value> {
    object(prop_oneof![any::<u8>().prop_map(Value::from), Just(Value::Null)].boxed())
}

fn operation() -> impl Strategy<Value = Value> {
    let pointer = "(/([abc]|0|1|-)){1,3}";
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]);
    (op, pointer, pointer, value())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #[test]
    fn merge_patch_matches_rfc(current in value(), patch in value_or_null()) {
        prop_assume!(current.is_object() && patch.is_object());
        let mut expected = current.decode().expect("JSON");
        ::json_patch::merge(&mut expected, &patch.decode().expect("JSON"));
        prop_assert_eq!(merge_patch(&current, &patch), Ok(expected.into()));
    }

    /// Compares only patches that the RFC accepts, because the server accepts more. `json_patch::patch` panics if it cannot
    /// roll back a failed patch, so the test uses `patch_unsafe` and discards the object.
    #[test]
    fn json_patch_matches_rfc(current in value(), operations in prop::collection::vec(operation(), 1..6)) {
        prop_assume!(current.is_object());
        let patch = Value::from(operations);
        let rfc: ::json_patch::Patch = patch.decode().expect("a patch");
        let mut expected = current.decode().expect("JSON");
        if ::json_patch::patch_unsafe(&mut expected, &rfc).is_ok() {
            prop_assert_eq!(json_patch(&current, &patch), Ok(expected.into()));
        } else {
            let _ = json_patch(&current, &patch);
        }
    }

    #[test]
    fn empty_strategic_patch_is_no_op(pod in value()) {
        let schema = schema::builtin("apps/v1", "Deployment");
        let current = json!({"metadata": {"finalizers": ["x/a", "x/b"]}, "spec": {"template": {"spec": pod}}});
        prop_assert_eq!(Patch::new(PatchType::Strategic, b"{}").apply(&current, schema), Ok(current));
    }

    /// A strategic merge patch without merging lists and directives is a merge patch.
    #[test]
    fn strategic_patch_of_labels_equals_merge_patch(current in value(), patch in value_or_null()) {
        prop_assume!(current.is_object() && patch.is_object());
        let (current, patch) = (json!({"metadata": {"labels": current}}), json!({"metadata": {"labels": patch}}));
        let schema = schema::builtin("v1", "ConfigMap");
        match Patch::new(PatchType::Strategic, patch.to_string().as_bytes()).apply(&current, schema) {
            Ok(patched) => prop_assert_eq!(Ok(patched), merge_patch(&current, &patch)),
            Err(error) => prop_assert!(error.to_string().contains("data type is not struct"), "{}", error),
        }
    }

    /// Merging loses no key and duplicates no key, in any order.
    #[test]
    fn merged_list_has_unique_keys(old in prop::collection::btree_set(0u8..9, 0..6), new in prop::collection::btree_set(0u8..9, 0..6), turn in 0usize..6) {
        let items = |keys: &[u8]| keys.iter().map(|key| json!({"name": key.to_string()})).collect::<Value>();
        let old: Vec<u8> = old.into_iter().collect();
        let mut new: Vec<u8> = new.into_iter().collect();
        if !new.is_empty() {
            let turn = turn % new.len();
            new.rotate_left(turn);
        }
        let schema = schema::builtin("v1", "Pod");
        let (current, patch) = (json!({"spec": {"containers": items(&old)}}), json!({"spec": {"containers": items(&new)}}));
        let patched = Patch::new(PatchType::Strategic, patch.to_string().as_bytes()).apply(&current, schema).expect("patched");
        let containers = patched["spec"]["containers"].as_array().into_iter().flatten();
        let found: Vec<u8> = containers.filter_map(|item| item["name"].as_str()?.parse().ok()).collect();
        let all: BTreeSet<u8> = old.iter().chain(&new).copied().collect();
        prop_assert_eq!(found.iter().copied().collect::<BTreeSet<u8>>(), all.clone());
        prop_assert_eq!(found.len(), all.len());
        // Items of the patch keep the patch's order, and the other items keep the server's order.
        let of_patch: Vec<u8> = found.iter().copied().filter(|key| new.contains(key)).collect();
        prop_assert_eq!(of_patch, new.clone());
        let of_server: Vec<u8> = found.iter().copied().filter(|key| !new.contains(key)).collect();
        prop_assert_eq!(of_server, old.iter().copied().filter(|key| !new.contains(key)).collect::<Vec<u8>>());
    }
}
