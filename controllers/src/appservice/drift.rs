//! Drift of a child from its desired state.
//!
//! Server-side apply restores removed fields, prunes fields that are no longer desired, and reports fields that another
//! field manager changed. A child needs an apply if the desired state differs from the last applied one
//! ([`APPLIED_HASH_LABEL`]), or if a desired field is missing or has another value. Fields of other managers are ignored.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::child::{Child, pairs_to_json};
use super::desired::APPLIED_HASH_LABEL;
use crate::support::quantity::billionths;

/// Maps of quantities, which are compared by value.
const QUANTITIES: [&str; 2] = ["limits", "requests"];

/// Why the desired state has to be applied to a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Drift {
    /// It differs from the last applied one.
    Desired,
    /// The first field that the child lacks, or has with another value.
    Field(String),
}

/// Returns why `desired` has to be applied to `present`, if it has to.
pub(super) fn drift(present: &impl Child, desired: &Value) -> Option<Drift> {
    let metadata = &desired["metadata"];
    let hash = present.meta().labels.get(APPLIED_HASH_LABEL).map(|it| &**it);
    if hash != metadata["labels"][APPLIED_HASH_LABEL].as_str() {
        return Some(Drift::Desired);
    }
    let labels = pairs_to_json(&present.meta().labels);
    let annotations = pairs_to_json(present.annotations());
    let field = difference("", &labels, &metadata["labels"])
        .map(|it| format!(".metadata.labels{it}"))
        .or_else(|| {
            let field = difference("", &annotations, &metadata["annotations"])?;
            Some(format!(".metadata.annotations{field}"))
        })
        .or_else(|| {
            Some(format!(
                ".spec{}",
                difference("", &present.spec(), &desired["spec"])?
            ))
        });
    field.map(Drift::Field)
}

/// Returns the path to the first field of `desired` that `present`, the value of `field`, lacks or has with another value.
/// List entries may have any position. Compares each value once, so its time is proportional to the size of the values.
fn difference(field: &str, present: &Value, desired: &Value) -> Option<String> {
    #[cfg(test)]
    tests::count_comparison();
    let unless = |same: bool| (!same).then(String::new);
    match desired {
        Value::Null => None,
        // The API server drops empty strings.
        Value::String(text) if text.is_empty() => unless(present.is_null() || present == desired),
        // An additional label selects fewer pods.
        Value::Object(_) if field == "selector" => unless(present == desired),
        Value::Object(fields) if QUANTITIES.contains(&field) => {
            let other = fields
                .iter()
                .find(|(key, value)| amount(&present[*key]) != amount(value));
            other.map(|(key, _)| format!(".{key}"))
        }
        Value::Object(fields) => fields
            .iter()
            .find_map(|(key, value)| Some(format!(".{key}{}", difference(key, &present[key], value)?))),
        Value::Array(items) => {
            let present = present.as_array().into_iter().flatten();
            // Of several entries with one key, such as variables of one name, the last one is in effect.
            let by_key: BTreeMap<_, _> = present.map(|it| (merge_key(it), it)).collect();
            items.iter().find_map(|item| {
                let key = merge_key(item);
                let field = match by_key.get(&key) {
                    Some(present) => difference("", present, item)?,
                    None => String::new(),
                };
                let key: Vec<_> = key.into_iter().flatten().collect();
                Some(format!("[{}]{field}", key.join(",")))
            })
        }
        scalar => unless(present == scalar),
    }
}

/// Returns the fields that identify an entry of a list, such as `name="app"`: port and protocol, or the name.
fn merge_key(item: &Value) -> [Option<String>; 2] {
    let text = |field: &str| item.get(field).map(|value| format!("{field}={value}"));
    match text("containerPort").or_else(|| text("port")) {
        Some(port) => [Some(port), text("protocol")],
        None => [text("name"), None],
    }
}

/// Returns a quantity in billionths; other values as they are.
fn amount(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return value.clone(),
    };
    billionths(&text).map_or_else(|| value.clone(), |amount| json!(amount.to_string()))
}

#[cfg(test)]
mod tests;
