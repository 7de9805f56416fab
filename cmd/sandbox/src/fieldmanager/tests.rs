//! Unit tests of field set operations, and of the cost of tracking a small change.

use proptest::prelude::*;

use crate::fieldmanager::fields::Fields;
use crate::fieldmanager::shape::Shape;
use crate::fieldmanager::validate::Repeated;
use crate::fieldmanager::{Writer, compare, element, fields, merge, shape, track_update};
use crate::json::{Map, Text, Value, json};
use crate::registry;
use crate::resource::Resource;

fn resource(kind: &str) -> Resource {
    let mut all = registry::all().iter();
    all.find(|r| r.kind == kind).expect("a kind").clone()
}

fn set(value: Value) -> Fields {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[test]
fn field_sets_distinguish_parents_and_children() {
    let parent = set(json!({"f:a": {}}));
    let both = set(json!({"f:a": {".": {}, "f:b": {}}}));
    let child = set(json!({"f:a": {"f:b": {}}}));
    let mut sum = parent.clone();
    fields::add(&mut sum, child.clone());
    assert_eq!(sum, both);
    fields::subtract(&mut sum, &parent);
    assert_eq!(sum, child);
    let mut rest = both.clone();
    fields::subtract_trees(&mut rest, &parent);
    assert!(rest.is_empty());
    assert_eq!(fields::common(&both, &child), child);
    assert!(fields::common(&parent, &child).is_empty());
    assert!(fields::contains(&both, &["f:a"]));
    assert!(!fields::contains(&child, &["f:a"]));
}

#[test]
fn paths_are_formatted_for_messages() {
    let set = set(json!({
        "f:b": {"k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:c": {}}, "v:\"y\"": {}, "i:3": {}},
        "f:a": {},
    }));
    let shown: Vec<String> = fields::paths(&set).iter().map(|p| element::shown(p)).collect();
    assert_eq!(
        shown,
        [
            ".a",
            ".b[name=\"x\",port=80]",
            ".b[=\"y\"]",
            ".b[3]",
            ".b[name=\"x\",port=80].c"
        ]
    );
}

#[test]
fn client_field_sets_are_normalized() {
    let claimed = set(json!({"f:a": {"k:{ \"b\": 1, \"a\": \"<\" }": {}, "x:new": {}}}));
    let clean = fields::canonical(&claimed).expect("a set");
    assert_eq!(
        Value::Object(clean),
        json!({"f:a": {"k:{\"a\":\"\\u003c\",\"b\":1}": {}}})
    );
    for wrong in [
        json!({"f": {}}),
        json!({"k:x": {}}),
        json!({"f:a": 1}),
        json!({"i:x": {}}),
    ] {
        assert!(fields::canonical(&set(wrong)).is_err());
    }
}

#[test]
fn small_change_yields_small_diff() {
    let pods = resource("Pod");
    let old = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut new = old.clone();
    let containers = new["spec"]["containers"].as_array_mut().expect("a list");
    containers.make_mut()[0]["image"] = "j".into();
    let diff = compare::compare(shape::of(&pods), Some(&old), Some(&new));
    let expected = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}}});
    assert_eq!(Value::Object(diff.modified), expected);
    assert!(diff.added.is_empty() && diff.removed.is_empty());
}

#[test]
fn claimed_ownership_of_managed_fields_is_removed() {
    let maps = resource("ConfigMap");
    let object = |set: Value| {
        let entry = json!({
            "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": set,
        });
        json!({"metadata": {"name": "a", "managedFields": [entry]}, "data": {"a": "1"}})
    };
    let stored = object(json!({"f:data": {"f:a": {}}}));
    let mut claiming = object(json!({"f:data": {"f:a": {}}, "f:metadata": {"f:managedFields": {}}}));
    let writer = Writer {
        manager: "m".to_owned(),
        subresource: "",
        time: Text::new(),
    };
    track_update(&maps, &writer, &stored, &mut claiming);
    assert_eq!(
        claiming["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:data": {"f:a": {}}})
    );
}

#[test]
fn applied_items_keep_configuration_order() {
    let pods = resource("Pod");
    let shape = shape::of(&pods);
    let pod = |names: &[&str]| {
        let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": containers}})
    };
    let merged = |live: &[&str], config: &[&str]| {
        let merged = merge::merge(shape, &pod(live), &pod(config));
        let list = merged["spec"]["containers"].as_array().unwrap_or_default();
        let names: Vec<String> = list
            .iter()
            .filter_map(|c| c["name"].as_str().map(str::to_owned))
            .collect();
        names.concat()
    };
    assert_eq!(merged(&["a", "b", "c"], &["c", "a"]), "bca");
    assert_eq!(merged(&["a", "b"], &["x", "b"]), "axb");
    assert_eq!(merged(&["a", "b", "c"], &["x"]), "abcx");
    assert_eq!(merged(&[], &["x", "y"]), "xy");
}

fn fields_strategy() -> impl Strategy<Value = Value> {
    let leaf = Just(json!({}));
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop::collection::btree_map("(f:[ab]|\\.)", inner, 0..3).prop_map(|map| {
            let map = map
                .into_iter()
                .map(|(k, v)| if k == "." { (k, json!({})) } else { (k, v) });
            let map: Map = map.collect();
            // A node that contains only `.` is a leaf.
            if map.keys().all(|k| k == ".") {
                json!({})
            } else {
                map.into()
            }
        })
    })
}

fn object_strategy() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn added_fields_can_be_subtracted(one in fields_strategy(), other in fields_strategy()) {
        let (one, mut other) = (set(one), set(other));
        other.remove(".");
        let mut one = one;
        one.remove(".");
        let mut sum = one.clone();
        fields::add(&mut sum, other.clone());
        prop_assert_eq!(fields::common(&sum, &other), other.clone());
        let mut rest = sum.clone();
        fields::subtract(&mut rest, &other);
        prop_assert!(fields::common(&rest, &other).is_empty());
        let mut only = one.clone();
        fields::subtract(&mut only, &other);
        prop_assert_eq!(only, rest);
    }

    #[test]
    fn arbitrary_objects_do_not_panic(one in object_strategy(), other in object_strategy()) {
        let pods = resource("Pod");
        for shape in [Shape::Deduced, shape::of(&pods)] {
            let diff = compare::compare(shape, Some(&one), Some(&other));
            let same = compare::compare(shape, Some(&one), Some(&one));
            prop_assert!(same.added.is_empty() && same.modified.is_empty() && same.removed.is_empty());
            let own = compare::fields_of(shape, &other);
            let merged = merge::merge(shape, &one, &other);
            let _ = merge::remove(shape, &merged, &merge::with_named(shape, &own));
            let _ = (diff, crate::fieldmanager::validate::check(shape, &other, Repeated::Wrong));
        }
    }

    #[test]
    fn merged_object_contains_applied_fields(live in object_strategy(), config in object_strategy()) {
        let object = |value: Value| if value.is_object() { value } else { json!({"a": value}) };
        let (live, config) = (object(live), object(config));
        let merged = merge::merge(Shape::Deduced, &live, &config);
        let own = compare::fields_of(Shape::Deduced, &config);
        let all = compare::fields_of(Shape::Deduced, &merged);
        prop_assert_eq!(fields::common(&all, &own), own);
        prop_assert_eq!(merge::merge(Shape::Deduced, &merged, &config), merged);
    }
}
