//! Labels and label selectors: validation and matching.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{empty, entries, list, text};
use crate::registry::names;

/// Checks a map of labels.
pub(crate) fn validate(labels: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in entries(labels) {
        for wrong in names::qualified(key) {
            errors.invalid(path, key, wrong);
        }
        for wrong in names::label_value(text(value)) {
            errors.invalid(path, text(value), wrong);
        }
    }
    errors
}

/// Checks a label selector (`matchLabels` and `matchExpressions`).
pub(crate) fn validate_selector(selector: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = validate(&selector["matchLabels"], &format!("{path}.matchLabels"));
    for (i, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{i}]");
        let values = list(&expression["values"]);
        match text(&expression["operator"]) {
            "In" | "NotIn" if values.is_empty() => errors.required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(format!("{path}.operator"), other, "not a valid selector operator"),
        }
        for wrong in names::qualified(text(&expression["key"])) {
            errors.invalid(format!("{path}.key"), text(&expression["key"]), wrong);
        }
        for (j, value) in values.iter().enumerate() {
            for wrong in names::label_value(text(value)) {
                errors.invalid(format!("{path}.values[{j}]"), text(value), wrong);
            }
        }
    }
    errors
}

/// Whether a selector asks for nothing, and so matches everything.
pub(crate) fn selects_all(selector: &Value) -> bool {
    empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"])
}

/// Whether a selector matches a map of labels. No selector at all matches nothing.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    selector.is_object()
        && entries(&selector["matchLabels"]).all(|(key, value)| labels.get(key) == Some(value))
        && list(&selector["matchExpressions"]).iter().all(|expression| {
            let label = labels.get(text(&expression["key"]));
            let listed = label.is_some_and(|label| list(&expression["values"]).contains(label));
            match text(&expression["operator"]) {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}
