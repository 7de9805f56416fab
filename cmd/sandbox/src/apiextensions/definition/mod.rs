//! The strategy of CRDs. The module `structural` validates their schemas.

mod names;
mod spec;

use crate::field::FieldError;
use crate::json::{Value, json};
use crate::registry::Rules;
use crate::registry::json::{default_text, flag, list, section, set, set_default, text, with};
use crate::registry::meta::immutable;

pub(crate) const RULES: Rules = Rules {
    default,
    create: |crd| {
        set(crd, "status", json!({}));
        record_storage_version(crd);
    },
    update: |_, new| record_storage_version(new),
    generation: Some(Rules::spec_changed),
    validate: |crd, errors| errors.extend(validate(crd)),
    validate_create: |crd, errors| {
        errors.extend(names::object_name(crd));
        errors.extend(names::approval(crd, None));
    },
    validate_update,
    validate_status: |_, new, errors| {
        errors.extend(names::validate(
            &new["status"]["acceptedNames"],
            "status.acceptedNames",
        ));
    },
    unconditional_update: false,
    ..Rules::GENERIC
};

fn default(crd: &mut Value) {
    if let Some(spec) = section(crd, "spec") {
        let kind = text(&spec["names"]["kind"]).to_owned();
        if let Some(names) = section(spec, "names") {
            if !kind.is_empty() {
                default_text(names, "singular", &kind.to_lowercase());
                default_text(names, "listKind", &format!("{kind}List"));
            }
            set_default(names, "kind", "");
            set_default(names, "plural", "");
        }
        set_default(spec, "conversion", json!({"strategy": "None"}));
        with(spec, "conversion", |conversion| {
            with(conversion, "webhook", |webhook| {
                with(webhook, "clientConfig", |client| {
                    with(client, "service", |service| set_default(service, "port", 443));
                });
            });
        });
    }
    if list(&crd["status"]["storedVersions"]).is_empty() {
        record_storage_version(crd);
    }
}

/// Adds the storage version to `status.storedVersions`.
fn record_storage_version(crd: &mut Value) {
    let storage = list(&crd["spec"]["versions"])
        .iter()
        .find(|version| flag(&version["storage"]))
        .map(|version| Value::from(text(&version["name"])));
    if let Some(name) = storage
        && let Some(status) = section(crd, "status")
    {
        let mut stored = list(&status["storedVersions"]).to_vec();
        if !stored.contains(&name) {
            stored.push(name);
            set(status, "storedVersions", stored);
        }
    }
}

fn validate(crd: &Value) -> Vec<FieldError> {
    let mut errors = spec::validate(&crd["spec"]);
    errors.extend(names::validate(
        &crd["status"]["acceptedNames"],
        "status.acceptedNames",
    ));
    errors.extend(spec::stored_versions(crd));
    errors
}

fn validate_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let established = list(&old["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    if established {
        errors.extend(immutable(&before["scope"], &after["scope"], "spec.scope"));
        errors.extend(immutable(
            &before["names"]["kind"],
            &after["names"]["kind"],
            "spec.names.kind",
        ));
    }
    errors.extend(immutable(&before["group"], &after["group"], "spec.group"));
    errors.extend(immutable(
        &before["names"]["plural"],
        &after["names"]["plural"],
        "spec.names.plural",
    ));
    errors.extend(names::approval(new, Some(old)));
}
