//! Validation of events.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::event::convert;
use crate::registry::json::{empty, number, text};
use crate::registry::meta::immutable;
use crate::registry::names;

/// The longest texts, in bytes.
const SHORT: usize = 128;
const NOTE: usize = 1024;

/// Validates an event in the form of the core group. `controller_field` is the path of the reporting controller.
pub(crate) fn legacy(event: &Value, controller_field: &str, errors: &mut Vec<FieldError>) {
    let namespace = text(&event["metadata"]["namespace"]);
    let about = text(&event["involvedObject"]["namespace"]);
    let modern = !event["eventTime"].is_null();
    let fits = match (modern, about) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, about) => about == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        let why = "does not match event.namespace";
        errors.invalid("involvedObject.namespace", about, why);
    }
    if modern {
        reporter(event, controller_field, errors);
    }
    errors.format("namespace", namespace, names::dns_subdomain);
}

fn reporter(event: &Value, controller_field: &str, errors: &mut Vec<FieldError>) {
    let controller = text(&event["reportingComponent"]);
    if controller.is_empty() {
        errors.required(controller_field, "");
    }
    errors.format(controller_field, controller, names::qualified);
    for (key, limit) in [
        ("reportingInstance", SHORT),
        ("action", SHORT),
        ("reason", SHORT),
        ("message", NOTE),
    ] {
        let value = text(&event[key]);
        if key != "message" && value.is_empty() {
            errors.required(key, "");
        }
        if value.len() > limit {
            errors.invalid(key, "", format!("can have at most {limit} characters"));
        }
    }
}

/// Validates a new event in the form of `events.k8s.io`.
pub(crate) fn modern(event: &Value, errors: &mut Vec<FieldError>) {
    let event = in_core_form(event);
    legacy(&event, "reportingController", errors);
    series(&event, errors);
    if event["eventTime"].is_null() {
        errors.required("eventTime", "");
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid("type", "", format!("has invalid value: {kind}"));
    }
    for key in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if !empty(&event[key]) && event[key] != 0 {
            errors.invalid(key, "", "needs to be unset");
        }
    }
}

/// Validates an update: only the series of an event may change.
pub(crate) fn modern_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let (old, new) = (in_core_form(old), in_core_form(new));
    legacy(&new, "reportingController", errors);
    if old["series"] != new["series"] {
        series(&new, errors);
    }
    for key in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        let path = match key {
            "reportingComponent" => "reportingController",
            key => key,
        };
        errors.extend(immutable(&old[key], &new[key], path));
    }
}

fn in_core_form(event: &Value) -> Value {
    let mut event = event.clone();
    convert::to_core(&mut event);
    event
}

fn series(event: &Value, errors: &mut Vec<FieldError>) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    if number(&series["count"]) < 2 {
        errors.invalid("series.count", "", "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        errors.required("series.lastObservedTime", "");
    }
}
