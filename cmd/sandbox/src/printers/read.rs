//! Accessors for fields that may be missing or have the wrong type. Both return the zero value of the type.
//!
//! Paths are JSON pointers (`/status/phase`).

use crate::json::Value;

/// Returns a string, or an empty string.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a string, or `none` if it is empty.
pub fn text_or<'a>(object: &'a Value, path: &str, none: &'a str) -> &'a str {
    match text(object, path) {
        "" => none,
        text => text,
    }
}

/// Returns an integer, or 0.
pub fn int(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns a boolean, or false.
pub fn flag(object: &Value, path: &str) -> bool {
    object.pointer(path).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the items of a list, or an empty slice.
pub fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    object.pointer(path).and_then(Value::as_array).unwrap_or_default()
}

/// Returns the number of entries of a list or map.
pub fn count(object: &Value, path: &str) -> usize {
    match object.pointer(path) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(entries)) => entries.len(),
        _ => 0,
    }
}

/// Formats a quantity or an int-or-string.
pub fn scalar(object: &Value, path: &str) -> Option<String> {
    match object.pointer(path)? {
        Value::String(text) => Some(text.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the status of the first condition of a type, or an empty string.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
        .map_or("", |condition| text(condition, "/status"))
}

/// Reports whether the object is terminating.
pub fn terminating(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|at| !at.is_null())
}

/// Joins one field of all items of a list with commas.
pub fn joined(items: &[Value], path: &str) -> String {
    items
        .iter()
        .map(|item| text(item, path))
        .collect::<Vec<_>>()
        .join(",")
}
