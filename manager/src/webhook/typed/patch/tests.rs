use super::*;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

fn patch(original: &Value, before: &Value, after: &Value) -> Vec<Value> {
    let operations = super::patch(&original.to_string(), &before.to_string(), &after.to_string());
    operations.iter().map(|it| json!(it)).collect()
}

fn merge(original: &Value, before: &Value, after: &Value) -> Value {
    let (original, after) = (original.to_string(), after.to_string());
    serde_json::from_str(&super::merge(&original, &before.to_string(), &after)).expect("JSON")
}

#[test]
fn only_changed_fields_are_in_the_patch() {
    let original = json!({"spec": {"oars": 2, "unknown": 1, "a/b~c": 1}, "status": {}});
    let before = json!({"spec": {"oars": 2, "a/b~c": 1, "hull": null, "bow": "x"}, "kind": "Boat"});
    let mut after = before.clone();
    assert_eq!(patch(&original, &before, &after), [] as [Value; 0]);
    after["spec"] = json!({"oars": 8, "a/b~c": 2, "hull": "oak"});
    assert_eq!(
        json!(patch(&original, &before, &after)),
        json!([
            {"op": "replace", "path": "/spec/a~1b~0c", "value": 2},
            {"op": "add", "path": "/spec/hull", "value": "oak"},
            {"op": "replace", "path": "/spec/oars", "value": 8},
        ])
    );
    let removed = json!({"spec": {"a/b~c": 1, "hull": null, "bow": "x"}, "kind": "Boat"});
    assert_eq!(
        json!(patch(&original, &before, &removed)),
        json!([{"op": "remove", "path": "/spec/oars"}])
    );
}

#[test]
fn absent_parents_get_only_the_changed_fields() {
    let encoded = |oars| json!({"spec": {"oars": oars, "hull": ""}, "metadata": {}});
    for (original, operation) in [
        (json!({}), "add"),
        (json!({"spec": null}), "replace"),
        (json!({"spec": {}}), "nested"),
    ] {
        let operations = patch(&original, &encoded(0), &encoded(8));
        let expected = match operation {
            "nested" => json!([{"op": "add", "path": "/spec/oars", "value": 8}]),
            operation => json!([{"op": operation, "path": "/spec", "value": {"oars": 8}}]),
        };
        assert_eq!(json!(operations), expected, "{original}");
    }
}

#[test]
fn field_that_the_type_omits_keeps_unknown_fields_when_it_is_set() {
    let original = json!({"limits": {"unknown": 1}});
    assert_eq!(
        merge(&original, &json!({}), &json!({"limits": {"cpu": 2}})),
        json!({"limits": {"cpu": 2, "unknown": 1}})
    );
}

/// Elements with the names, an unknown field each, and without it as the type encodes them.
fn named(names: &[&str]) -> (Value, Value) {
    let all = names
        .iter()
        .map(|name| json!({"name": name, "unknown": format!("of {name}")}));
    let known = names.iter().map(|name| json!({"name": name}));
    (all.collect(), known.collect())
}

#[test]
fn elements_keep_unknown_fields() {
    let (original, before) = named(&["a", "b", "c"]);
    for (after, expected) in [
        // Changed in place.
        (
            json!([{"name": "a"}, {"name": "b", "x": 1}, {"name": "c"}]),
            json!([{"name": "a", "unknown": "of a"}, {"name": "b", "x": 1, "unknown": "of b"},
                   {"name": "c", "unknown": "of c"}]),
        ),
        // Inserted, moved, changed and removed.
        (
            json!([{"name": "new"}, {"name": "c", "x": 1}, {"name": "a"}]),
            json!([{"name": "new"}, {"name": "c", "x": 1, "unknown": "of c"}, {"name": "a", "unknown": "of a"}]),
        ),
        (
            json!([{"name": "new"}, {"name": "a"}, {"name": "b"}, {"name": "c", "x": 1}]),
            json!([{"name": "new"}, {"name": "a", "unknown": "of a"}, {"name": "b", "unknown": "of b"},
                   {"name": "c", "x": 1, "unknown": "of c"}]),
        ),
        // Another element of the same position.
        (
            json!([{"name": "a"}, {"name": "b"}, {"name": "new"}]),
            json!([{"name": "a", "unknown": "of a"}, {"name": "b", "unknown": "of b"}, {"name": "new"}]),
        ),
        (json!([]), json!([])),
    ] {
        assert_eq!(merge(&original, &before, &after), expected);
    }
}

#[test]
fn elements_without_names_are_matched_by_value_then_by_index() {
    let original = json!([{"port": 1, "unknown": 1}, {"port": 1, "unknown": 2}, {"port": 3, "unknown": 3}]);
    let before = json!([{"port": 1}, {"port": 1}, {"port": 3}]);
    assert_eq!(
        merge(
            &original,
            &before,
            &json!([{"port": 3}, {"port": 1}, {"port": 9}])
        ),
        json!([{"port": 3, "unknown": 3}, {"port": 1, "unknown": 2}, {"port": 9}])
    );
    assert_eq!(
        merge(
            &original,
            &before,
            &json!([{"port": 1}, {"port": 8}, {"port": 3}])
        ),
        json!([{"port": 1, "unknown": 1}, {"port": 8, "unknown": 2}, {"port": 3, "unknown": 3}])
    );
    // The index says nothing.
    assert_eq!(
        merge(&original, &before, &json!([{"port": 1}, {"port": 9}])),
        json!([{"port": 1, "unknown": 1}, {"port": 9}])
    );
}

#[test]
fn list_that_the_type_decodes_to_another_length_is_replaced() {
    let after = json!(["a", "b"]);
    assert_eq!(merge(&json!(["a", "a"]), &json!(["a"]), &after), after);
}

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        let keys = select(vec!["name", "a", "b/", "~c", ""]).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(keys, inner, 0..4).prop_map(|it| it.into_iter().collect()),
        ]
    })
}

proptest! {
    /// An API server that applies the patch gets the merged object. Without unknown fields that is the typed object.
    #[test]
    fn patched_object_is_the_merged_one(original in values(), before in values(), after in values()) {
        let operations: json_patch::Patch =
            serde_json::from_value(json!(patch(&original, &before, &after))).expect("a patch");
        let mut patched = original.clone();
        json_patch::patch(&mut patched, &operations).expect("applicable");
        prop_assert_eq!(patched, merge(&original, &before, &after));
        prop_assert_eq!(merge(&before, &before, &after), after);
        prop_assert_eq!(merge(&original, &before, &before), original);
    }
}
