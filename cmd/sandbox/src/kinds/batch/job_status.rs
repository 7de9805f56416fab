//! Which steps the status of a job may take: what ended has ended, and counters of finished pods do not run back.

use serde_json::Value;

use super::super::json::{list, number, text};
use super::super::meta::non_negative;
use crate::field::FieldError;

fn is_true(job: &Value, kind: &str) -> bool {
    list(&job["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// The value of `conditions` is long and says less than the sentence, so that errors leave it out.
fn conditions(detail: &str) -> FieldError {
    FieldError::new("status.conditions", crate::field::Wrong::InvalidHidden, detail)
}

/// Checks an update of the status endpoint.
pub(super) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    let status = &new["status"];
    let mut errors = Vec::new();
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.extend(non_negative(&status[key], format!("status.{key}")));
    }
    validate_end(old, new, &mut errors);
    validate_times(old, new, &mut errors);
    for kind in ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"] {
        if is_true(old, kind) && !is_true(new, kind) {
            let terminal = if kind == "SuccessCriteriaMet" {
                ""
            } else {
                "terminal "
            };
            errors.push(conditions(&format!(
                "cannot disable the {terminal}{kind}=True condition"
            )));
        }
    }
    let scalable = text(&new["spec"]["completionMode"]) == "Indexed"
        && new["spec"]["completions"] == new["spec"]["parallelism"];
    for (key, guarded) in [("failed", true), ("succeeded", !scalable)] {
        let (before, after) = (number(&old["status"][key]), number(&status[key]));
        if guarded && after < before {
            errors.push(FieldError::invalid(
                format!("status.{key}"),
                after,
                format!("cannot decrease the {key} counter"),
            ));
        }
    }
    errors
}

/// How a job may end. Each rule is only applied when what it looks at changed, so that an odd old status can be mended
/// step by step.
fn validate_end(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let status = &new["status"];
    let differs = |kind: &str| is_true(old, kind) != is_true(new, kind);
    let finishing = finished(old) != finished(new);
    let changed = |key: &str| old["status"][key] != status[key];
    let (complete, failed) = (is_true(new, "Complete"), is_true(new, "Failed"));
    if complete && failed && (differs("Complete") || differs("Failed")) {
        errors.push(conditions("cannot set Complete=True and Failed=true conditions"));
    }
    if complete && is_true(new, "FailureTarget") && (differs("Complete") || differs("FailureTarget")) {
        errors.push(conditions(
            "cannot set Complete=True and FailureTarget=true conditions",
        ));
    }
    if failed && !is_true(new, "FailureTarget") && differs("Failed") {
        errors.push(conditions(
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ));
    }
    if complete
        && !is_true(new, "SuccessCriteriaMet")
        && (differs("Complete") || differs("SuccessCriteriaMet"))
    {
        errors.push(conditions(
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ));
    }
    if is_true(new, "SuccessCriteriaMet") {
        for other in ["Failed", "FailureTarget"] {
            if is_true(new, other) {
                errors.push(conditions(&format!(
                    "cannot set SuccessCriteriaMet=True and {other}=true conditions"
                )));
            }
        }
    }
    if finished(new) {
        for key in ["active", "terminating"] {
            if number(&status[key]) > 0 && (finishing || changed(key)) {
                errors.push(FieldError::invalid(
                    format!("status.{key}"),
                    status[key].clone(),
                    format!("{key}>0 is invalid for finished job"),
                ));
            }
        }
        let uncounted = &status["uncountedTerminatedPods"];
        let left = list(&uncounted["failed"]).len() + list(&uncounted["succeeded"]).len();
        if left > 0 && (finishing || changed("uncountedTerminatedPods")) {
            errors.push(FieldError::invalid(
                "status.uncountedTerminatedPods",
                uncounted.clone(),
                "must be empty for finished job",
            ));
        }
    }
    if number(&status["ready"]) > number(&status["active"]) && (changed("ready") || changed("active")) {
        errors.push(FieldError::invalid(
            "status.ready",
            status["ready"].clone(),
            "cannot set more ready pods than active",
        ));
    }
}

fn validate_times(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let (before, status) = (&old["status"], &new["status"]);
    let changed = |key: &str| before[key] != status[key];
    let completing = is_true(old, "Complete") != is_true(new, "Complete");
    let complete = is_true(new, "Complete");
    let [start, end] = ["startTime", "completionTime"].map(|key| &status[key]);
    if completing || changed("completionTime") {
        if !end.is_null() && !complete {
            errors.push(FieldError::invalid(
                "status.completionTime",
                end.clone(),
                "cannot set completionTime when there is no Complete=True condition",
            ));
        }
        if end.is_null() && complete {
            errors.push(FieldError::required(
                "status.completionTime",
                "completionTime is required for Complete jobs",
            ));
        }
    }
    // RFC 3339 texts of the same zone and precision sort like the times they stand for.
    if !start.is_null()
        && !end.is_null()
        && text(end) < text(start)
        && (changed("startTime") || changed("completionTime"))
    {
        errors.push(FieldError::invalid(
            "status.completionTime",
            end.clone(),
            "must be equal to or after `startTime`",
        ));
    }
    let suspended_with_nothing_to_do =
        new["spec"]["suspend"] == Value::Bool(true) && new["spec"]["completions"] == 0;
    if start.is_null()
        && finished(new)
        && !suspended_with_nothing_to_do
        && (finished(old) != finished(new) || changed("startTime"))
    {
        errors.push(FieldError::required(
            "status.startTime",
            "startTime is required for finished job",
        ));
    }
    if !before["completionTime"].is_null() && !end.is_null() && changed("completionTime") {
        errors.push(FieldError::invalid(
            "status.completionTime",
            end.clone(),
            "field is immutable",
        ));
    }
    let resuming = is_true(old, "Suspended")
        && list(&status["conditions"])
            .iter()
            .any(|condition| condition["type"] == "Suspended" && condition["status"] == "False");
    if !before["startTime"].is_null()
        && changed("startTime")
        && new["spec"]["suspend"] != Value::Bool(true)
        && !resuming
    {
        errors.push(FieldError::invalid(
            "status.startTime",
            start.clone(),
            "field is immutable for unsuspended job once set",
        ));
    }
}
