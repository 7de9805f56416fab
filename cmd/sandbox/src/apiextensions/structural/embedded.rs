//! Embedded resources (`x-kubernetes-embedded-resource`). Mirrors `schema/objectmeta`.

use crate::apiextensions::structural::node::Node;
use crate::apiextensions::structural::path::Path;
use crate::field::{FieldError, Report};
use crate::json::Value;
use crate::{registry, schema};

/// Coerces the metadata of embedded resources. Returns the paths of dropped unknown fields.
pub fn coerce(
    node: &Node,
    value: &mut Value,
    path: &Path<'_>,
    dropped: &mut Vec<String>,
) -> Result<(), FieldError> {
    match value {
        Value::Object(map) => {
            if node.embedded {
                for key in ["apiVersion", "kind"] {
                    if let Some(other) = map.get(key).filter(|value| !value.is_string()) {
                        let field = path.at(key);
                        return Err(FieldError::invalid(field, other.clone(), "must be a string"));
                    }
                }
                if let (Some(meta), Some(shape)) = (map.get_mut("metadata"), schema::object_meta()) {
                    let below = path.child("metadata");
                    let sent = meta.clone();
                    let unknown = schema::conform(shape, meta)
                        .map_err(|error| FieldError::invalid(below.field(), sent, error.to_string()))?;
                    dropped.extend(unknown.iter().map(|name| below.child(name).to_string()));
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(field) = node.properties.get(key.as_str()) {
                    coerce(field, value, &path.child(key), dropped)?;
                } else if let Some(values) = node.values() {
                    coerce(values, value, &path.key(key), dropped)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &node.items {
                for (index, item) in items.make_mut().iter_mut().enumerate() {
                    coerce(below, item, &path.index(index), dropped)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Validates the kind, apiVersion and metadata of embedded resources.
pub fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if node.embedded {
                resource(value, path, errors);
            }
            for (key, value) in map {
                if let Some(field) = node.properties.get(key.as_str()) {
                    validate(field, value, &path.child(key), errors);
                } else if let Some(values) = node.values() {
                    validate(values, value, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    validate(below, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let field = path.at(key);
        match &value[key] {
            Value::Null => errors.required(field, ""),
            Value::String(text) if text.is_empty() => {
                errors.invalid(field, "", "must not be empty");
            }
            Value::String(text) if key == "kind" => {
                let wrong = registry::kind_name(text);
                if !wrong.is_empty() {
                    let hint = "may have mixed case, but should otherwise match: ";
                    errors.invalid(field, text.as_str(), format!("{hint}{}", wrong.join(",")));
                }
            }
            Value::String(text) if text.matches('/').count() > 1 => {
                let why = format!("unexpected GroupVersion string: {text}");
                errors.invalid(field, text.as_str(), why);
            }
            Value::String(_) => {}
            other => errors.invalid(field, other.clone(), "must be a string"),
        }
    }
    if value["metadata"].is_object() {
        errors.extend(registry::validate_embedded_metadata(
            &value["metadata"],
            &path.at("metadata"),
        ));
    }
}
