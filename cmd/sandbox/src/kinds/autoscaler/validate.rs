//! What is wrong with an autoscaler.

use serde_json::Value;

use super::super::json::{list, number, text};
use super::super::names;
use super::metrics;
use crate::field::FieldError;
use crate::quantity::Quantity;

/// Checks an autoscaler; an update is not held against what was let in before.
pub(super) fn autoscaler(old: Option<&Value>, autoscaler: &Value) -> Vec<FieldError> {
    let spec = &autoscaler["spec"];
    let mut errors = Vec::new();
    let (low, high) = (number(&spec["minReplicas"]), number(&spec["maxReplicas"]));
    let lowest = i64::from(old.is_none_or(|old| old["spec"]["minReplicas"] != 0));
    if low < lowest {
        errors.push(FieldError::invalid(
            "spec.minReplicas",
            low,
            format!("must be greater than or equal to {lowest}"),
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
    let target = &spec["scaleTargetRef"];
    let same = |key: &str| old.is_some_and(|old| old["spec"]["scaleTargetRef"][key] == target[key]);
    let versions = if same("apiVersion") && same("kind") {
        Versions::Any
    } else if text(&target["kind"]) == "ReplicationController" {
        Versions::Core
    } else {
        Versions::Grouped
    };
    errors.extend(reference(target, "spec.scaleTargetRef", versions));
    let described = |metric: &Value| {
        text(&metric["type"]) == "Object"
            && version(&metric["object"]["describedObject"], Versions::Core).is_some()
    };
    let were_wrong = old.is_some_and(|old| list(&old["spec"]["metrics"]).iter().any(described));
    let versions = if were_wrong { Versions::Any } else { Versions::Core };
    for (i, metric) in list(&spec["metrics"]).iter().enumerate() {
        errors.extend(metrics::validate(metric, &format!("spec.metrics[{i}]"), versions));
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

/// Which versions a reference may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Versions {
    /// Those with a group.
    Grouped,
    /// That of the core group too.
    Core,
    /// Whatever it says.
    Any,
}

/// Checks a reference to what is scaled, or measured.
pub(super) fn reference(target: &Value, path: &str, versions: Versions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["kind", "name"] {
        let path = format!("{path}.{key}");
        let value = text(&target[key]);
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        for wrong in names::path_segment(value) {
            errors.push(FieldError::invalid(&path, value, wrong));
        }
    }
    if let Some(problem) = version(target, versions) {
        let version = text(&target["apiVersion"]);
        errors.push(FieldError::invalid(
            format!("{path}.apiVersion"),
            version,
            problem,
        ));
    }
    errors
}

fn version(target: &Value, versions: Versions) -> Option<String> {
    let version = text(&target["apiVersion"]);
    match version.split('/').count() {
        _ if versions == Versions::Any => None,
        1 if versions == Versions::Core => None,
        1 => Some("apiVersion must specify API group".to_owned()),
        2 => None,
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    }
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
    let tolerance = &rules["tolerance"];
    if Quantity::read(tolerance).is_some_and(Quantity::is_negative) {
        errors.push(FieldError::invalid(
            format!("{path}.tolerance"),
            tolerance.clone(),
            "must be greater than or equal to 0",
        ));
    }
    errors
}
