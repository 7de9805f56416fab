//! Validation of events.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::event::convert;
use crate::registry::json::{empty, number, same, text};
use crate::registry::names;

/// The longest texts, in bytes.
const SHORT: usize = 128;
const NOTE: usize = 1024;

/// Checks an event in core shape.
pub(crate) fn core(event: &Value) -> Vec<FieldError> {
    legacy(event, "reportingComponent")
}

fn legacy(event: &Value, controller_field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
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
        errors.invalid(
            "involvedObject.namespace",
            about,
            "does not match event.namespace",
        );
    }
    if modern {
        reporter(event, controller_field, &mut errors);
    }
    for wrong in names::dns_subdomain(namespace) {
        errors.invalid("namespace", namespace, wrong);
    }
    errors
}

fn reporter(event: &Value, controller_field: &str, errors: &mut Vec<FieldError>) {
    let controller = text(&event["reportingComponent"]);
    if controller.is_empty() {
        errors.required(controller_field, "");
    }
    for wrong in names::qualified(controller) {
        errors.invalid(controller_field, controller, wrong);
    }
    for (key, needed, limit) in [
        ("reportingInstance", true, SHORT),
        ("action", true, SHORT),
        ("reason", true, SHORT),
        ("message", false, NOTE),
    ] {
        let value = text(&event[key]);
        if needed && value.is_empty() {
            errors.required(key, "");
        }
        if value.len() > limit {
            errors.invalid(key, "", format!("can have at most {limit} characters"));
        }
    }
}

/// Checks an event in the shape of `events.k8s.io`.
pub(crate) fn modern(event: &Value) -> Vec<FieldError> {
    let event = in_core_shape(event);
    let mut errors = legacy(&event, "reportingController");
    series(&event, &mut errors);
    if event["eventTime"].is_null() {
        errors.required("eventTime", "");
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid("type", "", format!("has invalid value: {kind}"));
    }
    let unset = [
        ("firstTimestamp", event["firstTimestamp"].is_null()),
        ("lastTimestamp", event["lastTimestamp"].is_null()),
        ("count", number(&event["count"]) == 0),
        ("source", empty(&event["source"])),
    ];
    for (key, _) in unset.iter().filter(|(_, unset)| !unset) {
        errors.invalid(*key, "", "needs to be unset");
    }
    errors
}

/// Only the series of an event may go on; the rest has happened.
pub(crate) fn modern_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (in_core_shape(old), in_core_shape(new));
    let mut errors = legacy(&new, "reportingController");
    if old["series"] != new["series"] {
        series(&new, &mut errors);
    }
    for (key, shown) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if !same(&old[key], &new[key]) {
            errors.invalid(shown, new[key].clone(), "field is immutable");
        }
    }
    errors
}

fn in_core_shape(event: &Value) -> Value {
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
