//! Accessors for the metadata of an object that is a JSON tree.
//!
//! Setters create `metadata` if it is missing. They do nothing if the value is not an object.

use crate::json::{self, Map, Value, json};

/// The finalizer that makes the garbage collector orphan the dependents.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// The finalizer that makes the garbage collector delete the dependents first.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// Returns a string field of the metadata, or an empty string if it is missing.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns `metadata.name`, or an empty string.
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Returns `metadata.namespace`, or an empty string.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Returns `metadata.finalizers`, or an empty list.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Reports whether the object has a `deletionTimestamp`.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Returns the metadata, and creates it if it is missing. Returns `None` if the value is not an object.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map> {
    let metadata = object
        .as_object_mut()?
        .get_or_insert_with("metadata", || json!({}));
    metadata.as_object_mut()
}

/// Sets a field of the metadata. An empty string, an empty list and null remove it.
pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let value = value.into();
    let empty = match &value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        _ => false,
    };
    if let Some(meta) = metadata_mut(object) {
        if empty {
            meta.remove(field);
        } else if let Some(present) = meta.get_mut(field) {
            *present = value;
        } else {
            meta.insert(json::key(field), value);
        }
    }
}

/// Copies a field of the metadata from `source` to `target`.
pub fn copy(source: &Value, target: &mut Value, field: &str) {
    if source["metadata"][field] != target["metadata"][field] {
        set(target, field, source["metadata"][field].clone());
    }
}

/// Returns the key of an object in its collection.
#[must_use]
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Returns the value at a dotted path such as `spec.replicas`.
#[must_use]
pub fn at_path<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, part| &value[part])
}

/// Sets the value at a dotted path, and creates missing parents.
pub fn set_path(object: &mut Value, path: &str, value: Value) {
    let mut here = object;
    for part in path.split('.') {
        if here.is_null() {
            *here = json!({});
        }
        let Some(map) = here.as_object_mut() else { return };
        here = map.get_or_insert_with(part, || Value::Null);
    }
    *here = value;
}
