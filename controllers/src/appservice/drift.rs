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

/// Returns whether `desired` has to be applied to `present`.
pub(super) fn needs_apply(present: &impl Child, desired: &Value) -> bool {
    let metadata = &desired["metadata"];
    let hash = present.meta().labels.get(APPLIED_HASH_LABEL).map(|it| &**it);
    hash != metadata["labels"][APPLIED_HASH_LABEL].as_str()
        || !covers("", &pairs_to_json(&present.meta().labels), &metadata["labels"])
        || !covers(
            "",
            &pairs_to_json(present.annotations()),
            &metadata["annotations"],
        )
        || !covers("", &present.spec(), &desired["spec"])
}

/// Returns whether `present`, the value of `field`, has every field of `desired` with the same value. List entries
/// may have any position. Compares each value once, so its time is proportional to the size of the values.
fn covers(field: &str, present: &Value, desired: &Value) -> bool {
    #[cfg(test)]
    tests::count_comparison();
    match desired {
        Value::Null => true,
        // The API server drops empty strings.
        Value::String(text) if text.is_empty() => present.is_null() || present == desired,
        // An additional label selects fewer pods.
        Value::Object(_) if field == "selector" => present == desired,
        Value::Object(fields) if QUANTITIES.contains(&field) => fields
            .iter()
            .all(|(key, value)| amount(&present[key]) == amount(value)),
        Value::Object(fields) => fields
            .iter()
            .all(|(key, value)| covers(key, &present[key], value)),
        Value::Array(items) => {
            let present = present.as_array().into_iter().flatten();
            // Of several entries with one key, such as variables of one name, the last one is in effect.
            let by_key: BTreeMap<_, _> = present.map(|it| (merge_key(it), it)).collect();
            let present = |item| by_key.get(&merge_key(item)).copied();
            items
                .iter()
                .all(|item| present(item).is_some_and(|it| covers("", it, item)))
        }
        scalar => present == scalar,
    }
}

/// Returns the fields that identify an entry of a list: port and protocol, or the name.
fn merge_key(item: &Value) -> [Option<String>; 2] {
    let text = |field: &str| item.get(field).map(Value::to_string);
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
