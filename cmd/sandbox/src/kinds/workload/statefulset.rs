//! Stateful sets.

use serde_json::{Value, json};

use super::super::json::{default_text, each, keep, list, remove, section, set, set_default, text};
use super::super::{Rules, names, pod, storage};
use super::{
    Owner, validate_at_most_all, validate_collisions, validate_count_or_percent, validate_counts,
    validate_selector_and_template, validate_status_counts,
};
use crate::field::FieldError;

const OWNER: Owner = Owner {
    selector_of: "statefulset",
    bad_selector: "",
    template_of: "StatefulSet",
};

/// What may change later; everything else is part of the identity of pods and claims.
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

pub(in super::super) const RULES: Rules = Rules {
    name: names::label_name,
    default,
    create: drop_max_unavailable,
    update: |old, new| {
        if old["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].is_null() {
            drop_max_unavailable(new);
        }
    },
    generation: Some(Rules::spec_changed),
    validate: |set| {
        let mut errors = validate(set);
        errors.extend(validate_identity(set));
        errors
    },
    validate_update,
    validate_status,
    ..Rules::GENERIC
};

fn default(stateful_set: &mut Value) {
    let Some(spec) = section(stateful_set, "spec") else {
        return;
    };
    default_text(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = section(spec, "updateStrategy") {
        if text(&strategy["type"]).is_empty() {
            set(strategy, "type", "RollingUpdate");
            set_default(strategy, "rollingUpdate", json!({}));
        }
        if text(&strategy["type"]) == "RollingUpdate"
            && let Some(rolling) = strategy.get_mut("rollingUpdate")
        {
            set_default(rolling, "partition", 0);
        }
    }
    if let Some(policy) = section(spec, "persistentVolumeClaimRetentionPolicy") {
        default_text(policy, "whenDeleted", "Retain");
        default_text(policy, "whenScaled", "Retain");
    }
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "serviceName", "");
    set_default(spec, "template", json!({}));
    pod::default_template(spec, "template");
    each(spec, "volumeClaimTemplates", |claim| {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        storage::default_claim(claim);
    });
}

/// A field behind a feature gate that is off: what is written there is not kept.
fn drop_max_unavailable(set: &mut Value) {
    if let Some(rolling) = set.pointer_mut("/spec/updateStrategy/rollingUpdate") {
        remove(rolling, "maxUnavailable");
    }
}

fn validate(set: &Value) -> Vec<FieldError> {
    let spec = &set["spec"];
    let mut errors = Vec::new();
    let policy = text(&spec["podManagementPolicy"]);
    if !matches!(policy, "OrderedReady" | "Parallel") {
        errors.push(FieldError::invalid(
            "spec.podManagementPolicy",
            policy,
            "must be 'OrderedReady' or 'Parallel'",
        ));
    }
    errors.extend(validate_strategy(&spec["updateStrategy"]));
    for key in ["whenDeleted", "whenScaled"] {
        let policy = text(&spec["persistentVolumeClaimRetentionPolicy"][key]);
        if !matches!(policy, "Retain" | "Delete") {
            errors.push(FieldError::not_supported(
                format!("spec.persistentVolumeClaimRetentionPolicy.{key}"),
                policy,
                &["Retain", "Delete"],
            ));
        }
    }
    errors.extend(validate_counts(spec, "spec", &["replicas", "minReadySeconds"]));
    errors.extend(validate_counts(&spec["ordinals"], "spec.ordinals", &["start"]));
    errors.extend(validate_selector_and_template(&with_claim_volumes(spec), &OWNER));
    errors
}

/// What is only looked at once, because it cannot change afterwards.
fn validate_identity(set: &Value) -> Vec<FieldError> {
    let spec = &set["spec"];
    let mut errors = Vec::new();
    for (i, claim) in list(&spec["volumeClaimTemplates"]).iter().enumerate() {
        errors.extend(storage::validate_claim_spec(
            &claim["spec"],
            &format!("spec.volumeClaimTemplates[{i}].spec"),
        ));
    }
    let service = text(&spec["serviceName"]);
    if !service.is_empty() {
        for wrong in names::dns_label(service) {
            errors.push(FieldError::invalid("spec.serviceName", service, wrong));
        }
    }
    errors
}

/// Pods of the set have a volume per claim template, so their containers may mount it.
fn with_claim_volumes(spec: &Value) -> Value {
    let claims = list(&spec["volumeClaimTemplates"]);
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|claim| {
            let name = &claim["metadata"]["name"];
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    let shadowed = |volume: &Value| {
        claims
            .iter()
            .any(|claim| claim["metadata"]["name"] == volume["name"])
    };
    volumes.extend(
        list(&spec["template"]["spec"]["volumes"])
            .iter()
            .filter(|volume| !shadowed(volume))
            .cloned(),
    );
    let mut spec = spec.clone();
    if let Some(pod_spec) = spec.pointer_mut("/template/spec")
        && !claims.is_empty()
    {
        set(pod_spec, "volumes", volumes);
    }
    spec
}

fn validate_strategy(strategy: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.updateStrategy";
    let rolling = &strategy["rollingUpdate"];
    match text(&strategy["type"]) {
        "OnDelete" if rolling.is_null() => Vec::new(),
        "OnDelete" => vec![FieldError::invalid(
            format!("{PATH}.rollingUpdate"),
            rolling.clone(),
            "only allowed for updateStrategy 'RollingUpdate'",
        )],
        "RollingUpdate" => {
            let path = format!("{PATH}.rollingUpdate");
            let mut errors = validate_counts(rolling, &path, &["partition"]);
            let unavailable = &rolling["maxUnavailable"];
            if !unavailable.is_null() {
                let path = format!("{path}.maxUnavailable");
                errors.extend(validate_count_or_percent(unavailable, &path));
                if super::is_nothing(unavailable) {
                    errors.push(FieldError::invalid(&path, unavailable.clone(), "cannot be 0"));
                }
                errors.extend(validate_at_most_all(unavailable, &path));
            }
            errors
        }
        _ => vec![FieldError::invalid(
            PATH,
            strategy.clone(),
            "must be 'RollingUpdate' or 'OnDelete'",
        )],
    }
}

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate(new);
    let mut rest = new["spec"].clone();
    for key in MUTABLE {
        keep(&old["spec"], &mut rest, key);
    }
    if rest != old["spec"] {
        errors.push(FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
    errors
}

fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let status = &new["status"];
    let bounded = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    let mut errors = validate_counts(status, "status", &["replicas"]);
    errors.extend(validate_counts(status, "status", &bounded));
    errors.extend(validate_counts(
        status,
        "status",
        &["observedGeneration", "collisionCount"],
    ));
    errors.extend(validate_status_counts(status, &bounded, "status.readyReplicas"));
    errors.extend(validate_collisions(old, new));
    errors
}
