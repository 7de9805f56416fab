//! Autoscalers of `autoscaling/v1`, which names one metric: how busy the processors are. What else the second version says
//! is carried in annotations while an object is in the first one, so that nothing is lost by reading and writing it.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::super::Rules;
use super::super::json::{list, remove, section, set, set_default, text};

pub(in super::super) const RULES: Rules = Rules {
    default: |autoscaler| {
        if let Some(spec) = section(autoscaler, "spec") {
            set_default(spec, "minReplicas", 1);
        }
    },
    validate: |new| (super::RULES.validate)(&modern(new)),
    validate_update: |old, new| (super::RULES.validate_update)(&modern(old), &modern(new)),
    validate_status: |old, new| (super::RULES.validate_status)(&modern(old), &modern(new)),
    ..super::RULES
};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All that are ours to write. The last two are of versions that are gone.
const CARRIED: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// A field of a metric: its name in an annotation, where the second version has it, and whether the first shows it always.
type Field = (&'static str, &'static [&'static str], bool);

/// The fields of each sort of metric, in the order in which they are written.
const WANTED: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"], false),
            ("metricName", &["metric", "name"], false),
            ("targetValue", &["target", "value"], true),
            ("selector", &["metric", "selector"], false),
            ("averageValue", &["target", "averageValue"], false),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"], false),
            ("targetAverageValue", &["target", "averageValue"], true),
            ("selector", &["metric", "selector"], false),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"], false),
            (
                "targetAverageUtilization",
                &["target", "averageUtilization"],
                false,
            ),
            ("targetAverageValue", &["target", "averageValue"], false),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"], false),
            (
                "targetAverageUtilization",
                &["target", "averageUtilization"],
                false,
            ),
            ("targetAverageValue", &["target", "averageValue"], false),
            ("container", &["container"], false),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"], false),
            ("metricSelector", &["metric", "selector"], false),
            ("targetValue", &["target", "value"], false),
            ("targetAverageValue", &["target", "averageValue"], false),
        ],
    ),
];

/// The same of metrics as they are.
const CURRENT: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"], false),
            ("metricName", &["metric", "name"], false),
            ("currentValue", &["current", "value"], true),
            ("selector", &["metric", "selector"], false),
            ("averageValue", &["current", "averageValue"], false),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"], false),
            ("currentAverageValue", &["current", "averageValue"], true),
            ("selector", &["metric", "selector"], false),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"], false),
            (
                "currentAverageUtilization",
                &["current", "averageUtilization"],
                false,
            ),
            ("currentAverageValue", &["current", "averageValue"], true),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"], false),
            (
                "currentAverageUtilization",
                &["current", "averageUtilization"],
                false,
            ),
            ("currentAverageValue", &["current", "averageValue"], true),
            ("container", &["container"], false),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"], false),
            ("metricSelector", &["metric", "selector"], false),
            ("currentValue", &["current", "value"], true),
            ("currentAverageValue", &["current", "averageValue"], false),
        ],
    ),
];

/// The object in the second version, whichever it is of.
pub(in super::super) fn modern(autoscaler: &Value) -> Cow<'_, Value> {
    if autoscaler["apiVersion"] != "autoscaling/v1" {
        return Cow::Borrowed(autoscaler);
    }
    let mut autoscaler = autoscaler.clone();
    to_modern(&mut autoscaler);
    Cow::Owned(autoscaler)
}

