//! Pruning of unknown fields. Mirrors `schema/pruning`.

use crate::apiextensions::structural::node::{Additional, Node};
use crate::apiextensions::structural::path::Path;
use crate::json::{Map, Value};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields, and returns their paths. `root` says whether `value` is a whole resource, whose metadata is not
/// pruned.
pub fn prune(node: &Node, value: &mut Value, root: bool) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(
        Some(node),
        value,
        root || node.embedded,
        &Path::Root,
        &mut dropped,
    );
    dropped.sort();
    dropped
}

fn walk(node: Option<&Node>, value: &mut Value, resource: bool, path: &Path<'_>, dropped: &mut Vec<String>) {
    let preserve = node.is_some_and(|node| node.preserve);
    match value {
        Value::Object(map) => object(node, map, resource, preserve, path, dropped),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items.as_deref());
            for (index, item) in items.make_mut().iter_mut().enumerate() {
                let path = path.index(index);
                // Items of a list that preserves unknown fields are preserved too.
                if preserve {
                    preserved(below, item, &path, dropped);
                } else {
                    walk(below, item, below.is_some_and(|n| n.embedded), &path, dropped);
                }
            }
        }
        _ => {}
    }
}

fn object(
    node: Option<&Node>,
    map: &mut Map,
    resource: bool,
    preserve: bool,
    path: &Path<'_>,
    dropped: &mut Vec<String>,
) {
    map.retain(|key, value| {
        let meta = META.contains(&key.as_str());
        if resource && meta {
            return true;
        }
        let below = path.child(key);
        if let Some(field) = node.and_then(|node| node.properties.get(key.as_str())) {
            walk(Some(field), value, field.embedded, &below, dropped);
        } else if let Some(additional) = node.and_then(|node| node.additional.as_ref()) {
            let schema = match additional {
                Additional::Of(schema) => Some(&**schema),
                Additional::Any | Additional::None => None,
            };
            walk(schema, value, schema.is_some_and(|n| n.embedded), &below, dropped);
        } else if !preserve {
            if !meta || !matches!(path, Path::Root) {
                dropped.push(below.to_string());
            }
            return false;
        }
        true
    });
}

/// Below `x-kubernetes-preserve-unknown-fields`, pruning resumes where the schema specifies fields.
fn preserved(node: Option<&Node>, value: &mut Value, path: &Path<'_>, dropped: &mut Vec<String>) {
    let Some(node) = node else {
        return;
    };
    match value {
        Value::Object(map) => object(Some(node), map, node.embedded, true, path, dropped),
        Value::Array(items) => {
            for (index, item) in items.make_mut().iter_mut().enumerate() {
                preserved(node.items.as_deref(), item, &path.index(index), dropped);
            }
        }
        _ => {}
    }
}
