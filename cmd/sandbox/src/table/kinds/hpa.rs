//! Autoscalers, and the scale that they turn.

use serde_json::{Value, json};

use super::Kind;
use crate::table::column::{AGE, Column, NAME, integer, string};
use crate::table::duration::age;
use crate::table::read::{int, list, scalar, text};

pub static SCALE: Kind = Kind {
    columns: &[
        NAME,
        integer("Desired", "Number of pods there should be."),
        integer("Available", "Number of pods there are."),
        AGE,
    ],
    cells: |scale, now| {
        vec![
            json!(text(scale, "/metadata/name")),
            json!(int(scale, "/spec/replicas")),
            json!(int(scale, "/status/replicas")),
            json!(age(scale, now)),
        ]
    },
};

const COLUMNS: &[Column] = &[
    NAME,
    string("Reference", "What is scaled."),
    string("Targets", "Metrics as they are, and as they should be."),
    string("MinPods", "Lower limit of the number of pods."),
    string("MaxPods", "Upper limit of the number of pods."),
    string("Replicas", "Number of pods there are."),
    AGE,
];

pub static AUTOSCALER: Kind = Kind {
    columns: COLUMNS,
    cells: |hpa, now| {
        let hpa = &*crate::kinds::modern_autoscaler(hpa);
        let target = hpa.pointer("/spec/scaleTargetRef").unwrap_or(&Value::Null);
        vec![
            json!(text(hpa, "/metadata/name")),
            json!(format!("{}/{}", text(target, "/kind"), text(target, "/name"))),
            json!(metrics(hpa)),
            json!(scalar(hpa, "/spec/minReplicas").unwrap_or_else(|| "<unset>".to_owned())),
            json!(int(hpa, "/spec/maxReplicas")),
            json!(int(hpa, "/status/currentReplicas")),
            json!(age(hpa, now)),
        ]
    },
};

/// The first two metrics, and how many more there are.
fn metrics(hpa: &Value) -> String {
    const SHOWN: usize = 2;
    let specs = list(hpa, "/spec/metrics");
    let statuses = list(hpa, "/status/currentMetrics");
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let status = |index| statuses.get(index).unwrap_or(&Value::Null);
    let shown = specs
        .iter()
        .enumerate()
        .take(SHOWN)
        .map(|(index, spec)| metric(spec, status(index)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match specs.len() {
        all @ 3.. => format!("{shown} + {} more...", all - SHOWN),
        _ => shown,
    }
}

/// One metric as `current/target`, resources with their name.
fn metric(spec: &Value, status: &Value) -> String {
    let (source, resource) = match text(spec, "/type") {
        "External" => ("/external", false),
        "Object" => ("/object", false),
        "Pods" => ("/pods", false),
        "Resource" => ("/resource", true),
        "ContainerResource" => ("/containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let current = |field: &str| scalar(status, &format!("{source}/current/{field}"));
    let target = |field: &str| scalar(spec, &format!("{source}/target/{field}"));
    let unknown = || "<unknown>".to_owned();
    if resource {
        let name = text(spec, &format!("{source}/name"));
        let (current, target) = if let Some(target) = target("averageValue") {
            (current("averageValue"), target)
        } else {
            let percent = |number: String| format!("{number}%");
            let target = target("averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
            (current("averageUtilization").map(percent), target)
        };
        format!("{name}: {}/{target}", current.unwrap_or_else(unknown))
    } else if let Some(target) = target("averageValue") {
        let average = if source == "/pods" { "" } else { " (avg)" };
        format!(
            "{}/{target}{average}",
            current("averageValue").unwrap_or_else(unknown)
        )
    } else {
        format!(
            "{}/{}",
            current("value").unwrap_or_else(unknown),
            target("value").unwrap_or_default()
        )
    }
}