/// From the first version to the second.
pub(in super::super) fn to_modern(autoscaler: &mut Value) {
    let carried = |key: &str| -> Option<Value> {
        serde_json::from_str(autoscaler["metadata"]["annotations"][key].as_str()?).ok()
    };
    let metrics = |key: &str, fields| -> Option<Vec<Value>> {
        let metrics = carried(key)?;
        let metrics = metrics.as_array()?.iter();
        Some(metrics.map(|metric| read(metric, fields)).collect())
    };
    let mut wanted = metrics(METRICS, &WANTED).unwrap_or_default();
    wanted.iter_mut().for_each(type_of_target);
    let current = metrics(CURRENT_METRICS, &CURRENT);
    let conditions = carried(CONDITIONS).filter(Value::is_array);
    let behavior = carried(BEHAVIOR)
        .map(lowered)
        .filter(|behavior| behavior["scaleUp"].is_object() || behavior["scaleDown"].is_object());
    if let Some(spec) = section(autoscaler, "spec") {
        let percent = spec["targetCPUUtilizationPercentage"].take();
        remove(spec, "targetCPUUtilizationPercentage");
        if !percent.is_null() || wanted.is_empty() {
            let percent = if percent.is_null() {
                json!(super::BUSY)
            } else {
                percent
            };
            wanted.push(super::processors(percent));
        }
        set(spec, "metrics", wanted);
        if let Some(behavior) = behavior {
            set(spec, "behavior", behavior);
        }
    }
    if let Some(status) = section(autoscaler, "status") {
        let percent = status["currentCPUUtilizationPercentage"].take();
        remove(status, "currentCPUUtilizationPercentage");
        let current = match current {
            Some(current) => current.into(),
            None if percent.is_null() => Value::Null,
            None => {
                let resource = json!({"name": "cpu", "current": {"averageUtilization": percent}});
                json!([{"type": "Resource", "resource": resource}])
            }
        };
        if let Some(status) = status.as_object_mut() {
            status.insert("currentMetrics".to_owned(), current);
        }
        if let Some(conditions) = conditions {
            set(status, "conditions", conditions);
        }
        // The first version shows that there are none, the second leaves it out.
        if status["currentReplicas"] == 0 {
            remove(status, "currentReplicas");
        }
    }
    annotate(autoscaler, &[]);
}

/// From the second version to the first.
pub(in super::super) fn from_modern(autoscaler: &mut Value) {
    let mut carried = Vec::new();
    if let Some(spec) = section(autoscaler, "spec") {
        let metrics = spec["metrics"].take();
        remove(spec, "metrics");
        let percent = |metric: &Value| match (text(&metric["type"]), text(&metric["resource"]["name"])) {
            ("Resource", "cpu") => metric["resource"]["target"].get("averageUtilization").cloned(),
            _ => None,
        };
        set(
            spec,
            "targetCPUUtilizationPercentage",
            list(&metrics).iter().find_map(percent),
        );
        let others = list(&metrics).iter().filter(|metric| percent(metric).is_none());
        let others: Vec<String> = others.map(|metric| write(metric, &WANTED)).collect();
        if !others.is_empty() {
            carried.push((METRICS, format!("[{}]", others.join(","))));
        }
        let behavior = spec["behavior"].take();
        remove(spec, "behavior");
        if behavior.is_object() {
            carried.push((BEHAVIOR, write_behavior(&behavior)));
        }
    }
    if let Some(status) = section(autoscaler, "status") {
        let metrics = status["currentMetrics"].take();
        remove(status, "currentMetrics");
        let percent = |metric: &Value| match (text(&metric["type"]), text(&metric["resource"]["name"])) {
            ("Resource", "cpu") => metric["resource"]["current"].get("averageUtilization").cloned(),
            _ => None,
        };
        let last = list(&metrics).iter().rev().find_map(percent);
        set(status, "currentCPUUtilizationPercentage", last);
        if !list(&metrics).is_empty() {
            let all = list(&metrics).iter().map(|metric| write(metric, &CURRENT));
            carried.push((
                CURRENT_METRICS,
                format!("[{}]", all.collect::<Vec<_>>().join(",")),
            ));
        }
        let conditions = status["conditions"].take();
        remove(status, "conditions");
        if !list(&conditions).is_empty() {
            let order = ["type", "status", "lastTransitionTime", "reason", "message"];
            let all = list(&conditions).iter().map(|condition| {
                let fields = order.iter().filter(|key| condition.get(**key).is_some());
                in_order(fields.map(|key| (*key, condition[*key].to_string())))
            });
            carried.push((CONDITIONS, format!("[{}]", all.collect::<Vec<_>>().join(","))));
        }
        set_default(status, "currentReplicas", 0);
    }
    annotate(autoscaler, &carried);
}

