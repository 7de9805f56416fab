//! Strategy of Namespace.

use crate::field::{FieldError, Report as _};
use crate::json::{Value, json};
use crate::registry::json::{keep, list, section, set, text};
use crate::registry::{Rules, meta, names};

/// Lets policies select namespaces by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) const RULES: Rules = Rules {
    name_on_update: names::label_name,
    name: names::label_name,
    default: name_label,
    create: |namespace| {
        name_label(namespace);
        set(namespace, "status", json!({"phase": "Active"}));
        hold(namespace);
    },
    update: |old, new| {
        // Only the finalize endpoint takes finalizers away.
        if let Some(spec) = section(new, "spec") {
            keep(&old["spec"], spec, "finalizers");
        }
    },
    validate,
    validate_status,
    ..Rules::GENERIC
};

fn name_label(namespace: &mut Value) {
    let name = text(&namespace["metadata"]["name"]).to_owned();
    if !name.is_empty()
        && let Some(meta) = section(namespace, "metadata")
        && let Some(labels) = section(meta, "labels")
    {
        set(labels, NAME_LABEL, name);
    }
}

/// A namespace is held until what is in it is gone.
fn hold(namespace: &mut Value) {
    if let Some(spec) = section(namespace, "spec")
        && !list(&spec["finalizers"])
            .iter()
            .any(|finalizer| finalizer == "kubernetes")
    {
        let mut finalizers = list(&spec["finalizers"]).to_vec();
        finalizers.push("kubernetes".into());
        set(spec, "finalizers", finalizers);
    }
}

fn validate(namespace: &Value, errors: &mut Vec<FieldError>) {
    for finalizer in list(&namespace["spec"]["finalizers"]).iter().map(text) {
        validate_finalizer(finalizer, "spec.finalizers", errors);
    }
}

/// Validates the finalizers that the finalize endpoint sets.
pub(crate) fn validate_finalize(namespace: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = list(&namespace["spec"]["finalizers"]).iter().map(text);
    for (i, finalizer) in finalizers.enumerate() {
        validate_finalizer(finalizer, &format!("spec.finalizers[{i}]"), errors);
    }
}

fn validate_finalizer(finalizer: &str, path: &str, errors: &mut Vec<FieldError>) {
    errors.format(path, finalizer, names::qualified);
    meta::validate_finalizer(finalizer, path, errors);
}

fn validate_status(_old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let phase = text(&new["status"]["phase"]);
    let (expected, deleting) = if new["metadata"]["deletionTimestamp"].is_null() {
        ("Active", "empty")
    } else {
        ("Terminating", "not empty")
    };
    if phase != expected {
        let why = format!("may only be '{expected}' if `deletionTimestamp` is {deleting}");
        errors.invalid("status.Phase", phase, why);
    }
}
