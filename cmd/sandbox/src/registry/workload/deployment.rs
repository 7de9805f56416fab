//! Strategy of Deployment.

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{default_text, keep_meta, number, same, section, set_default, text};
use crate::registry::workload::{
    Owner, is_nothing, validate_at_most_all, validate_collisions, validate_count_or_percent, validate_counts,
    validate_same_selector, validate_selector_and_template, validate_status_counts,
};
use crate::registry::{Rules, pod};

/// Templates of deployments are those of the replica sets they make.
const OWNER: Owner = Owner {
    selector_of: "deployment",
    bad_selector: "invalid label selector",
    template_of: "ReplicaSet",
};

pub(crate) const RULES: Rules = Rules {
    default,
    generation: Some(changed),
    status: |old, new| keep_meta(old, new, "labels"),
    validate,
    validate_update: |old, new| {
        let mut errors = validate(new);
        errors.extend(validate_same_selector(old, new));
        errors
    },
    validate_status,
    ..Rules::GENERIC
};

/// Annotations count, because they are copied to the replica sets.
fn changed(old: &Value, new: &Value) -> bool {
    Rules::spec_changed(old, new) || !same(&old["metadata"]["annotations"], &new["metadata"]["annotations"])
}

fn default(deployment: &mut Value) {
    let Some(spec) = section(deployment, "spec") else {
        return;
    };
    set_default(spec, "replicas", 1);
    if let Some(strategy) = section(spec, "strategy") {
        default_text(strategy, "type", "RollingUpdate");
        if text(&strategy["type"]) == "RollingUpdate"
            && let Some(rolling) = section(strategy, "rollingUpdate")
        {
            set_default(rolling, "maxUnavailable", "25%");
            set_default(rolling, "maxSurge", "25%");
        }
    }
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
    set_default(spec, "template", json!({}));
    pod::default_template(spec, "template");
}

fn validate(deployment: &Value) -> Vec<FieldError> {
    let spec = &deployment["spec"];
    let mut errors = validate_counts(spec, "spec", &["replicas"]);
    errors.extend(validate_selector_and_template(spec, &OWNER));
    errors.extend(validate_strategy(&spec["strategy"]));
    errors.extend(validate_counts(
        spec,
        "spec",
        &[
            "minReadySeconds",
            "revisionHistoryLimit",
            "progressDeadlineSeconds",
        ],
    ));
    let deadline = &spec["progressDeadlineSeconds"];
    if deadline
        .as_i64()
        .is_some_and(|seconds| seconds <= number(&spec["minReadySeconds"]))
    {
        errors.invalid(
            "spec.progressDeadlineSeconds",
            deadline.clone(),
            "must be greater than minReadySeconds",
        );
    }
    errors
}

fn validate_strategy(strategy: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.strategy";
    let rolling = &strategy["rollingUpdate"];
    match text(&strategy["type"]) {
        "Recreate" if rolling.is_null() => Vec::new(),
        "Recreate" => vec![FieldError::forbidden(
            format!("{PATH}.rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        )],
        "RollingUpdate" => validate_rolling(rolling, &format!("{PATH}.rollingUpdate")),
        _ => vec![FieldError::not_supported(
            PATH,
            strategy.clone(),
            &["Recreate", "RollingUpdate"],
        )],
    }
}

fn validate_rolling(rolling: &Value, path: &str) -> Vec<FieldError> {
    let [unavailable, surge] =
        ["maxUnavailable", "maxSurge"].map(|key| (&rolling[key], format!("{path}.{key}")));
    let mut errors = validate_count_or_percent(unavailable.0, &unavailable.1);
    errors.extend(validate_count_or_percent(surge.0, &surge.1));
    if is_nothing(unavailable.0) && is_nothing(surge.0) {
        errors.invalid(
            &unavailable.1,
            unavailable.0.clone(),
            "may not be 0 when `maxSurge` is 0",
        );
    }
    errors.extend(validate_at_most_all(unavailable.0, &unavailable.1));
    errors
}

fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let status = &new["status"];
    let mut errors = validate_counts(
        status,
        "status",
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    );
    errors.extend(validate_status_counts(
        status,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "readyReplicas",
    ));
    errors.extend(validate_collisions(old, new));
    errors
}
