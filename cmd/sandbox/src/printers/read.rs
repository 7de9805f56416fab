//! Reading fields of an object that may be missing or of the wrong type: both read as the type's zero.
//!
//! Paths are JSON pointers (`/status/phase`).

use serde_json::Value;

/// A string, or an empty one.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// A string, or what stands for none.
pub fn text_or<'a>(object: &'a Value, path: &str, none: &'a str) -> &'a str {
    match text(object, path) {
        "" => none,
        text => text,
    }
}

/// A whole number, or 0.
pub fn int(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

/// A boolean, or false.
pub fn flag(object: &Value, path: &str) -> bool {
    object.pointer(path).and_then(Value::as_bool).unwrap_or_default()
}

/// The items of a list, or none.
pub fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    object
        .pointer(path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// How many entries a list or a map has.
pub fn count(object: &Value, path: &str) -> usize {
    match object.pointer(path) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(entries)) => entries.len(),
        _ => 0,
    }
}

/// A quantity or an int-or-string as it is written.
pub fn scalar(object: &Value, path: &str) -> Option<String> {
    match object.pointer(path)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The status of the first condition of a type, or an empty string.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
        .map_or("", |condition| text(condition, "/status"))
}

/// Whether an object is marked for deletion.
pub fn terminating(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|at| !at.is_null())
}

/// One field of all items of a list, joined by commas.
pub fn joined(items: &[Value], path: &str) -> String {
    items
        .iter()
        .map(|item| text(item, path))
        .collect::<Vec<_>>()
        .join(",")
}
