//! Drift of a child from the desired state: whether an apply is due, and whether the ownerReference follows the policy.
//!
//! Server-side apply restores fields that were removed, prunes fields that are no longer desired, and reports fields that
//! another field manager changed. An apply is due when the desired state is another one than the last applied
//! ([`APPLIED`]), or when a desired field is missing or has another value. Fields beside the desired ones are never read.

use coxswain_manager::object::{Meta, Object, StringMap};
use coxswain_manager::owner::{adopt_patch, release_patch};
use serde_json::{Map, Value, json};

use super::APP_SERVICES;
use super::children::APPLIED;
use super::service::Service;
use crate::api::app_service::{AppService, Policy};
use crate::support::deployment::Deployment;
use crate::support::quantity::billionths;

/// Maps of quantities, which compare by value.
const QUANTITIES: [&str; 2] = ["limits", "requests"];

/// A child, with the fields that are compared.
pub trait Child: Object {
    /// The annotations.
    fn annotations(&self) -> &StringMap;
    /// The spec, as far as an `AppService` can desire it.
    fn spec(&self) -> Value;
}

impl Child for Deployment {
    fn annotations(&self) -> &StringMap {
        &self.annotations
    }

    fn spec(&self) -> Value {
        json!({
            "replicas": self.replicas(),
            "selector": read(Some(self.selector_text())),
            "template": read(Some(&self.template().text)),
        })
    }
}

impl Child for Service {
    fn annotations(&self) -> &StringMap {
        &self.metadata.annotations
    }

    fn spec(&self) -> Value {
        json!({"selector": object(&self.spec.selector), "ports": read(self.spec.ports.as_deref())})
    }
}

/// Returns whether `desired` has to be applied to `present`.
#[must_use]
pub fn is_apply_due(present: &impl Child, desired: &Value) -> bool {
    let metadata = &desired["metadata"];
    let hash = present.meta().labels.get(APPLIED).map(|it| &**it);
    hash != metadata["labels"][APPLIED].as_str()
        || !covers("", &object(&present.meta().labels), &metadata["labels"])
        || !covers("", &object(present.annotations()), &metadata["annotations"])
        || !covers("", &present.spec(), &desired["spec"])
}

/// Returns the merge patch that makes the ownerReference of a child what the policy of `app` asks for; none if it is.
#[must_use]
pub fn reference(app: &AppService, child: &Meta) -> Option<Value> {
    match app.spec.policy() {
        Policy::Orphan => release_patch(&app.metadata, child),
        Policy::Delete => (!refers(app, child)).then(|| adopt_patch(&APP_SERVICES, &app.metadata, child)),
    }
}

/// Returns whether `child` has exactly the controller reference to `app` that is desired.
#[must_use]
pub fn refers(app: &AppService, child: &Meta) -> bool {
    child.owner_references.iter().any(|it| {
        it.uid == app.metadata.uid
            && it.controller
            && it.block_owner_deletion
            && it.name == app.metadata.name
            && it.kind == *APP_SERVICES.kind
            && it.api_version == *APP_SERVICES.api_version()
    })
}

/// Returns whether `present`, the value of `field`, has every field of `desired` with the same value. An entry of a list may
/// be anywhere in it.
fn covers(field: &str, present: &Value, desired: &Value) -> bool {
    match desired {
        Value::Null => true,
        // The API drops empty texts.
        Value::String(text) if text.is_empty() => present.is_null() || present == desired,
        // A selector with another label selects fewer pods.
        Value::Object(_) if field == "selector" => present == desired,
        Value::Object(fields) if QUANTITIES.contains(&field) => fields
            .iter()
            .all(|(key, value)| amount(&present[key]) == amount(value)),
        Value::Object(fields) => fields
            .iter()
            .all(|(key, value)| covers(key, &present[key], value)),
        Value::Array(items) => {
            let present = present.as_array().map_or(&[][..], Vec::as_slice);
            items
                .iter()
                .all(|item| present.iter().any(|it| covers("", it, item)))
        }
        scalar => present == scalar,
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

fn object(pairs: &StringMap) -> Value {
    let pairs = pairs
        .into_iter()
        .map(|(key, value)| (key.to_string(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn read(text: Option<&str>) -> Value {
    text.and_then(|it| serde_json::from_str(it).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
