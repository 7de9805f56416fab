//! Small helpers over JSON, so that the rules read as rules.
//!
//! Reads never fail: a field that is missing or of another type reads as the zero value, which is how the API treats an
//! absent optional field. Writes to something that is not an object do nothing.

use crate::json::{self, Map, Value};

/// The text, or the empty string.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The integer, or 0.
pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// The flag, or false.
pub(crate) fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// The items of a list, or none.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_default()
}

/// The entries of a map in the order of their keys, or none.
pub(crate) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// Whether a field counts as not given: absent, or an empty text, list or map.
pub(crate) fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether two maps or lists are the same to the server, for which an empty one is as good as none.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    one == other || (empty(one) && empty(other))
}

/// Puts a value under a key; null, which objects do not hold, takes the key away.
pub(crate) fn set(parent: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = parent.as_object_mut() {
        match value.into() {
            Value::Null => map.remove(key),
            value => map.insert(json::key(key), value),
        };
    }
}

/// Takes a key away.
pub(crate) fn remove(parent: &mut Value, key: &str) {
    if let Some(map) = parent.as_object_mut() {
        map.remove(key);
    }
}

/// Puts a value under a key that is absent.
pub(crate) fn set_default(parent: &mut Value, key: &str, value: impl Into<Value>) {
    if parent[key].is_null() {
        set(parent, key, value);
    }
}

/// Puts a text under a key that is absent or empty.
pub(crate) fn default_text(parent: &mut Value, key: &str, value: &str) {
    if text(&parent[key]).is_empty() {
        set(parent, key, value);
    }
}

/// The object under a key, made if it is absent. None if `parent` is not an object.
pub(crate) fn section<'a>(parent: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    set_default(parent, key, Map::new());
    parent.get_mut(key)
}

/// Runs `rule` on every item of the list under a key.
pub(crate) fn each(parent: &mut Value, key: &str, mut rule: impl FnMut(&mut Value)) {
    if let Some(items) = parent.get_mut(key).and_then(Value::as_array_mut) {
        for item in items.make_mut() {
            rule(item);
        }
    }
}

/// Runs `rule` on the object under a key, if there is one.
pub(crate) fn with(parent: &mut Value, key: &str, rule: impl FnOnce(&mut Value)) {
    if let Some(child) = parent.get_mut(key).filter(|child| child.is_object()) {
        rule(child);
    }
}

/// Makes `new` have under `key` exactly what `old` has there.
pub(crate) fn keep(old: &Value, new: &mut Value, key: &str) {
    if old[key] != new[key] {
        set(new, key, old[key].clone());
    }
}

/// Like [`keep`], for a key of the metadata.
pub(crate) fn keep_meta(old: &Value, new: &mut Value, key: &str) {
    if let Some(meta) = section(new, "metadata") {
        keep(&old["metadata"], meta, key);
    }
}
