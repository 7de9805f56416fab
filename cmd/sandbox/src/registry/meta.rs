//! Object metadata: the rules of every kind, as upstream's `ValidateObjectMeta` has them.

use std::collections::BTreeSet;
use std::fmt;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::declarative::validate_labels;
use crate::registry::json::{entries, flag, keep_meta, list, number, section, set, text};
use crate::registry::names;
use crate::registry::names::NameRule;
use crate::schema::Path;

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

/// Validates the metadata of any object, new or updated.
pub(crate) fn validate(meta: &Value, namespaced: bool, name_rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let [name, generate] = ["name", "generateName"].map(|key| text(&meta[key]));
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    }
    for (key, value, prefix) in [("name", name, false), ("generateName", generate, true)] {
        if !value.is_empty() {
            for wrong in name_rule(value, prefix) {
                errors.invalid(format!("metadata.{key}"), value, wrong);
            }
        }
    }
    validate_namespace(text(&meta["namespace"]), namespaced, &mut errors);
    errors.extend(non_negative(&meta["generation"], "metadata.generation"));
    validate_maps_and_owners(meta, &mut errors);
    validate_finalizers(&meta["finalizers"], &mut errors);
    errors
}

fn validate_namespace(namespace: &str, namespaced: bool, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.namespace";
    match (namespaced, namespace) {
        (true, "") => errors.required(PATH, ""),
        (true, namespace) => errors.format(PATH, namespace, names::dns_label),
        (false, "") => {}
        (false, _) => errors.forbidden(PATH, "not allowed on this type"),
    }
}

/// Validates labels, annotations and owner references, on create and on every update.
fn validate_maps_and_owners(meta: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::Root.key("metadata");
    validate_labels(&meta["labels"], &path.key("labels"), errors);
    validate_annotations(&meta["annotations"], &path.key("annotations"), errors);
    validate_owners(&meta["ownerReferences"], errors);
}

/// Validates the keys of annotations, which may be in any case, and their total size.
pub(crate) fn validate_annotations(annotations: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in entries(annotations) {
        errors.format(path, &key.to_lowercase(), names::qualified);
        size += key.len() + text(value).len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT));
    }
}

fn validate_owners(owners: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.ownerReferences";
    for owner in list(owners) {
        // "v1" is a version, "apps/v1" a group and a version.
        let version = match text(&owner["apiVersion"])
            .split('/')
            .collect::<Vec<_>>()
            .as_slice()
        {
            [version] | [_, version] => *version,
            _ => "",
        };
        let [kind, name, uid] = ["kind", "name", "uid"].map(|key| text(&owner[key]));
        for (key, value) in [
            ("apiVersion", version),
            ("kind", kind),
            ("name", name),
            ("uid", uid),
        ] {
            if value.is_empty() {
                errors.invalid(format!("{PATH}.{key}"), owner[key].clone(), "must not be empty");
            }
        }
        if owner["apiVersion"] == "v1" && kind == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(PATH, owner.clone(), why);
        }
    }
    let mut controllers = list(owners).iter().filter(|owner| flag(&owner["controller"]));
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let [first, second] =
            [first, second].map(|owner| format!("{}/{}", text(&owner["kind"]), text(&owner["name"])));
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
             {second}"
        );
        errors.invalid(PATH, owners.clone(), why);
    }
}

fn validate_finalizers(finalizers: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.finalizers";
    for finalizer in list(finalizers) {
        errors.format(PATH, text(finalizer), names::qualified);
    }
    let has = |name: &str| list(finalizers).iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(PATH, finalizers.clone(), why);
    }
}

/// Validates a finalizer of a kind that accepts only the finalizers of the server and names with a domain.
pub(crate) fn validate_finalizer(finalizer: &str, path: &str, errors: &mut Vec<FieldError>) {
    if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(path, finalizer, why);
    }
}

/// Validates the metadata of an update, after [`keep_system_fields`].
pub(crate) fn validate_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    if !old["deletionTimestamp"].is_null() {
        validate_no_new_finalizers(&old["finalizers"], &new["finalizers"], errors);
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
        errors.extend(immutable(&old[key], &new[key], format_args!("metadata.{key}")));
    }
}

fn validate_no_new_finalizers(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let added = list(new).iter().filter(|name| !list(old).contains(name));
    let added: BTreeSet<&str> = added.map(text).collect();
    if !added.is_empty() {
        let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.forbidden("metadata.finalizers", why);
    }
}

/// Returns an error if an immutable field changes.
pub(crate) fn immutable(old: &Value, new: &Value, path: impl fmt::Display) -> Option<FieldError> {
    (!crate::registry::json::same(old, new))
        .then(|| FieldError::invalid(path.to_string(), new.clone(), "field is immutable"))
}

/// Returns an error if an integer is negative.
pub(crate) fn non_negative(value: &Value, path: impl Into<String>) -> Option<FieldError> {
    let number = number(value);
    (number < 0).then(|| FieldError::invalid(path, number, "must be greater than or equal to 0"))
}
