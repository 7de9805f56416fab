//! Lists that are sets or maps: no item, and no key, stands twice.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::apiextensions::structural::node::{List, Node};
use crate::apiextensions::structural::path::Path;
use crate::field::FieldError;

/// What stands twice in an object.
pub fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(values) = node.values() {
                    validate(values, value, &path.key(key), errors);
                }
                if let Some(field) = node.properties.get(key) {
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
        errors.push(FieldError::invalid(path.index(index).field(), item.clone(), why));
        return;
    }
    let keys: Vec<Value> = items.iter().map(|item| key_of(keys, item)).collect();
    duplicates(&keys, path, errors);
}

/// What tells an item of a map list from the others.
pub fn key_of(keys: &[String], item: &Value) -> Value {
    let pairs = keys
        .iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// The items of a list that is a map, to be found by their keys. Of other lists there is none to be found.
pub struct Keyed<'a> {
    keys: &'a [String],
    items: BTreeMap<String, &'a Value>,
}

/// What was in a list; of items that stand twice, the first.
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
    /// What was there under the keys of an item.
    pub fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key_of(self.keys, item).to_string()).copied()
    }
}

/// Every value that was there before is told once, at its second place.
fn duplicates(items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if items.len() < 2 {
        return;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(path.index(index).field(), item.clone()));
        }
    }
}
