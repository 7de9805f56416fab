//! Small kinds about scheduling and disruption: pod disruption budgets and priority classes.

use serde_json::Value;

use super::json::{flag, list, number, text};
use super::meta::{immutable, non_negative};
use super::workload::{validate_at_most_all, validate_count_or_percent};
use super::{Rules, labels, names};
use crate::field::FieldError;

/// Higher priorities are for the system.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub(super) const DISRUPTION_BUDGET: Rules = Rules {
    name: names::segment_name,
    generation: Some(Rules::spec_changed),
    validate: validate_budget,
    validate_update: |_, new| validate_budget(new),
    validate_status: validate_budget_status,
    unconditional_update: false,
    ..Rules::GENERIC
};

pub(super) const PRIORITY_CLASS: Rules = Rules {
    default: |class| {
        super::json::set_default(class, "preemptionPolicy", "PreemptLowerPriority");
        super::json::set_default(class, "value", 0);
    },
    // Nothing about a class that could count ever changes.
    generation: Some(|_, _| false),
    validate: validate_class,
    validate_update: |old, new| {
        let mut errors = Vec::new();
        if number(&old["value"]) != number(&new["value"]) {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        errors.extend(immutable(
            &old["preemptionPolicy"],
            &new["preemptionPolicy"],
            "preemptionPolicy",
        ));
        errors
    },
    ..Rules::GENERIC
};

fn validate_budget(budget: &Value) -> Vec<FieldError> {
    let spec = &budget["spec"];
    let mut errors = Vec::new();
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.push(FieldError::invalid(
            "spec",
            spec.clone(),
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{key}");
        errors.extend(validate_count_or_percent(&spec[key], &path));
        errors.extend(validate_at_most_all(&spec[key], &path));
    }
    errors.extend(labels::validate_selector(&spec["selector"], "spec.selector"));
    let policy = &spec["unhealthyPodEvictionPolicy"];
    if !policy.is_null() && !matches!(text(policy), "AlwaysAllow" | "IfHealthyBudget") {
        errors.push(FieldError::not_supported(
            "spec.unhealthyPodEvictionPolicy",
            policy.clone(),
            &["AlwaysAllow", "IfHealthyBudget"],
        ));
    }
    errors
}

fn validate_budget_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let status = &new["status"];
    let mut errors = Vec::new();
    for (i, condition) in list(&status["conditions"]).iter().enumerate() {
        let path = format!("status.conditions[{i}]");
        if !matches!(text(&condition["status"]), "True" | "False" | "Unknown") {
            errors.push(FieldError::not_supported(
                format!("{path}.status"),
                text(&condition["status"]),
                &["False", "True", "Unknown"],
            ));
        }
        for key in ["lastTransitionTime", "reason"] {
            if text(&condition[key]).is_empty() {
                errors.push(FieldError::required(format!("{path}.{key}"), ""));
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

fn validate_class(class: &Value) -> Vec<FieldError> {
    let (name, value) = (text(&class["metadata"]["name"]), number(&class["value"]));
    let mut errors = Vec::new();
    if let Some(rest) = name.strip_prefix("system-") {
        let known = [
            ("cluster-critical", 2_000_000_000),
            ("node-critical", 2_000_001_000),
        ];
        let problem = match known.iter().find(|(known, _)| *known == rest) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, expected)) if *expected != value => {
                Some(format!("value of {name} PriorityClass must be {expected}"))
            }
            Some(_) if flag(&class["globalDefault"]) => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            errors.push(FieldError::forbidden(
                "metadata.name",
                format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
                ),
            ));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        errors.push(FieldError::forbidden(
            "value",
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"),
        ));
    }
    let policy = text(&class["preemptionPolicy"]);
    if !matches!(policy, "PreemptLowerPriority" | "Never") {
        errors.push(FieldError::not_supported(
            "preemptionPolicy",
            policy,
            &["PreemptLowerPriority", "Never"],
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::testing::{create_errors, updated};

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

    #[test]
    fn high_priorities_are_for_the_system() {
        let kind = "priorityclasses.scheduling.k8s.io";
        assert_eq!(
            create_errors(kind, json!({"value": 1_000_000_001})),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
        );
        assert_eq!(
            create_errors(
                kind,
                json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000})
            ),
            [""; 0]
        );
        assert_eq!(
            create_errors(kind, json!({"metadata": {"name": "system-mine"}, "value": 1})),
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
              error: system-mine is not a known system priority class"
            ]
        );
        let (class, errors) = updated(kind, json!({"value": 1}), json!({"value": 2}));
        assert_eq!(errors, ["value: Forbidden: may not be changed in an update."]);
        assert_eq!(class["metadata"]["generation"], 1);
    }
}
