//! Horizontal pod autoscalers.

use serde_json::{Value, json};

use super::json::{list, number, section, set_default, text, with};
use super::meta::non_negative;
use super::{Rules, names};
use crate::field::FieldError;

pub(super) const RULES: Rules = Rules {
    default,
    validate,
    validate_update: |_, new| validate(new),
    validate_status: |_, new| {
        ["currentReplicas", "desiredReplicas"]
            .iter()
            .filter_map(|key| non_negative(&new["status"][*key], format!("status.{key}")))
            .collect()
    },
    ..Rules::PLAIN
};

fn default(autoscaler: &mut Value) {
    let Some(spec) = section(autoscaler, "spec") else {
        return;
    };
    set_default(spec, "minReplicas", 1);
    if list(&spec["metrics"]).is_empty() {
        let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
        super::json::set(spec, "metrics", json!([{"type": "Resource", "resource": cpu}]));
    }
    with(spec, "behavior", |behavior| {
        if let Some(up) = section(behavior, "scaleUp") {
            set_default(up, "stabilizationWindowSeconds", 0);
            set_default(up, "selectPolicy", "Max");
            set_default(
                up,
                "policies",
                json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]),
            );
        }
        if let Some(down) = section(behavior, "scaleDown") {
            set_default(down, "selectPolicy", "Max");
            set_default(
                down,
                "policies",
                json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
            );
        }
    });
}

fn validate(autoscaler: &Value) -> Vec<FieldError> {
    let spec = &autoscaler["spec"];
    let mut errors = Vec::new();
    let (low, high) = (number(&spec["minReplicas"]), number(&spec["maxReplicas"]));
    if low < 1 {
        errors.push(FieldError::invalid(
            "spec.minReplicas",
            low,
            "must be greater than or equal to 1",
        ));
    }
    if high == 0 {
        errors.push(FieldError::required(
            "spec.maxReplicas",
            "must be set and greater than 0",
        ));
    } else if high < 0 {
        errors.push(FieldError::invalid(
            "spec.maxReplicas",
            high,
            "must be greater than or equal to 1",
        ));
    }
    if high < low {
        errors.push(FieldError::invalid(
            "spec.maxReplicas",
            high,
            "must be greater than or equal to `minReplicas`",
        ));
    }
    errors.extend(validate_target(&spec["scaleTargetRef"]));
    for (i, metric) in list(&spec["metrics"]).iter().enumerate() {
        errors.extend(validate_metric(metric, &format!("spec.metrics[{i}]")));
    }
    let foreign = |metric: &Value| matches!(text(&metric["type"]), "Object" | "External");
    if low == 0 && !list(&spec["metrics"]).iter().any(foreign) {
        errors.push(FieldError::forbidden(
            "spec.metrics",
            "must specify at least one Object or External metric to support scaling to zero replicas",
        ));
    }
    for direction in ["scaleUp", "scaleDown"] {
        errors.extend(validate_rules(
            &spec["behavior"][direction],
            &format!("spec.behavior.{direction}"),
        ));
    }
    errors
}

fn validate_target(target: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["kind", "name"] {
        let path = format!("spec.scaleTargetRef.{key}");
        let value = text(&target[key]);
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        for wrong in names::path_segment(value) {
            errors.push(FieldError::invalid(&path, value, wrong));
        }
    }
    let version = text(&target["apiVersion"]);
    let problem = match version.split('/').count() {
        1 if text(&target["kind"]) == "ReplicationController" => None,
        1 => Some("apiVersion must specify API group".to_owned()),
        2 => None,
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    };
    if let Some(problem) = problem {
        errors.push(FieldError::invalid(
            "spec.scaleTargetRef.apiVersion",
            version,
            problem,
        ));
    }
    errors
}

fn validate_metric(metric: &Value, path: &str) -> Vec<FieldError> {
    let kind = text(&metric["type"]);
    let source = match kind {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        _ => {
            let mut errors = Vec::new();
            if kind.is_empty() {
                errors.push(FieldError::required(
                    format!("{path}.type"),
                    "must specify a metric source type",
                ));
            }
            errors.push(FieldError::not_supported(
                format!("{path}.type"),
                kind,
                &["ContainerResource", "External", "Object", "Pods", "Resource"],
            ));
            return errors;
        }
    };
    if metric[source].is_null() {
        return vec![FieldError::required(
            format!("{path}.{source}"),
            "must populate information for the given metric source",
        )];
    }
    Vec::new()
}

fn validate_rules(rules: &Value, path: &str) -> Vec<FieldError> {
    if rules.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let window = number(&rules["stabilizationWindowSeconds"]);
    if !(0..=3600).contains(&window) {
        let bound = if window < 0 {
            "greater than or equal to zero"
        } else {
            "less than or equal to 3600"
        };
        errors.push(FieldError::invalid(
            format!("{path}.stabilizationWindowSeconds"),
            window,
            format!("must be {bound}"),
        ));
    }
    let select = text(&rules["selectPolicy"]);
    if !matches!(select, "Disabled" | "Max" | "Min") {
        errors.push(FieldError::not_supported(
            format!("{path}.selectPolicy"),
            select,
            &["Disabled", "Max", "Min"],
        ));
    }
    if list(&rules["policies"]).is_empty() {
        errors.push(FieldError::required(
            format!("{path}.policies"),
            "must specify at least one Policy",
        ));
    }
    for (i, policy) in list(&rules["policies"]).iter().enumerate() {
        let path = format!("{path}.policies[{i}]");
        if !matches!(text(&policy["type"]), "Percent" | "Pods") {
            errors.push(FieldError::not_supported(
                format!("{path}.type"),
                text(&policy["type"]),
                &["Percent", "Pods"],
            ));
        }
        for key in ["value", "periodSeconds"] {
            if number(&policy[key]) <= 0 {
                errors.push(FieldError::invalid(
                    format!("{path}.{key}"),
                    number(&policy[key]),
                    "must be greater than zero",
                ));
            }
        }
        if number(&policy["periodSeconds"]) > 1800 {
            errors.push(FieldError::invalid(
                format!("{path}.periodSeconds"),
                number(&policy["periodSeconds"]),
                "must be less than or equal to 1800",
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::testing::{create_errors, created};

    const KIND: &str = "horizontalpodautoscalers.autoscaling";

    #[test]
    fn behaviour_is_filled_in_as_a_whole() {
        let scaler = created(
            KIND,
            json!({"spec": {"maxReplicas": 3, "behavior": {"scaleUp": {}},
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "r"}}}),
        );
        assert_eq!(
            scaler["spec"],
            json!({
                "behavior": {
                    "scaleDown": {"policies": [{"periodSeconds": 15, "type": "Percent", "value": 100}],
                        "selectPolicy": "Max"},
                    "scaleUp": {"policies": [{"periodSeconds": 15, "type": "Pods", "value": 4},
                        {"periodSeconds": 15, "type": "Percent", "value": 100}], "selectPolicy": "Max",
                        "stabilizationWindowSeconds": 0}},
                "maxReplicas": 3,
                "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 80, "type": "Utilization"}},
                    "type": "Resource"}],
                "minReplicas": 1,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "r"},
            })
        );
        assert_eq!(scaler["status"], json!({"desiredReplicas": 0}));
    }

    #[test]
    fn bounds_and_target() {
        assert_eq!(
            create_errors(
                KIND,
                json!({"spec": {"minReplicas": 5, "maxReplicas": 3, "scaleTargetRef": {"kind": "D"}}})
            ),
            [
                "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.name: Required value",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
            ]
        );
    }
}
