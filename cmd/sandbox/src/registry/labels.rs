//! Labels and label selectors: what they may look like, and what matches.

use serde_json::Value;

use crate::field::FieldError;
use crate::registry::json::{empty, entries, list, text};
use crate::registry::names;

/// Checks a map of labels.
pub(crate) fn validate(labels: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in entries(labels) {
        for wrong in names::qualified(key) {
            errors.push(FieldError::invalid(path, key, wrong));
        }
        for wrong in names::label_value(text(value)) {
            errors.push(FieldError::invalid(path, text(value), wrong));
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
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                format!("{path}.operator"),
                other,
                "not a valid selector operator",
            )),
        }
        for wrong in names::qualified(text(&expression["key"])) {
            errors.push(FieldError::invalid(
                format!("{path}.key"),
                text(&expression["key"]),
                wrong,
            ));
        }
        for (j, value) in values.iter().enumerate() {
            for wrong in names::label_value(text(value)) {
                errors.push(FieldError::invalid(
                    format!("{path}.values[{j}]"),
                    text(value),
                    wrong,
                ));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{matches, validate_selector};

    #[test]
    fn matching() {
        let labels = json!({"a": "1", "b": "2"});
        let cases = [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "3"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}),
                true,
            ),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn selectors_name_the_wrong_part() {
        let selector = json!({"matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "Like"},
        ]});
        let errors: Vec<String> = validate_selector(&selector, "spec.selector")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            errors,
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' \
                 or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is \
                 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
            ]
        );
    }
}
