//! Strategy of Lease.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::Rules;
use crate::registry::json::{keep, number, section};

pub(crate) const RULES: Rules = Rules {
    // Coordinated election is behind a feature gate that is off: writes to it are dropped.
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
        errors.invalid(
            "spec.leaseDurationSeconds",
            duration.clone(),
            "must be greater than 0",
        );
    }
    let transitions = &spec["leaseTransitions"];
    if number(transitions) < 0 {
        errors.invalid(
            "spec.leaseTransitions",
            transitions.clone(),
            "must be greater than or equal to 0",
        );
    }
    errors
}
