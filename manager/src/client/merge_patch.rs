//! JSON merge patches (RFC 7386) from two states of an object.

use serde_json::{Map, Value};

/// Returns the merge patch from `before` to `after`; none if they are equal. Members that both states omit are not part of
/// it, so a patch from a type that does not know all fields leaves the others alone.
pub(super) fn diff(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in after {
        // A merge patch cannot set a member to null: an explicit null is the same as an absent member.
        let old = before.get(name).unwrap_or(&Value::Null);
        if let Some(change) = diff(old, value) {
            patch.insert(name.clone(), change);
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    #[test]
    fn patch_contains_changed_added_and_removed_members() {
        for (before, after, patch) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1}), json!({"b": 1}), Some(json!({"a": null, "b": 1}))),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 1, "c": 3}}),
                Some(json!({"a": {"c": 3}})),
            ),
            (json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
            (
                json!({"a": {"b": 1}}),
                json!({"a": null}),
                Some(json!({"a": null})),
            ),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
            (json!(null), json!({"a": 1}), Some(json!({"a": 1}))),
            (json!({}), json!({"a": null}), None),
        ] {
            assert_eq!(diff(&before, &after), patch, "{before} {after}");
        }
    }
}
