//! From what an object is to what it should be, as a JSON patch (RFC 6902) of the fields that differ.

use serde::Serialize;
use serde_json::Value;

/// A step of a patch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum Op {
    Add { path: String, value: Value },
    Replace { path: String, value: Value },
    Remove { path: String },
}

/// The steps from `old` to `new`.
pub(super) fn diff(old: &Value, new: &Value) -> Vec<Op> {
    let mut ops = Vec::new();
    differ(old, new, "", &mut ops);
    ops
}

fn differ(old: &Value, new: &Value, path: &str, ops: &mut Vec<Op>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(olds), Value::Object(news)) => {
            for (key, old) in olds {
                let path = below(path, key);
                match news.get(key) {
                    Some(new) => differ(old, new, &path, ops),
                    None => ops.push(Op::Remove { path }),
                }
            }
            for (key, value) in news.iter().filter(|(key, _)| !olds.contains_key(*key)) {
                let (path, value) = (below(path, key), value.clone());
                ops.push(Op::Add { path, value });
            }
        }
        (Value::Array(olds), Value::Array(news)) => {
            for (i, (old, new)) in olds.iter().zip(news).enumerate() {
                differ(old, new, &format!("{path}/{i}"), ops);
            }
            for value in news.iter().skip(olds.len()) {
                let (path, value) = (format!("{path}/-"), value.clone());
                ops.push(Op::Add { path, value });
            }
            // The last first, so that the others keep their places.
            for i in (news.len()..olds.len()).rev() {
                let path = format!("{path}/{i}");
                ops.push(Op::Remove { path });
            }
        }
        _ => ops.push(Op::Replace {
            path: path.to_owned(),
            value: new.clone(),
        }),
    }
}

fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_named() {
        let old = json!({"kept": {"a": 1}, "gone": 1, "ports": [{"port": 80}, 7], "a/b~": null});
        let new =
            json!({"kept": {"a": 1}, "new": {"x": []}, "ports": [{"port": 80, "name": "web"}], "a/b~": 0});
        let expected = json!([
            {"op": "replace", "path": "/a~1b~0", "value": 0},
            {"op": "remove", "path": "/gone"},
            {"op": "add", "path": "/ports/0/name", "value": "web"},
            {"op": "remove", "path": "/ports/1"},
            {"op": "add", "path": "/new", "value": {"x": []}},
        ]);
        assert_eq!(json!(diff(&old, &new)), expected);
        assert_eq!(diff(&old, &old), []);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab~/]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_steps_lead_from_one_to_the_other(old in any_json(), new in any_json()) {
            let patch: json_patch::Patch = serde_json::from_value(json!(diff(&old, &new))).expect("a patch");
            let mut patched = old.clone();
            json_patch::patch(&mut patched, &patch).expect("it applies");
            prop_assert_eq!(patched, new);
        }
    }
}
