//! The registry: the table of built-in resources, and a strategy for every kind.
//!
//! The rules are pure functions over JSON. They are called with objects that were decoded against the kind's
//! schema (right types, no unknown fields, no nulls), in this order:
//!
//! - every write: [`default`] on the decoded object, in the version it was sent in;
//! - create: system metadata (uid, creationTimestamp, name from generateName) is filled in, then [`prepare_create`],
//!   then [`validate_create`];
//! - update: [`prepare_update`], then [`validate_update`];
//! - update of `/status`: [`prepare_status`], then [`validate_status`].
//!
//! Nothing here looks at other objects, at the clock or at the store; the caller does (namespaces, cluster IPs,
//! priority classes, resource versions).

pub(crate) mod config;
pub(crate) mod declarative;
pub(crate) mod event;
pub(crate) mod fields;
pub(crate) mod generic;
pub(crate) mod json;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod rules;
pub(crate) mod served;
pub(crate) mod service;
pub(crate) mod shape;
pub(crate) mod table;
pub(crate) mod webhooks;
pub(crate) mod workload;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;

use crate::field::{FieldError, distinct};
use crate::json::{Map, Value};
use crate::resource::Resource;

pub(crate) use rules::{Rules, rules_of};

pub(crate) use fields::{
    has_own as has_selectable_fields, supports as supports_field, value as selectable_field,
};
pub(crate) use generic::content_changed;
pub(crate) use pod::tolerate_node_trouble;
pub(crate) use service::addresses as service_addresses;
pub(crate) use shape::complete;
pub use table::{all, built_in};

/// The propagation policy of a delete request that does not set one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents stay and lose the reference.
    Orphan,
    /// Dependents are collected after the owner is gone.
    Background,
}

/// Sets the fields that the server sets while it decodes an object, which was made from `base`, if that is given.
pub fn default(res: &Resource, obj: &mut Value, base: Option<&Value>) {
    // Defaults depend on the content and the labels.
    let is_same =
        |base: &Value| !content_changed(base, obj) && base["metadata"]["labels"] == obj["metadata"]["labels"];
    if res.custom.is_some() || base.is_some_and(is_same) {
        return;
    }
    // First what is always there, so that a body without a spec gets the defaults of an empty one.
    shape::complete(res, obj, base);
    declarative::default(res, obj, base);
    (rules_of(res).default)(obj);
}

/// Clears and sets what clients may not choose when they create. Name and uid must be known by now.
pub fn prepare_create(res: &Resource, obj: &mut Value) {
    let rules = rules_of(res);
    if res.custom.is_some() {
        crate::apiextensions::custom::prepare_create(res, obj);
    } else {
        if res.status && !rules.status_on_create {
            json::set(obj, "status", Map::new());
        }
        (rules.create)(obj);
        shape::complete(res, obj, None);
    }
    if rules.generation.is_some() {
        meta::first_generation(obj);
    }
}

/// Keeps what an update of the main endpoint may not touch, and counts the generation.
pub fn prepare_update(res: &Resource, old: &Value, new: &mut Value) {
    let rules = rules_of(res);
    meta::keep_system_fields(old, new);
    if res.status {
        json::keep(old, new, "status");
    }
    if res.custom.is_none() {
        (rules.update)(old, new);
        shape::complete(res, new, Some(old));
    }
    if rules.generation.is_some_and(|changed| changed(old, new)) {
        meta::next_generation(old, new);
    }
}

/// Keeps what an update of the status endpoint may not touch.
pub fn prepare_status(res: &Resource, old: &Value, new: &mut Value) {
    if res.custom.is_some() {
        crate::apiextensions::custom::prepare_status(old, new);
        return;
    }
    meta::keep_system_fields(old, new);
    json::keep(old, new, "spec");
    (rules_of(res).status)(old, new);
    shape::complete(res, new, Some(old));
}

/// Keeps what an update of a namespace's finalize endpoint may not touch.
pub fn prepare_finalize(res: &Resource, old: &Value, new: &mut Value) {
    meta::keep_system_fields(old, new);
    json::keep(old, new, "status");
    shape::complete(res, new, Some(old));
}

/// Keeps everything of a pod but its ephemeral containers, and counts the generation.
pub fn prepare_ephemeral_containers(res: &Resource, old: &Value, new: &mut Value) {
    pod::ephemeral::prepare(old, new);
    shape::complete(res, new, Some(old));
    if Rules::spec_changed(old, new) {
        meta::next_generation(old, new);
    }
}

/// Validates an update of a pod's ephemeral containers.
#[must_use]
pub fn validate_ephemeral_containers(res: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata_update(res, old, new, names::segment_name);
    declarative::validate(res, new, &mut errors);
    (rules_of(res).validate)(new, &mut errors);
    pod::ephemeral::validate(old, new, &mut errors);
    distinct(errors)
}

/// Validates a new object.
#[must_use]
pub fn validate_create(res: &Resource, obj: &Value) -> Vec<FieldError> {
    let rules = rules_of(res);
    let mut errors = meta::validate(&obj["metadata"], res.namespaced, rules.name);
    validate_finalizers(res, obj, &mut errors);
    declarative::validate(res, obj, &mut errors);
    if rules.status_on_create {
        declarative::validate_status(res, obj, &mut errors);
    }
    (rules.validate)(obj, &mut errors);
    (rules.validate_create)(obj, &mut errors);
    crate::apiextensions::custom::validate_create(res, obj, &mut errors);
    distinct(errors)
}

