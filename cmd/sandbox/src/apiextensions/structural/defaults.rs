//! Defaulting, and removal of nulls. Mirrors `schema/defaulting`.

use crate::apiextensions::structural::node::Node;
use crate::json::Value;

/// Removes nulls of fields that are neither nullable nor required.
pub fn drop_nulls(node: &Node, value: &mut Value) {
    without_nulls(Some(node), value);
}

fn without_nulls(node: Option<&Node>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let below = node.and_then(|node| node.below(key));
            if value.is_null() && below.is_some_and(|n| !n.nullable && n.default.is_none()) {
                return false;
            }
            without_nulls(below, value);
            true
        }),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items.as_deref());
            for item in items.make_mut() {
                without_nulls(below, item);
            }
        }
        _ => {}
    }
}

pub fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, field) in &node.properties {
                if let Some(default) = &field.default {
                    let missing = map.get(name).is_none_or(|v| v.is_null() && !field.nullable);
                    if missing {
                        map.insert(name.clone(), default.clone());
                    }
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(field) = node.properties.get(key.as_str()) {
                    fill(field, value);
                } else if let Some(below) = node.values() {
                    instead_of_null(below, value);
                    fill(below, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &node.items {
                for item in items.make_mut() {
                    instead_of_null(below, item);
                    fill(below, item);
                }
            }
        }
        _ => {}
    }
}

fn instead_of_null(node: &Node, value: &mut Value) {
    if let (Value::Null, false, Some(default)) = (&*value, node.nullable, &node.default) {
        *value = default.clone();
    }
}
