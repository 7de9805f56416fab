//! Leases.

use serde_json::Value;

use crate::field::FieldError;
use crate::registry::Rules;
use crate::registry::json::{keep, number, section};

pub(crate) const RULES: Rules = Rules {
    // Coordinated election is behind a feature gate that is off: what is written there is not kept.
    create: |lease| drop_coordination(&Value::Null, lease),
    update: drop_coordination,
    validate,
    validate_update: |_, new| validate(new),
    create_on_update: true,
    unconditional_update: false,
    ..Rules::GENERIC
};

fn drop_coordination(old: &Value, lease: &mut Value) {
    if let Some(spec) = section(lease, "spec") {
        for key in ["strategy", "preferredHolder"] {
            if old["spec"][key].is_null() {
                keep(&Value::Null, spec, key);
            }
        }
    }
}

fn validate(lease: &Value) -> Vec<FieldError> {
    let spec = &lease["spec"];
    let mut errors = Vec::new();
    let duration = &spec["leaseDurationSeconds"];
    if !duration.is_null() && number(duration) <= 0 {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            duration.clone(),
            "must be greater than 0",
        ));
    }
    let transitions = &spec["leaseTransitions"];
    if number(transitions) < 0 {
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            transitions.clone(),
            "must be greater than or equal to 0",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::registry::testing::{create_errors, created};

    #[test]
    fn durations_are_positive() {
        assert_eq!(create_errors("leases.coordination.k8s.io", json!({})), [""; 0]);
        assert_eq!(
            create_errors(
                "leases.coordination.k8s.io",
                json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}})
            ),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
    }

    #[test]
    fn nobody_counts_generations_of_leases() {
        let lease = created("leases.coordination.k8s.io", json!({"spec": {"strategy": "x"}}));
        assert_eq!(lease["metadata"]["generation"], json!(null));
        assert_eq!(lease["spec"], json!({}));
    }
}
