//! Reading and writing the metadata of an object that is a JSON tree.
//!
//! Setters create `metadata` if it is missing; on something that is no object they do nothing.

use serde_json::{Map, Value, json};

/// The finalizer with which the garbage collector is asked to let dependents go.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// The finalizer with which the garbage collector is asked to delete dependents first.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// A string of the metadata, empty if it is missing.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.name`.
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.finalizers`.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether the object has been marked for deletion.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The metadata, created if it is missing.
pub fn of_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let object = object.as_object_mut()?;
    if !object.contains_key("metadata") {
        object.insert("metadata".to_owned(), json!({}));
    }
    object.get_mut("metadata")?.as_object_mut()
}

/// Sets a field of the metadata; an empty string, an empty list and null remove it.
pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let value = value.into();
    let empty = match &value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        _ => false,
    };
    if let Some(meta) = of_mut(object) {
        if empty {
            meta.remove(field);
        } else if let Some(present) = meta.get_mut(field) {
            *present = value;
        } else {
            meta.insert(field.to_owned(), value);
        }
    }
}

/// Makes a field of `target`'s metadata what it is in `source`.
pub fn copy(source: &Value, target: &mut Value, field: &str) {
    if source["metadata"][field] != target["metadata"][field] {
        set(target, field, source["metadata"][field].clone());
    }
}

/// The key of an object in its collection.
#[must_use]
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Reads a dotted path such as `spec.replicas`.
#[must_use]
pub fn at_path<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, part| &value[part])
}

/// Writes a dotted path, creating the objects on the way.
pub fn set_path(object: &mut Value, path: &str, value: Value) {
    let mut here = object;
    for part in path.split('.') {
        if here.is_null() {
            *here = json!({});
        }
        let Some(map) = here.as_object_mut() else { return };
        here = map.entry(part).or_insert(Value::Null);
    }
    *here = value;
}
