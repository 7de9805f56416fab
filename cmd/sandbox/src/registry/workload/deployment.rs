//! Strategy of Deployment.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::Rules;
use crate::registry::json::{keep_meta, number, same, section, set_default, text};
use crate::registry::workload::{
    is_zero, validate_collisions, validate_replicas, validate_same_selector, validate_selector_and_template,
};

pub(crate) const RULES: Rules = Rules {
    generation: Some(changed),
    status: |old, new| keep_meta(old, new, "labels"),
    validate,
    validate_update: validate_same_selector,
    validate_status: |old, new, errors| {
        validate_replicas(&new["status"], "updatedReplicas", errors);
        validate_collisions(old, new, errors);
    },
    ..Rules::GENERIC
};

/// Annotations count, because they are copied to the replica sets.
fn changed(old: &Value, new: &Value) -> bool {
    Rules::spec_changed(old, new) || !same(&old["metadata"]["annotations"], &new["metadata"]["annotations"])
}

/// Sets the defaults of rolling updates.
pub(crate) fn default_strategy(strategy: &mut Value) {
    if text(&strategy["type"]) == "RollingUpdate"
        && let Some(rolling) = section(strategy, "rollingUpdate")
    {
        set_default(rolling, "maxUnavailable", "25%");
        set_default(rolling, "maxSurge", "25%");
    }
}

fn validate(deployment: &Value, errors: &mut Vec<FieldError>) {
    let spec = &deployment["spec"];
    validate_selector_and_template(spec, errors);
    validate_strategy(&spec["strategy"], errors);
    let deadline = &spec["progressDeadlineSeconds"];
    let minimum = number(&spec["minReadySeconds"]);
    if deadline.as_i64().is_some_and(|seconds| seconds <= minimum) {
        let why = "must be greater than minReadySeconds";
        errors.invalid("spec.progressDeadlineSeconds", deadline.clone(), why);
    }
}

fn validate_strategy(strategy: &Value, errors: &mut Vec<FieldError>) {
    let rolling = &strategy["rollingUpdate"];
    match text(&strategy["type"]) {
        "Recreate" if rolling.is_null() => {}
        "Recreate" => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden("spec.strategy.rollingUpdate", why);
        }
        "RollingUpdate" => {
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                let path = "spec.strategy.rollingUpdate.maxUnavailable";
                let why = "may not be 0 when `maxSurge` is 0";
                errors.invalid(path, rolling["maxUnavailable"].clone(), why);
            }
        }
        _ => errors.not_supported("spec.strategy", strategy.clone(), &["Recreate", "RollingUpdate"]),
    }
}
