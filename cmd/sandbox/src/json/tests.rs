use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Map, Value, encode, json};

/// A change of an object: a key, and the number to set or `None` to remove it.
fn changes() -> impl Strategy<Value = Vec<(String, Option<u8>)>> {
    prop::collection::vec(("[a-h]{1,2}", any::<Option<u8>>()), 0..60)
}

fn members(map: &Map) -> Vec<(&str, u64)> {
    let member = |(key, value): (_, &Value)| (key, value.as_u64().expect("a number"));
    map.iter()
        .map(|(key, value)| member((key.as_str(), value)))
        .collect()
}

proptest! {
    #[test]
    fn object_equals_sorted_map_after_every_change(changes in changes()) {
        let (mut map, mut model) = (Map::new(), BTreeMap::new());
        for (key, number) in changes {
            let (before, count) = (map.clone(), members(&map).len());
            let (was, expected) = match number {
                Some(number) => (map.insert(key.as_str(), number.into()), model.insert(key.clone(), number)),
                None => (map.remove(&key), model.remove(&key)),
            };
            prop_assert_eq!(was, expected.map(Value::from));
            prop_assert_eq!(map.get(&key).cloned(), model.get(&key).map(|number| Value::from(*number)));
            prop_assert_eq!(map.contains_key(&key), model.contains_key(&key));
            let expected: Vec<_> = model.iter().map(|(key, n)| (key.as_str(), u64::from(*n))).collect();
            prop_assert_eq!(members(&map), expected);
            // The clone from before the change stays as it was.
            prop_assert_eq!(members(&before).len(), count);
        }
    }

    #[test]
    fn encoding_is_that_of_serde_json(text in "(?s).{0,20}", prefix in "[a-z]{0,9}") {
        let text = prefix + &text;
        let mut out = Vec::new();
        encode(&mut out, &json!({ (text.as_str()): [&text, 1, -2, 1.5, u64::MAX, null, true, false, [], {}] }));
        let expected = serde_json::json!({ &text: [&text, 1, -2, 1.5, u64::MAX, null, true, false, [], {}] });
        prop_assert_eq!(String::from_utf8_lossy(&out), expected.to_string());
    }
}

#[test]
fn change_copies_only_the_way_to_it() {
    let old =
        json!({"spec": {"containers": [{"name": "a"}], "volumes": [1]}, "status": {"phase": "Running"}});
    let mut new = old.clone();
    assert!(new.is_shared_with(&old));
    let containers = new["spec"]["containers"].as_array_mut().expect("a list");
    containers.make_mut()[0]["image"] = "i".into();
    assert!(new["status"].is_shared_with(&old["status"]));
    assert!(new["spec"]["volumes"].is_shared_with(&old["spec"]["volumes"]));
    assert!(!new["spec"].is_shared_with(&old["spec"]));
    assert_eq!(old["spec"]["containers"], json!([{"name": "a"}]));
    assert_eq!(new["spec"]["containers"], json!([{"image": "i", "name": "a"}]));
}

#[test]
fn literal_equals_its_text() {
    let (name, none) = ("n", None::<&str>);
    let literal =
        json!({"b": [1, {"c": null}, name], "a": {"d": [], "e": {}, name: none, "f": 1 + 1}, "g": true,});
    let text = r#"{"a":{"d":[],"e":{},"f":2,"n":null},"b":[1,{"c":null},"n"],"g":true}"#;
    assert_eq!(literal.to_string(), text);
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), literal);
}

#[test]
fn pointer_finds_items_and_escaped_keys() {
    let value = json!({"a": [{"b/c": {"d~e": 1}}]});
    assert_eq!(value.pointer("/a/0/b~1c/d~0e"), Some(&json!(1)));
    assert_eq!(value.pointer("/a/1"), None);
    assert_eq!(value.pointer(""), Some(&value));
}
