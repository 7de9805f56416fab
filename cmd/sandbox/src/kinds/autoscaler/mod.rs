//! Horizontal pod autoscalers: of the second version here, of the first in [`old`]. Both are one collection.

mod metrics;
mod old;
mod validate;

use serde_json::{Value, json};

use super::Rules;
use super::json::{list, section, set_default, with};
use super::meta::non_negative;

pub(super) use old::{RULES as OLD, from_modern, modern, to_modern};

pub(super) const RULES: Rules = Rules {
    default,
    validate: |new| validate::autoscaler(None, new),
    validate_update: |old, new| validate::autoscaler(Some(old), new),
    validate_status: |_, new| {
        ["currentReplicas", "desiredReplicas"]
            .iter()
            .filter_map(|key| non_negative(&new["status"][*key], format!("status.{key}")))
            .collect()
    },
    ..Rules::PLAIN
};

/// How busy processors are to be when nobody says what pods are scaled by, in percent.
const BUSY: i64 = 80;

/// The metric of how busy processors are.
fn processors(percent: impl Into<Value>) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent.into()});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn default(autoscaler: &mut Value) {
    let Some(spec) = section(autoscaler, "spec") else {
        return;
    };
    set_default(spec, "minReplicas", 1);
    if list(&spec["metrics"]).is_empty() {
        super::json::set(spec, "metrics", json!([processors(BUSY)]));
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
        assert_eq!(
            scaler["status"],
            json!({"currentMetrics": null, "desiredReplicas": 0})
        );
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
