//! Merging an applied configuration into an object, and removing fields from an object, as in structured-merge-diff.

use std::collections::{BTreeMap, BTreeSet};

use crate::fieldmanager::compare::{list, object};
use crate::fieldmanager::fields::Fields;
use crate::fieldmanager::shape::{Keys, Layout, Shape};
use crate::fieldmanager::{element, fields};
use crate::json::{Map, Text, Value, json};

/// Merges the configuration into the live object. Both must be valid: their list items have unique keys.
pub(super) fn merge(shape: Shape<'_>, live: &Value, config: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let sample = if config.is_null() { live } else { config };
    let layout = shape.layout(sample);
    if layout == Layout::Leaf || (empty(live) && empty(config)) {
        return config.clone();
    }
    match layout {
        Layout::Items(keys) => merge_items(shape, &keys, list(Some(live)), list(Some(config))).into(),
        _ => merge_fields(shape, object(Some(live)), object(Some(config))).into(),
    }
}

fn merge_fields(shape: Shape<'_>, live: Option<&Map>, config: Option<&Map>) -> Map {
    let mut merged = live.cloned().unwrap_or_default();
    for (name, wanted) in config.into_iter().flatten() {
        let (inner, _) = shape.field(name).unwrap_or((Shape::Deduced, false));
        let value = match merged.get(name) {
            Some(present) => merge(inner, present, wanted),
            None => wanted.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

/// Merges list items. Items of the configuration keep its order; the other items keep their positions where possible.
fn merge_items(shape: Shape<'_>, keys: &Keys<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let elements = |items: &[Value]| -> Vec<Text> {
        let element = |item| shape.element(keys, item).unwrap_or_default();
        items.iter().map(element).collect()
    };
    let (left, right) = (elements(live), elements(config));
    let wanted: BTreeSet<&str> = right.iter().map(Text::as_str).collect();
    // A duplicate item is not merged: the applied item replaces it.
    let mut present: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    for (element, item) in left.iter().zip(live) {
        present
            .entry(element)
            .and_modify(|known| *known = None)
            .or_insert(Some(item));
    }
    let inner = shape.item();
    let merged = |element: &str, item: &Value| match present.get(element) {
        Some(Some(present)) => merge(inner, present, item),
        _ => item.clone(),
    };
    let mut shared = right
        .iter()
        .map(Text::as_str)
        .filter(|element| present.contains_key(element));
    let mut next = shared.next();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let (mut l, mut r) = (0, 0);
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    loop {
        match (left.get(l).map(Text::as_str), right.get(r).map(Text::as_str)) {
            (None, None) => return out,
            (Some(element), Some(other)) if element == other => {
                done.insert(element);
                out.push(merged(element, &config[r]));
                (l, r) = (l + 1, r + 1);
                next = shared.next();
            }
            // A later item of the configuration determines its position.
            (Some(element), Some(_)) if wanted.contains(element) && next.is_some_and(|n| n != element) => {
                l += 1;
            }
            (Some(element), _) if !wanted.contains(element) => {
                out.push(live[l].clone());
                l += 1;
            }
            (element, other) => {
                if element.is_some_and(|element| done.contains(element)) {
                    l += 1;
                }
                if let Some(other) = other {
                    done.insert(other);
                    out.push(merged(other, &config[r]));
                    r += 1;
                    if next == Some(other) {
                        next = shared.next();
                    }
                }
            }
        }
    }
}

/// Removes the fields of a set from a value. Atomic values are removed as a whole.
pub(super) fn remove(shape: Shape<'_>, value: &Value, gone: &Fields) -> Value {
    match shape.layout(value) {
        Layout::Leaf if value.is_object() || value.is_array() => Value::Null,
        Layout::Leaf => value.clone(),
        Layout::Object => {
            let mut rest = Map::new();
            for (name, value) in object(Some(value)).into_iter().flatten() {
                let (inner, _) = shape.field(name).unwrap_or((Shape::Deduced, false));
                if let Some(value) = without(inner, &element::field(name), value, gone) {
                    rest.insert(name.clone(), value);
                }
            }
            if rest.is_empty() { Value::Null } else { rest.into() }
        }
        Layout::Items(keys) => {
            let inner = shape.item();
            let rest: Vec<Value> = list(Some(value))
                .iter()
                .filter_map(|item| match shape.element(&keys, item) {
                    Ok(element) => without(inner, &element, item, gone),
                    Err(_) => Some(item.clone()),
                })
                .collect();
            if rest.is_empty() { Value::Null } else { rest.into() }
        }
    }
}

fn without(shape: Shape<'_>, element: &str, value: &Value, gone: &Fields) -> Option<Value> {
    match gone.get(element) {
        Some(node) if fields::is_member(node) => None,
        Some(Value::Object(below)) => Some(remove(shape, value, below)),
        _ => Some(value.clone()),
    }
}

/// Adds to a set all parents of its fields that the schema names.
pub(super) fn with_named(shape: Shape<'_>, set: &Fields) -> Fields {
    let mut all = Map::new();
    for (element, node) in fields::nodes(set) {
        let field = element.strip_prefix("f:").and_then(|name| shape.field(name));
        let (inner, named) = field.unwrap_or_else(|| (shape.item(), false));
        let below = match node {
            Value::Object(below) => with_named(inner, below),
            _ => Map::new(),
        };
        let member = fields::is_member(node) || named;
        all.extend(fields::node(member, below).map(|node| (element.clone(), node)));
    }
    all
}

/// Reconciles a set with a schema in which some parents of its fields may have become atomic.
pub(super) fn reconciled(shape: Shape<'_>, set: &Fields) -> Fields {
    let mut all = Map::new();
    for (element, node) in fields::nodes(set) {
        let field = element.strip_prefix("f:").map(|name| shape.field(name));
        let inner = match field {
            Some(None) => Shape::Deduced,
            Some(Some((inner, _))) => inner,
            None => shape.item(),
        };
        let one_value = match inner {
            Shape::Custom(schema, _) => {
                let sample = if schema["type"] == "array" {
                    json!([])
                } else {
                    Value::Null
                };
                schema["type"].is_string() && inner.layout(&sample) == Layout::Leaf
            }
            _ => false,
        };
        let node = match node {
            Value::Object(below) if !one_value => {
                fields::node(fields::is_member(node), reconciled(inner, below))
            }
            _ => fields::node(true, Map::new()),
        };
        all.extend(node.map(|node| (element.clone(), node)));
    }
    all
}
