//! Persistent volume claims.

use serde_json::{Value, json};

use super::json::{default_text, keep, list, remove, section, set, set_default, text};
use super::{Rules, labels, names, pod};
use crate::field::FieldError;
use crate::quantity::Quantity;

/// Keeps a claim until no pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) const CLAIM: Rules = Rules {
    name_on_update: names::subdomain_name,
    default: default_claim,
    create: |claim| {
        set(claim, "status", json!({"phase": "Pending"}));
        if let Some(meta) = section(claim, "metadata")
            && !list(&meta["finalizers"])
                .iter()
                .any(|finalizer| finalizer == PROTECTION)
        {
            let mut finalizers = list(&meta["finalizers"]).to_vec();
            finalizers.push(PROTECTION.into());
            set(meta, "finalizers", finalizers);
        }
    },
    validate: |claim| validate_claim_spec(&claim["spec"], "spec"),
    validate_update,
    ..Rules::GENERIC
};

/// Defaults of a claim or of a claim template.
pub(super) fn default_claim(claim: &mut Value) {
    if let Some(spec) = section(claim, "spec") {
        set_default(spec, "volumeMode", "Filesystem");
        set_default(spec, "resources", json!({}));
    }
    if let Some(status) = section(claim, "status") {
        default_text(status, "phase", "Pending");
    }
}

/// Checks the spec of a claim or of a claim template.
pub(super) fn validate_claim_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let modes = list(&spec["accessModes"]);
    if modes.is_empty() {
        errors.push(FieldError::required(
            format!("{path}.accessModes"),
            "at least 1 access mode is required",
        ));
    }
    errors.extend(labels::validate_selector(
        &spec["selector"],
        &format!("{path}.selector"),
    ));
    for mode in modes.iter().map(text).filter(|mode| !MODES.contains(mode)) {
        errors.push(FieldError::not_supported(
            format!("{path}.accessModes"),
            mode,
            &MODES,
        ));
    }
    let known = || modes.iter().map(text).filter(|mode| MODES.contains(mode));
    if known().any(|mode| mode == "ReadWriteOncePod") && known().any(|mode| mode != "ReadWriteOncePod") {
        errors.push(FieldError::forbidden(
            format!("{path}.accessModes"),
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
    let storage = &spec["resources"]["requests"]["storage"];
    let storage_path = format!("{path}.resources[storage]");
    match Quantity::read(storage) {
        None if storage.is_null() => errors.push(FieldError::required(storage_path, "")),
        Some(amount) if !amount.is_positive() => {
            errors.push(FieldError::invalid(
                storage_path,
                amount.text(),
                "must be greater than zero",
            ));
        }
        _ => {
            pod::validate_amount("storage", storage, &storage_path, &mut errors);
        }
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        for wrong in names::dns_subdomain(class) {
            errors.push(FieldError::invalid(
                format!("{path}.storageClassName"),
                class,
                wrong,
            ));
        }
    }
    let mode = text(&spec["volumeMode"]);
    if !matches!(mode, "Block" | "Filesystem") {
        errors.push(FieldError::not_supported(
            format!("{path}.volumeMode"),
            mode,
            &["Block", "Filesystem"],
        ));
    }
    errors
}

/// A claim may be given a volume and, once bound, ask for another size; nothing else about it changes.
fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_claim_spec(&new["spec"], "spec");
    let before = &old["spec"];
    let mut rest = new["spec"].clone();
    for key in ["volumeName", "storageClassName"] {
        if before[key].is_null() {
            remove(&mut rest, key);
        }
    }
    if text(&new["status"]["phase"]) == "Bound" {
        keep(before, &mut rest, "volumeAttributesClassName");
        if let Some(requests) = rest.pointer_mut("/resources/requests") {
            keep(&before["resources"]["requests"], requests, "storage");
        }
    }
    if rest != *before {
        errors.push(FieldError::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
             claims",
        ));
    }
    let amount = |value: &Value| Quantity::read(value);
    let [old_size, new_size] =
        [before, &new["spec"]].map(|spec| amount(&spec["resources"]["requests"]["storage"]));
    if let (Some(old_size), Some(new_size)) = (old_size, new_size)
        && old_size.exceeds(new_size)
        // A request that could not be met may be lowered again, but not below what there is already.
        && amount(&old["status"]["capacity"]["storage"]).is_none_or(|size| !new_size.exceeds(size))
    {
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kinds::testing::{create_errors, created, updated};

    fn claim(extra: Value) -> Value {
        let mut spec =
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        if let (Some(spec), Value::Object(extra)) = (spec.as_object_mut(), extra) {
            spec.extend(extra);
        }
        json!({ "spec": spec })
    }

    #[test]
    fn a_new_claim_is_pending_and_protected() {
        let claim = created("persistentvolumeclaims", claim(json!({})));
        assert_eq!(claim["spec"]["volumeMode"], "Filesystem");
        assert_eq!(claim["status"], json!({"phase": "Pending"}));
        assert_eq!(
            claim["metadata"]["finalizers"],
            json!(["kubernetes.io/pvc-protection"])
        );
    }

    #[test]
    fn claims_ask_for_something() {
        assert_eq!(
            create_errors("persistentvolumeclaims", json!({"spec": {}})),
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ]
        );
    }

    #[test]
    fn unbound_claims_do_not_change() {
        let (_, errors) = updated(
            "persistentvolumeclaims",
            claim(json!({})),
            claim(json!({"volumeName": "pv1"})),
        );
        assert_eq!(errors, Vec::<String>::new());
        let (_, errors) = updated(
            "persistentvolumeclaims",
            claim(json!({})),
            claim(json!({"volumeMode": "Block"})),
        );
        assert!(
            errors[0].starts_with("spec: Forbidden: spec is immutable after creation"),
            "{errors:?}"
        );
    }
}
