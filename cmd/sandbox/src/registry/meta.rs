//! Object metadata: the rules of every kind, as upstream's `ValidateObjectMeta` has them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{entries, flag, keep_meta, list, number, section, set, text};
use crate::registry::names::NameRule;
use crate::registry::{labels, names};

/// All annotations of an object together may not take more bytes than this.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Restores the fields of the stored object that an update never changes. Generation is the server's alone; kinds count
/// it up afterwards.
pub(crate) fn keep_system_fields(old: &Value, new: &mut Value) {
    keep_meta(old, new, "generation");
    if text(&new["metadata"]["uid"]).is_empty() {
        keep_meta(old, new, "uid");
    }
    for always in ["creationTimestamp", "deletionTimestamp"] {
        if !old["metadata"][always].is_null() {
            keep_meta(old, new, always);
        }
    }
    if new["metadata"]["deletionGracePeriodSeconds"].is_null() {
        keep_meta(old, new, "deletionGracePeriodSeconds");
    }
}

/// The generation of the first version.
pub(crate) fn first_generation(obj: &mut Value) {
    if let Some(meta) = section(obj, "metadata") {
        set(meta, "generation", 1);
    }
}

/// One more than the stored object's generation.
pub(crate) fn next_generation(old: &Value, new: &mut Value) {
    let next = number(&old["metadata"]["generation"]) + 1;
    if let Some(meta) = section(new, "metadata") {
        set(meta, "generation", next);
    }
}

/// Metadata of any object, new or updated.
pub(crate) fn validate(meta: &Value, namespaced: bool, name_rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate = text(&meta["generateName"]);
    if !generate.is_empty() {
        for wrong in name_rule(generate, true) {
            errors.invalid("metadata.generateName", generate, wrong);
        }
    }
    let name = text(&meta["name"]);
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else {
        for wrong in name_rule(name, false) {
            errors.invalid("metadata.name", name, wrong);
        }
    }
    errors.extend(validate_namespace(text(&meta["namespace"]), namespaced));
    let generation = number(&meta["generation"]);
    if generation < 0 {
        errors.invalid(
            "metadata.generation",
            generation,
            "must be greater than or equal to 0",
        );
    }
    errors.extend(validate_maps_and_owners(meta));
    errors.extend(validate_finalizers(&meta["finalizers"]));
    errors
}

fn validate_namespace(namespace: &str, namespaced: bool) -> Vec<FieldError> {
    match (namespaced, namespace) {
        (true, "") => vec![FieldError::required("metadata.namespace", "")],
        (true, namespace) => names::dns_label(namespace)
            .into_iter()
            .map(|wrong| FieldError::invalid("metadata.namespace", namespace, wrong))
            .collect(),
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(
            "metadata.namespace",
            "not allowed on this type",
        )],
    }
}

/// Checks of create and of every update.
fn validate_maps_and_owners(meta: &Value) -> Vec<FieldError> {
    let mut errors = labels::validate(&meta["labels"], "metadata.labels");
    errors.extend(validate_annotations(&meta["annotations"], "metadata.annotations"));
    errors.extend(validate_owners(&meta["ownerReferences"]));
    errors
}

/// Checks annotations: keys like label keys but in any case, values of any form, all together not too big.
pub(crate) fn validate_annotations(annotations: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in entries(annotations) {
        for wrong in names::qualified(&key.to_lowercase()) {
            errors.invalid(path, key, wrong);
        }
        size += key.len() + text(value).len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT));
    }
    errors
}

fn validate_owners(owners: &Value) -> Vec<FieldError> {
    const PATH: &str = "metadata.ownerReferences";
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in list(owners) {
        let (api_version, kind) = (text(&owner["apiVersion"]), text(&owner["kind"]));
        // "v1" is a version, "apps/v1" a group and a version, and anything else has no version that could be read.
        let version = match api_version.split('/').collect::<Vec<_>>().as_slice() {
            [version] | [_, version] => *version,
            _ => "",
        };
        if version.is_empty() {
            errors.invalid(
                format!("{PATH}.apiVersion"),
                api_version,
                "version must not be empty",
            );
        }
        for (key, value) in [
            ("kind", kind),
            ("name", text(&owner["name"])),
            ("uid", text(&owner["uid"])),
        ] {
            if value.is_empty() {
                errors.invalid(format!("{PATH}.{key}"), value, "must not be empty");
            }
        }
        if api_version == "v1" && kind == "Event" {
            errors.invalid(
                PATH,
                owner.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            );
        }
        if flag(&owner["controller"]) {
            let this = format!("{kind}/{}", text(&owner["name"]));
            match &controller {
                Some(first) => errors.invalid(
                    PATH,
                    owners.clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for \
                         {first} and {this}"
                    ),
                ),
                None => controller = Some(this),
            }
        }
    }
    errors
}

fn validate_finalizers(finalizers: &Value) -> Vec<FieldError> {
    const PATH: &str = "metadata.finalizers";
    let mut errors = Vec::new();
    for finalizer in list(finalizers).iter().map(text) {
        for wrong in names::qualified(finalizer) {
            errors.invalid(PATH, finalizer, wrong);
        }
    }
    let has = |name: &str| list(finalizers).iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid(
            PATH,
            finalizers.clone(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
    errors
}

/// Most kinds also want finalizers to say whose they are, but for the few that the server itself knows.
pub(crate) fn validate_finalizer_owners(meta: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, finalizer) in list(&meta["finalizers"]).iter().map(text).enumerate() {
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            errors.invalid(
                format!("metadata.finalizers[{i}]"),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
    errors
}

/// Metadata of an update, after [`keep_system_fields`].
pub(crate) fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        errors.extend(validate_no_new_finalizers(&old["finalizers"], &new["finalizers"]));
    }
    let generation = number(&new["generation"]);
    if generation < number(&old["generation"]) {
        errors.invalid("metadata.generation", generation, "must not be decremented");
    }
    for key in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        errors.extend(immutable(&old[key], &new[key], &format!("metadata.{key}")));
    }
    errors.extend(validate_maps_and_owners(new));
    errors
}

fn validate_no_new_finalizers(old: &Value, new: &Value) -> Option<FieldError> {
    let old: BTreeSet<&str> = list(old).iter().map(text).collect();
    let added: BTreeSet<&str> = list(new)
        .iter()
        .map(text)
        .filter(|name| !old.contains(name))
        .collect();
    if added.is_empty() {
        return None;
    }
    let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
    Some(FieldError::forbidden(
        "metadata.finalizers",
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ),
    ))
}

/// A field that may not change any more.
pub(crate) fn immutable(old: &Value, new: &Value, path: &str) -> Option<FieldError> {
    (!crate::registry::json::same(old, new))
        .then(|| FieldError::invalid(path, new.clone(), "field is immutable"))
}

/// An integer that may not be negative; absent is fine.
pub(crate) fn non_negative(value: &Value, path: impl Into<String>) -> Option<FieldError> {
    let number = number(value);
    (number < 0).then(|| FieldError::invalid(path, number, "must be greater than or equal to 0"))
}
