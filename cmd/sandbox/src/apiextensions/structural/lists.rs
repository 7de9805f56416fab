//! Set lists and map lists: duplicate items and duplicate keys are rejected.

use std::collections::BTreeMap;

use crate::apiextensions::structural::node::{List, Node};
use crate::apiextensions::structural::path::Path;
use crate::field::{FieldError, Report};
use crate::json::{Map, Value};

/// Reports duplicates in an object.
pub fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(values) = node.values() {
                    validate(values, value, &path.key(key), errors);
                }
                if let Some(field) = node.properties.get(key.as_str()) {
                    validate(field, value, &path.child(key), errors);
                }
            }
        }
        Value::Array(items) => {
            match &node.list {
                List::Atomic => {}
                List::Set => duplicates(items, path, errors),
                List::Map(keys) => map_list(keys, items, path, errors),
            }
            if let Some(below) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    validate(below, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn map_list(keys: &[String], items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let odd = items
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_object() && !item.is_null());
    if let Some((index, item)) = odd {
        let why = "must be an object for an array of list-type map";
        errors.invalid(path.index(index).field(), item.clone(), why);
        return;
    }
    let keys: Vec<Value> = items.iter().map(|item| key_of(keys, item)).collect();
    duplicates(&keys, path, errors);
}

/// Returns the key values of an item of a map list.
pub fn key_of(keys: &[String], item: &Value) -> Value {
    let pairs = keys
        .iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(pairs.collect::<Map>())
}

/// The items of a map list by their keys. Items of other lists are not correlatable.
pub struct Keyed<'a> {
    keys: &'a [String],
    items: BTreeMap<String, &'a Value>,
}

/// The old items of a list; the first one of duplicates.
pub fn by_key<'a>(list: &'a List, before: Option<&'a Value>) -> Keyed<'a> {
    let (List::Map(keys), Some(Value::Array(items))) = (list, before) else {
        return Keyed {
            keys: &[],
            items: BTreeMap::new(),
        };
    };
    let items = items
        .iter()
        .rev()
        .map(|item| (key_of(keys, item).to_string(), item));
    Keyed {
        keys,
        items: items.collect(),
    }
}

impl<'a> Keyed<'a> {
    /// Returns the old item with the same keys.
    pub fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key_of(self.keys, item).to_string()).copied()
    }
}

/// Reports every duplicate once, at its second index.
fn duplicates(items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if items.len() < 2 {
        return;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.duplicate(path.index(index).field(), item.clone());
        }
    }
}