/// Takes away what the first version carried, and puts in what it is to carry.
fn annotate(autoscaler: &mut Value, carried: &[(&str, String)]) {
    let Some(metadata) = section(autoscaler, "metadata") else {
        return;
    };
    let mut annotations = metadata["annotations"].take();
    for key in CARRIED {
        remove(&mut annotations, key);
    }
    if !carried.is_empty() && annotations.is_null() {
        annotations = json!({});
    }
    for (key, text) in carried {
        set(&mut annotations, key, text.as_str());
    }
    let any = annotations.as_object().is_some_and(|map| !map.is_empty());
    set(
        metadata,
        "annotations",
        if any { annotations } else { Value::Null },
    );
}

/// A metric of the second version, from what an annotation says.
fn read(metric: &Value, sorts: &[(&str, &[Field])]) -> Value {
    let mut read = json!({"type": text(&metric["type"])});
    for (sort, fields) in sorts {
        let Some(source) = metric.get(sort).filter(|source| source.is_object()) else {
            continue;
        };
        let mut modern = json!({});
        for (key, path, _) in *fields {
            let value = source[*key].clone();
            match path {
                [outer, inner] => {
                    if let Some(outer) = section(&mut modern, outer) {
                        set(outer, inner, value);
                    }
                }
                path => {
                    for key in *path {
                        set(&mut modern, key, value.clone());
                    }
                }
            }
        }
        set(&mut read, sort, modern);
    }
    read
}

/// The first version does not say what sort of target there is: that follows from what is given.
fn type_of_target(metric: &mut Value) {
    for (sort, _) in WANTED {
        let Some(target) = metric.get_mut(sort).and_then(|source| source.get_mut("target")) else {
            continue;
        };
        let has = |key: &str| !target[key].is_null();
        let kind = match sort {
            "pods" => "AverageValue",
            "object" if has("averageValue") => "AverageValue",
            "object" => "Value",
            "external" if has("value") => "Value",
            _ if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        // What cannot be left out is written as 0, and stands for nothing.
        if sort == "object" && kind == "AverageValue" && target["value"] == "0" {
            remove(target, "value");
        }
        set(target, "type", kind);
    }
}

/// A metric as an annotation says it.
fn write(metric: &Value, sorts: &[(&str, &[Field])]) -> String {
    let mut parts = vec![("type", metric["type"].to_string())];
    for (sort, fields) in sorts {
        let source = &metric[*sort];
        if source.is_null() {
            continue;
        }
        let fields = fields.iter().filter_map(|(key, path, always)| {
            let value = path.iter().fold(source, |value, part| &value[*part]);
            match value {
                Value::Null => always.then(|| (*key, json!("0").to_string())),
                value => Some((*key, in_go(value))),
            }
        });
        parts.push((sort, in_order(fields)));
    }
    in_order(parts)
}

/// References and selectors, with the fields in the order in which the real server writes them.
fn in_go(value: &Value) -> String {
    let Value::Object(map) = value else {
        return value.to_string();
    };
    let order = ["kind", "name", "apiVersion", "matchLabels", "matchExpressions"];
    in_order(
        order
            .iter()
            .filter_map(|key| Some((*key, map.get(*key)?.to_string()))),
    )
}

/// What the server itself calls the fields: it shows all of them, with capitals.
fn write_behavior(behavior: &Value) -> String {
    let rules = |rules: &Value| {
        if rules.is_null() {
            return "null".to_owned();
        }
        let policies = list(&rules["policies"]).iter().map(|policy| {
            in_order([
                ("Type", policy["type"].to_string()),
                ("Value", policy["value"].to_string()),
                ("PeriodSeconds", policy["periodSeconds"].to_string()),
            ])
        });
        let policies = match &rules["policies"] {
            Value::Null => "null".to_owned(),
            _ => format!("[{}]", policies.collect::<Vec<_>>().join(",")),
        };
        in_order([
            (
                "StabilizationWindowSeconds",
                rules["stabilizationWindowSeconds"].to_string(),
            ),
            ("SelectPolicy", rules["selectPolicy"].to_string()),
            ("Policies", policies),
            ("Tolerance", rules["tolerance"].to_string()),
        ])
    };
    in_order([
        ("ScaleUp", rules(&behavior["scaleUp"])),
        ("ScaleDown", rules(&behavior["scaleDown"])),
    ])
}

/// The same with the names that clients know, and without what is null.
fn lowered(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut lower = Map::new();
            for (key, value) in map.into_iter().filter(|(_, value)| !value.is_null()) {
                let mut letters = key.chars();
                let first = letters.next().map(|letter| letter.to_ascii_lowercase());
                lower.insert(first.into_iter().chain(letters).collect(), lowered(value));
            }
            Value::Object(lower)
        }
        Value::Array(items) => items.into_iter().map(lowered).collect(),
        other => other,
    }
}

