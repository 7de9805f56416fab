//! Rules that the workload kinds share; each kind has a file.

mod daemonset;
mod deployment;
mod replicas;
mod revision;

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{empty, number, text};
use crate::registry::meta::{immutable, non_negative};
use crate::registry::{labels, names, pod};

pub(crate) use daemonset::RULES as DAEMON_SET;
pub(crate) use deployment::RULES as DEPLOYMENT;
pub(crate) use replicas::{CONTROLLER_RULES as REPLICATION_CONTROLLER, SET_RULES as REPLICA_SET};
pub(crate) use revision::RULES as CONTROLLER_REVISION;

/// How errors name the kind whose template this is.
struct Owner {
    /// In `empty selector is invalid for …`; replica sets have said `deployment` since ever.
    selector_of: &'static str,
    /// The message for an invalid selector, beyond the errors of its parts.
    bad_selector: &'static str,
    /// In `activeDeadlineSeconds in … is not Supported`.
    template_of: &'static str,
}

/// A selector that is there, well formed, not empty, and matches a template that is fine too.
fn validate_selector_and_template(spec: &Value, owner: &Owner) -> Vec<FieldError> {
    let selector = &spec["selector"];
    let mut errors = labels::validate_selector(selector, "spec.selector");
    if !errors.is_empty() {
        // Nothing can be said about the template.
        errors.invalid("spec.selector", selector.clone(), owner.bad_selector);
        return errors;
    }
    if selector.is_null() {
        errors.required("spec.selector", "");
    } else if labels::selects_all(selector) {
        errors.invalid(
            "spec.selector",
            selector.clone(),
            format!("empty selector is invalid for {}", owner.selector_of),
        );
    }
    // No selector selects nothing, and so does not match either.
    if !labels::matches(selector, &spec["template"]["metadata"]["labels"]) {
        errors.push(does_not_match(spec));
    }
    errors.extend(validate_template(spec, owner));
    errors
}

fn does_not_match(spec: &Value) -> FieldError {
    let labels = &spec["template"]["metadata"]["labels"];
    FieldError::invalid(
        "spec.template.metadata.labels",
        if empty(labels) {
            Value::Null
        } else {
            labels.clone()
        },
        "`selector` does not match template `labels`",
    )
}

/// A template whose pods always restart.
fn validate_template(spec: &Value, owner: &Owner) -> Vec<FieldError> {
    let template = &spec["template"];
    let mut errors = pod::validate_template(template, "spec.template");
    let policy = text(&template["spec"]["restartPolicy"]);
    if policy != "Always" {
        errors.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        errors.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            format!("activeDeadlineSeconds in {} is not Supported", owner.template_of),
        );
    }
    errors
}

/// Several integers under one parent that may not be negative.
fn validate_counts(parent: &Value, path: &str, keys: &[&str]) -> Vec<FieldError> {
    keys.iter()
        .filter_map(|key| non_negative(&parent[*key], format!("{path}.{key}")))
        .collect()
}

/// The selector decides which pods are whose, and never changes.
fn validate_same_selector(old: &Value, new: &Value) -> Option<FieldError> {
    immutable(
        &old["spec"]["selector"],
        &new["spec"]["selector"],
        "spec.selector",
    )
}

/// Counters of a status that cannot exceed the number of replicas, nor be available without being ready.
fn validate_status_counts(status: &Value, bounded: &[&str], ready: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in bounded {
        if number(&status[*key]) > number(&status["replicas"]) {
            errors.invalid(
                format!("status.{key}"),
                number(&status[*key]),
                "cannot be greater than status.replicas",
            );
        }
    }
    let available = number(&status["availableReplicas"]);
    if available > number(&status["readyReplicas"]) {
        errors.invalid(
            "status.availableReplicas",
            available,
            format!("cannot be greater than {ready}"),
        );
    }
    errors
}

/// The counter that keeps names of revisions apart only grows.
fn validate_collisions(old: &Value, new: &Value) -> Option<FieldError> {
    let [before, after] = [old, new].map(|obj| &obj["status"]["collisionCount"]);
    let lost = !before.is_null() && (after.is_null() || number(after) < number(before));
    lost.then(|| FieldError::invalid("status.collisionCount", number(after), "cannot be decremented"))
}

/// A number of pods, or a percentage of them.
pub(crate) fn validate_count_or_percent(value: &Value, path: &str) -> Vec<FieldError> {
    match value {
        Value::String(percent) if percent_of(value).is_none() => vec![FieldError::invalid(
            path,
            percent.as_str(),
            names::pattern(
                "a valid percent string must be a numeric string followed by an ending '%'",
                "[0-9]+%",
                &["1%", "93%"],
            ),
        )],
        Value::String(_) => Vec::new(),
        number => non_negative(number, path).into_iter().collect(),
    }
}

/// Not more than all of them.
pub(crate) fn validate_at_most_all(value: &Value, path: &str) -> Option<FieldError> {
    (percent_of(value)? > 100)
        .then(|| FieldError::invalid(path, value.clone(), "must not be greater than 100%"))
}

fn percent_of(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Whether a count or percentage comes to nothing.
fn is_nothing(value: &Value) -> bool {
    percent_of(value).map_or_else(|| number(value) == 0, |percent| percent == 0)
}
