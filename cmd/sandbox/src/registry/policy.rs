//! Strategies of `PodDisruptionBudget` and `PriorityClass`.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, text};
use crate::registry::meta::non_negative;
use crate::registry::workload::{validate_at_most_all, validate_count_or_percent};
use crate::registry::{Rules, labels, names};

pub(crate) const DISRUPTION_BUDGET: Rules = Rules {
    name: names::segment_name,
    generation: Some(Rules::spec_changed),
    validate: validate_budget,
    validate_update: |_, new| validate_budget(new),
    validate_status: validate_budget_status,
    unconditional_update: false,
    ..Rules::GENERIC
};

/// Generic rules, and the defaults that the admission of pods reads.
pub(crate) const PRIORITY_CLASS: Rules = Rules {
    default: |class| {
        crate::registry::json::set_default(class, "preemptionPolicy", "PreemptLowerPriority");
        crate::registry::json::set_default(class, "value", 0);
    },
    // A class has no spec: its generation stays 1.
    generation: Some(|_, _| false),
    ..Rules::GENERIC
};

fn validate_budget(budget: &Value) -> Vec<FieldError> {
    let spec = &budget["spec"];
    let mut errors = Vec::new();
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.invalid(
            "spec",
            spec.clone(),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for key in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{key}");
        errors.extend(validate_count_or_percent(&spec[key], &path));
        errors.extend(validate_at_most_all(&spec[key], &path));
    }
    errors.extend(labels::validate_selector(&spec["selector"], "spec.selector"));
    let policy = &spec["unhealthyPodEvictionPolicy"];
    if !policy.is_null() && !matches!(text(policy), "AlwaysAllow" | "IfHealthyBudget") {
        errors.not_supported(
            "spec.unhealthyPodEvictionPolicy",
            policy.clone(),
            &["AlwaysAllow", "IfHealthyBudget"],
        );
    }
    errors
}

fn validate_budget_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let status = &new["status"];
    let mut errors = Vec::new();
    for (i, condition) in list(&status["conditions"]).iter().enumerate() {
        let path = format!("status.conditions[{i}]");
        if !matches!(text(&condition["status"]), "True" | "False" | "Unknown") {
            errors.not_supported(
                format!("{path}.status"),
                text(&condition["status"]),
                &["False", "True", "Unknown"],
            );
        }
        for key in ["lastTransitionTime", "reason"] {
            if text(&condition[key]).is_empty() {
                errors.required(format!("{path}.{key}"), "");
            }
        }
    }
    for key in [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ] {
        errors.extend(non_negative(&status[key], format!("status.{key}")));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::registry::testing::{create_errors, updated};

    #[test]
    fn budgets_say_one_thing() {
        let kind = "poddisruptionbudgets.policy";
        assert_eq!(
            create_errors(
                kind,
                json!({"spec": {"minAvailable": 1, "maxUnavailable": "120%"}})
            ),
            [
                "spec: Invalid value: {\"maxUnavailable\":\"120%\",\"minAvailable\":1}: minAvailable and \
                 maxUnavailable cannot be both set",
                "spec.maxUnavailable: Invalid value: \"120%\": must not be greater than 100%",
            ]
        );
        let (budget, errors) = updated(
            kind,
            json!({"spec": {"minAvailable": 1}}),
            json!({"spec": {"minAvailable": 2}}),
        );
        assert_eq!(errors, [""; 0]);
        assert_eq!(budget["metadata"]["generation"], 2);
    }
}