fn in_order<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields = fields.into_iter().map(|(key, value)| format!("{key:?}:{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{from_modern, to_modern};

    fn there_and_back(modern: &Value) -> Value {
        let mut old = modern.clone();
        from_modern(&mut old);
        let mut back = old.clone();
        to_modern(&mut back);
        assert_eq!(&back, modern);
        old
    }

    #[test]
    fn what_the_first_version_cannot_say_is_carried() {
        let modern = json!({
            "metadata": {"annotations": {"a": "b"}},
            "spec": {
                "maxReplicas": 3,
                "minReplicas": 1,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Object", "object": {
                        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
                        "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "AverageValue", "averageValue": "5"},
                    }},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
                ],
                "behavior": {"scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}},
            },
            "status": {
                "currentReplicas": 1,
                "desiredReplicas": 2,
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 50, "averageValue": "5m"}}}],
            },
        });
        let old = there_and_back(&modern);
        assert_eq!(
            old["spec"],
            json!({"maxReplicas": 3, "minReplicas": 1, "targetCPUUtilizationPercentage": 70})
        );
        assert_eq!(
            old["status"],
            json!({"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 50})
        );
        assert_eq!(
            old["metadata"]["annotations"],
            json!({
                "a": "b",
                "autoscaling.alpha.kubernetes.io/metrics":
                    "[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"targetAverageValue\":\"1Gi\"}},\
                     {\"type\":\"Object\",\"object\":{\"target\":{\"kind\":\"Service\",\"name\":\"s\",\"apiVersion\":\"v1\"},\
                     \"metricName\":\"hits\",\"targetValue\":\"0\",\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\
                     \"averageValue\":\"5\"}}]",
                "autoscaling.alpha.kubernetes.io/current-metrics":
                    "[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"currentAverageUtilization\":50,\
                     \"currentAverageValue\":\"5m\"}}]",
                "autoscaling.alpha.kubernetes.io/conditions":
                    "[{\"type\":\"AbleToScale\",\"status\":\"True\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]",
                "autoscaling.alpha.kubernetes.io/behavior":
                    "{\"ScaleUp\":null,\"ScaleDown\":{\"StabilizationWindowSeconds\":null,\"SelectPolicy\":\"Max\",\
                     \"Policies\":[{\"Type\":\"Pods\",\"Value\":1,\"PeriodSeconds\":15}],\"Tolerance\":null}}",
            })
        );
    }

    #[test]
    fn without_any_metric_processors_are_to_be_busy() {
        let mut autoscaler =
            json!({"metadata": {}, "spec": {"maxReplicas": 3}, "status": {"currentReplicas": 0}});
        to_modern(&mut autoscaler);
        let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
        assert_eq!(
            autoscaler["spec"]["metrics"],
            json!([{"type": "Resource", "resource": cpu}])
        );
    }

    #[test]
    fn what_cannot_be_read_is_dropped() {
        let mut autoscaler = json!({
            "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "{", "autoscaling.alpha.kubernetes.io/conditions": "5"}},
            "spec": {"targetCPUUtilizationPercentage": 5},
        });
        to_modern(&mut autoscaler);
        assert_eq!(autoscaler["metadata"], json!({}));
        assert_eq!(autoscaler["spec"]["metrics"].as_array().map(Vec::len), Some(1));
        assert_eq!(autoscaler["status"], json!({"currentMetrics": null}));
    }
}
