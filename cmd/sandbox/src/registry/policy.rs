//! Strategy of `PodDisruptionBudget`.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{list, text};
use crate::registry::{Rules, names};
use crate::schema::Path;

pub(crate) const DISRUPTION_BUDGET: Rules = Rules {
    name: names::segment_name,
    generation: Some(Rules::spec_changed),
    unconditional_update: false,
    ..Rules::GENERIC
};

/// Validates the spec of a budget.
pub(crate) fn validate_budget(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let why = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid(path, spec.clone(), why);
    }
}

/// Validates the conditions of a budget.
pub(crate) fn validate_budget_status(status: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    for (i, condition) in list(&status["conditions"]).iter().enumerate() {
        let path = format!("{path}.conditions[{i}]");
        let status = text(&condition["status"]);
        if !STATUSES.contains(&status) {
            errors.not_supported(format!("{path}.status"), status, &STATUSES);
        }
        for key in ["lastTransitionTime", "reason"] {
            if text(&condition[key]).is_empty() {
                errors.required(format!("{path}.{key}"), "");
            }
        }
    }
}
