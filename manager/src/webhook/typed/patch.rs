//! The JSON patch of a typed defaulter.
//!
//! A type may not know all fields of an object, and may encode fields that the object omits. Therefore the encoded typed
//! object never replaces the object of the request: [`merge`] makes only the changes between the typed object before and
//! after the handler.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};

/// Returns the operations of the JSON patch (RFC 6902) that makes the changes from `before` to `after` in `original`.
pub(in crate::webhook) fn patch(original: &Value, before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    let merged = merge(original, before, after);
    diff("", original, &merged, &mut operations);
    operations
}

/// Makes the changes from `before` to `after` in `original`, where null stands for an absent value.
pub(in crate::webhook) fn merge(original: &Value, before: &Value, after: &Value) -> Value {
    let none = Map::new();
    match (original, before, after) {
        _ if before == after => original.clone(),
        (Value::Object(_) | Value::Null, Value::Object(_) | Value::Null, Value::Object(after)) => {
            let fields = |it: &Value| it.as_object().unwrap_or(&none).clone();
            merge_fields(fields(original), &fields(before), after).into()
        }
        (Value::Array(original), Value::Array(before), Value::Array(after))
            if original.len() == before.len() =>
        {
            merge_elements(original, before, after).into()
        }
        _ => after.clone(),
    }
}

fn merge_fields(
    original: Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = original;
    for (key, value) in after {
        let old = before.get(key);
        if old != Some(value) {
            let original = merged.get(key).unwrap_or(&Value::Null);
            let value = merge(original, old.unwrap_or(&Value::Null), value);
            merged.insert(key.clone(), value);
        }
    }
    merged.retain(|key, _| after.contains_key(key) || !before.contains_key(key));
    merged
}

fn merge_elements(original: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let merged = after
        .iter()
        .zip(origins(before, after))
        .map(|(value, origin)| match origin {
            Some(origin) => merge(&original[origin], &before[origin], value),
            None => value.clone(),
        });
    merged.collect()
}

/// Returns for each element of `after` the index of the same element in `before`; none for a new element.
fn origins(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    type Identity = fn(usize, &Value) -> Option<String>;
    let identities: [Identity; 4] = [
        // Unchanged.
        |index, value| Some(format!("{index} {value}")),
        // Moved.
        |_, value| Some(value.to_string()),
        // Changed: most lists of objects have unique names.
        |_, value| value["name"].as_str().map(str::to_owned),
        // Changed in place, without a name.
        |index, value| (!value["name"].is_string()).then(|| index.to_string()),
    ];
    // The index of an unnamed element says nothing if elements were added or removed.
    let identities = &identities[..if before.len() == after.len() { 4 } else { 3 }];
    let mut origins = vec![None; after.len()];
    let mut is_free = vec![true; before.len()];
    for identity in identities {
        let mut free: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
        for (index, value) in before.iter().enumerate().filter(|(index, _)| is_free[*index]) {
            if let Some(identity) = identity(index, value) {
                free.entry(identity).or_default().push_back(index);
            }
        }
        for (index, value) in after.iter().enumerate() {
            if origins[index].is_none()
                && let Some(same) = identity(index, value).and_then(|it| free.get_mut(&it))
                && let Some(origin) = same.pop_front()
            {
                (origins[index], is_free[origin]) = (Some(origin), false);
            }
        }
    }
    origins
}

/// Appends the operations that change `from` to `to`, which are at `path`.
fn diff(path: &str, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            for key in from.keys().filter(|&key| !to.contains_key(key)) {
                operations.push(json!({"op": "remove", "path": below(path, key)}));
            }
            for (key, value) in to {
                let path = below(path, key);
                match from.get(key) {
                    Some(old) => diff(&path, old, value, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": value})),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (index, (from, to)) in from.iter().zip(to).enumerate() {
                diff(&below(path, &index.to_string()), from, to, operations);
            }
        }
        _ => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

/// Returns the JSON pointer (RFC 6901) of a field or an element.
fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests;
