use serde_json::{Value, json};

use crate::apiextensions::structural::{Schema, check};

fn admitted(schema: &Value, mut value: Value) -> (Value, Vec<String>) {
    let dropped = Schema::compile(schema).admit(&mut value, true).expect("admitted");
    (value, dropped)
}

#[test]
fn admission_is_idempotent() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string", "default": "d"}}}},
        "b": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    let (once, _) = admitted(&schema, json!({"a": [{"y": 1}, null], "b": {"z": null}, "c": 1}));
    let (twice, dropped) = admitted(&schema, once.clone());
    assert_eq!(twice, once);
    assert_eq!(dropped, [""; 0]);
}

#[test]
fn deep_schema_is_validated() {
    let mut schema = json!({"type": "string"});
    for _ in 0..60 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    assert_eq!(check(&schema, "spec", false), []);
}

#[test]
fn invalid_lists_may_stay_invalid() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let schema =
        Schema::compile(&json!({"type": "object", "properties": {"set": set, "n": {"type": "integer"}}}));
    let twice = json!({"set": ["a", "a"]});
    let mut errors = Vec::new();
    schema.validate_update(&twice, &json!({"set": ["a", "a"], "n": 1}), &mut errors);
    assert!(errors.is_empty(), "{errors:?}");
    schema.validate_update(&json!({"set": ["a"]}), &twice, &mut errors);
    assert_eq!(errors.len(), 1);
}
