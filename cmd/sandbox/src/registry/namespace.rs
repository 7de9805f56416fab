//! Strategy of Namespace.

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{default_text, keep, list, section, set, text};
use crate::registry::{Rules, names};

/// Lets policies select namespaces by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) const RULES: Rules = Rules {
    name_on_update: names::label_name,
    name: names::label_name,
    default: |namespace| {
        name_label(namespace);
        if let Some(status) = section(namespace, "status") {
            default_text(status, "phase", "Active");
        }
    },
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
    validate_update: |_, new| validate(new),
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

fn validate(namespace: &Value) -> Vec<FieldError> {
    let finalizers = list(&namespace["spec"]["finalizers"]).iter().map(text);
    finalizers
        .flat_map(|finalizer| validate_finalizer(finalizer, "spec.finalizers"))
        .collect()
}

/// Validates the finalizers.
pub(crate) fn validate_finalize(namespace: &Value) -> Vec<FieldError> {
    let finalizers = list(&namespace["spec"]["finalizers"]).iter().map(text);
    finalizers
        .enumerate()
        .flat_map(|(at, finalizer)| validate_finalizer(finalizer, &format!("spec.finalizers[{at}]")))
        .collect()
}

fn validate_finalizer(finalizer: &str, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = names::qualified(finalizer)
        .into_iter()
        .map(|wrong| FieldError::invalid(path, finalizer, wrong))
        .collect();
    if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(path, finalizer, why);
    }
    errors
}

fn validate_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let phase = text(&new["status"]["phase"]);
    let (expected, deleting) = if new["metadata"]["deletionTimestamp"].is_null() {
        ("Active", "empty")
    } else {
        ("Terminating", "not empty")
    };
    if phase == expected {
        return Vec::new();
    }
    vec![FieldError::invalid(
        "status.Phase",
        phase,
        format!("may only be '{expected}' if `deletionTimestamp` is {deleting}"),
    )]
}
