//! What is wrong with a metric of an autoscaler.

use serde_json::Value;

use super::super::json::text;
use super::super::names;
use super::validate::{Versions, reference};
use crate::field::FieldError;
use crate::quantity::Quantity;

/// The types of metrics by the alphabet, and their fields.
const TYPES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// Checks a metric. `versions` is what an object that is measured may be of.
pub(super) fn validate(metric: &Value, path: &str, versions: Versions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(&metric["type"]);
    let expected = TYPES
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, field)| *field);
    let unknown = || FieldError::not_supported(format!("{path}.type"), kind, &TYPES.map(|(name, _)| name));
    if kind.is_empty() {
        errors.push(FieldError::required(
            format!("{path}.type"),
            "must specify a metric source type",
        ));
    }
    if expected.is_none() {
        errors.push(unknown());
    }
    let order = ["object", "external", "pods", "resource", "containerResource"];
    let mut present: Vec<&str> = order
        .into_iter()
        .filter(|field| !metric[*field].is_null())
        .collect();
    if let Some(first) = present.first() {
        errors.extend(source(
            first,
            &metric[*first],
            &format!("{path}.{first}"),
            versions,
        ));
    }
    match expected {
        Some(field) if metric[field].is_null() => errors.push(FieldError::required(
            format!("{path}.{field}"),
            "must populate information for the given metric source",
        )),
        Some(_) => {}
        None => errors.push(unknown()),
    }
    if present.len() != 1 {
        present.retain(|field| Some(*field) != expected);
        errors.extend(present.iter().map(|field| {
            FieldError::forbidden(
                format!("{path}.{field}"),
                "must populate the given metric source only",
            )
        }));
    }
    errors
}

fn source(field: &str, source: &Value, path: &str, versions: Versions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if field == "object" {
        errors.extend(reference(
            &source["describedObject"],
            &format!("{path}.describedObject"),
            versions,
        ));
    }
    if field.to_lowercase().ends_with("resource") {
        if text(&source["name"]).is_empty() {
            errors.push(FieldError::required(
                format!("{path}.name"),
                "must specify a resource name",
            ));
        }
    } else {
        errors.extend(identifier(
            &source["metric"]["name"],
            &format!("{path}.metric.name"),
        ));
    }
    if field == "containerResource" {
        let container = text(&source["container"]);
        let path = format!("{path}.container");
        if container.is_empty() {
            errors.push(FieldError::required(path, "must specify a container"));
        } else {
            let wrong = names::dns_label(container);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|why| FieldError::invalid(&path, container, why)),
            );
        }
    }
    let (target, path) = (&source["target"], format!("{path}.target"));
    errors.extend(validate_target(target, &path));
    let has = |key: &str| !target[key].is_null();
    let required = |key: &str, why: &str| FieldError::required(format!("{path}.{key}"), why);
    let forbidden = |key: &str, why: &str| FieldError::forbidden(format!("{path}.{key}"), why);
    match field {
        "object" if !has("value") && !has("averageValue") => errors.push(required(
            "averageValue",
            "must set either a target value or averageValue",
        )),
        "external" if !has("value") && !has("averageValue") => errors.push(required(
            "averageValue",
            "must set either a target value for metric or a per-pod target",
        )),
        "external" if has("value") && has("averageValue") => errors.push(forbidden(
            "value",
            "may not set both a target value for metric and a per-pod target",
        )),
        "pods" if !has("averageValue") => errors.push(required(
            "averageValue",
            "must specify a positive target averageValue",
        )),
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => errors
            .push(required(
                "averageUtilization",
                "must set either a target raw value or a target utilization",
            )),
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            errors.push(forbidden(
                "averageValue",
                "may not set both a target raw value and a target utilization",
            ));
        }
        _ => {}
    }
    errors
}

fn identifier(name: &Value, path: &str) -> Vec<FieldError> {
    let name = text(name);
    if name.is_empty() {
        return vec![FieldError::required(path, "must specify a metric name")];
    }
    let wrong = names::path_segment(name).into_iter();
    wrong.map(|why| FieldError::invalid(path, name, why)).collect()
}

fn validate_target(target: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(&target["type"]);
    if kind.is_empty() {
        errors.push(FieldError::required(
            format!("{path}.type"),
            "must specify a metric target type",
        ));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.push(FieldError::invalid(
            format!("{path}.type"),
            kind,
            "must be either Utilization, Value, or AverageValue",
        ));
    }
    for key in ["value", "averageValue"] {
        if Quantity::read(&target[key]).is_some_and(|value| !value.is_positive()) {
            errors.push(FieldError::invalid(
                format!("{path}.{key}"),
                target[key].clone(),
                "must be positive",
            ));
        }
    }
    if target["averageUtilization"]
        .as_i64()
        .is_some_and(|percent| percent < 1)
    {
        errors.push(FieldError::invalid(
            format!("{path}.averageUtilization"),
            target["averageUtilization"].clone(),
            "must be greater than 0",
        ));
    }
    errors
}