/// Validates an update of the main endpoint.
#[must_use]
pub fn validate_update(res: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    let rules = rules_of(res);
    let mut errors = validate_metadata_update(res, old, new, rules.name_on_update);
    // Content that did not change was valid when it was stored.
    if content_changed(old, new) {
        declarative::validate(res, new, &mut errors);
        (rules.validate)(new, &mut errors);
        (rules.validate_update)(old, new, &mut errors);
    }
    crate::apiextensions::custom::validate_update(res, old, new, &mut errors);
    distinct(errors)
}

/// Validates an update of the status endpoint.
#[must_use]
pub fn validate_status(res: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata_update(res, old, new, names::segment_name);
    declarative::validate_status(res, new, &mut errors);
    (rules_of(res).validate_status)(old, new, &mut errors);
    crate::apiextensions::custom::validate_status(res, old, new, &mut errors);
    distinct(errors)
}

/// Validates an update of a namespace's finalize endpoint.
#[must_use]
pub fn validate_finalize(res: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata_update(res, old, new, names::segment_name);
    namespace::validate_finalize(new, &mut errors);
    distinct(errors)
}

/// Validates the metadata of an update.
fn validate_metadata_update(
    res: &Resource,
    old: &Value,
    new: &Value,
    name: names::NameRule,
) -> Vec<FieldError> {
    let mut errors = meta::validate(&new["metadata"], res.namespaced, name);
    meta::validate_update(&old["metadata"], &new["metadata"], &mut errors);
    validate_finalizers(res, new, &mut errors);
    errors
}

/// Validates finalizers. Some kinds accept any qualified name.
fn validate_finalizers(res: &Resource, obj: &Value, errors: &mut Vec<FieldError>) {
    let lenient = res.custom.is_some()
        || matches!(
            res.kind.as_str(),
            "CustomResourceDefinition"
                | "Lease"
                | "MutatingWebhookConfiguration"
                | "PodDisruptionBudget"
                | "ValidatingWebhookConfiguration"
        )
        || (res.kind == "Event" && res.group.is_empty());
    if !lenient {
        for (i, finalizer) in json::list(&obj["metadata"]["finalizers"]).iter().enumerate() {
            let path = format!("metadata.finalizers[{i}]");
            meta::validate_finalizer(json::text(finalizer), &path, errors);
        }
    }
}

/// Validates the metadata of an object inside of another. It need not have a name.
#[must_use]
pub fn validate_embedded_metadata(metadata: &Value, path: &str) -> Vec<FieldError> {
    let mut metadata = metadata.clone();
    json::default_text(&mut metadata, "name", "unnamed");
    let namespaced = !json::text(&metadata["namespace"]).is_empty();
    let mut errors = meta::validate(&metadata, namespaced, names::segment_name);
    for error in &mut errors {
        if let Some(below) = error.field.strip_prefix("metadata") {
            error.field = format!("{path}{below}");
        }
    }
    errors
}

/// Validates the name of a kind.
#[must_use]
pub fn kind_name(kind: &str) -> Vec<String> {
    names::dns_1035_label(&kind.to_lowercase())
}

/// Whether the served version has other fields than the one that is stored.
#[must_use]
pub fn is_converted(res: &Resource) -> bool {
    res.custom.is_none() && res.group == "events.k8s.io"
}

/// Turns an object of the served version into the one that is stored.
pub fn to_stored(res: &Resource, obj: &mut Value) {
    if is_converted(res) {
        event::to_core(obj);
    }
    json::set(obj, "apiVersion", res.stored_as.as_str());
}

/// Turns a stored object into the served version.
pub fn from_stored(res: &Resource, obj: &mut Value) {
    if is_converted(res) {
        event::from_core(obj);
    }
    json::set(obj, "apiVersion", res.api_version());
}

/// The version of a built-in kind that has other fields than this one has, if it is that.
#[must_use]
pub fn other_version(res: &Resource, api_version: &str) -> Option<&'static Resource> {
    if res.custom.is_some() || res.api_version() == api_version {
        return None;
    }
    let same = |other: &&Resource| other.collection == res.collection && other.api_version() == api_version;
    all().iter().find(same)
}

/// An object of one version in another one of the same kind.
#[must_use]
pub fn converted(from: &Resource, to: &Resource, obj: &Value) -> Value {
    let mut obj = obj.clone();
    to_stored(from, &mut obj);
    from_stored(to, &mut obj);
    obj
}

fn is_job(res: &Resource) -> bool {
    res.group == "batch" && res.kind == "Job"
}

/// Returns the propagation policy of a delete request that does not set one.
#[must_use]
pub fn default_propagation(res: &Resource) -> Propagation {
    let old_controller = res.group.is_empty() && res.kind == "ReplicationController";
    if old_controller || is_job(res) {
        Propagation::Orphan
    } else {
        Propagation::Background
    }
}

/// Returns the warning for a delete request that relied on the default.
#[must_use]
pub fn propagation_warning(res: &Resource) -> Option<&'static str> {
    is_job(res).then_some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
         or set propagationPolicy=Orphan to suppress this warning",
    )
}

/// Kinds that never wait for the garbage collector, whatever the request asks for.
#[must_use]
pub fn never_gets_gc_finalizers(res: &Resource) -> bool {
    res.collection == "events"
}

/// Whether PUT to a name that does not exist creates the object.
#[must_use]
pub fn allows_create_on_update(res: &Resource) -> bool {
    rules_of(res).create_on_update
}

/// Whether PUT without a resourceVersion overwrites whatever is there.
#[must_use]
pub fn allows_unconditional_update(res: &Resource) -> bool {
    rules_of(res).unconditional_update
}
