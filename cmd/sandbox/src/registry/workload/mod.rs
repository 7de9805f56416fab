//! Strategies of the workload kinds: the rules that they share. Strategies of `ReplicaSet`, `ReplicationController` and
//! `ControllerRevision`.

mod daemonset;
mod deployment;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{empty, entries, number, section, set, text, with};
use crate::registry::meta::immutable;
use crate::registry::{Rules, declarative, names};
use crate::selector::label_selector_from_json;

pub(crate) use daemonset::{RULES as DAEMON_SET, default_strategy as default_daemon_set_strategy};
pub(crate) use deployment::{RULES as DEPLOYMENT, default_strategy as default_deployment_strategy};

pub(crate) const REPLICA_SET: Rules = Rules {
    generation: Some(Rules::spec_changed),
    validate: |set, errors| validate_selector_and_template(&set["spec"], errors),
    validate_update: validate_same_selector,
    validate_status: |_, new, errors| validate_replicas(&new["status"], "fullyLabeledReplicas", errors),
    ..Rules::GENERIC
};

pub(crate) const REPLICATION_CONTROLLER: Rules = Rules {
    default: default_selector,
    generation: Some(Rules::spec_changed),
    validate: |controller, errors| {
        let spec = &controller["spec"];
        let labels = &spec["template"]["metadata"]["labels"];
        if entries(&spec["selector"]).any(|(key, value)| labels[key] != *value) {
            report_mismatch(spec, errors);
        }
        if spec["template"].is_object() {
            validate_template(spec, errors);
        }
    },
    validate_status: |_, new, errors| validate_replicas(&new["status"], "fullyLabeledReplicas", errors),
    ..Rules::GENERIC
};

pub(crate) const CONTROLLER_REVISION: Rules = Rules {
    name_on_update: names::subdomain_name,
    validate_create: |revision, errors| {
        if !revision["data"].is_object() {
            errors.required("data", "data must be a valid JSON object");
        }
    },
    validate_update: |old, new, errors| errors.extend(immutable(&old["data"], &new["data"], "data")),
    ..Rules::GENERIC
};

/// Makes the labels of the template the default of the selector and of the labels of a replication controller.
fn default_selector(controller: &mut Value) {
    let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
    if empty(&labels) {
        return;
    }
    if empty(&controller["spec"]["selector"]) {
        with(controller, "spec", |spec| set(spec, "selector", labels.clone()));
    }
    if empty(&controller["metadata"]["labels"])
        && let Some(meta) = section(controller, "metadata")
    {
        set(meta, "labels", labels);
    }
}

/// Checks that the selector is set and selects the pods of the template.
fn validate_selector_and_template(spec: &Value, errors: &mut Vec<FieldError>) {
    let selector = &spec["selector"];
    if errors
        .iter()
        .any(|error| error.field.starts_with("spec.selector"))
    {
        // The server does not validate the template of an invalid selector.
        errors.retain(|error| !error.field.starts_with("spec.template"));
        errors.invalid("spec.selector", selector.clone(), "invalid label selector");
        return;
    }
    if selector.is_null() {
        errors.required("spec.selector", "");
    }
    validate_not_empty(selector, errors);
    if !selects_template(spec) {
        report_mismatch(spec, errors);
    }
    validate_template(spec, errors);
}

fn validate_not_empty(selector: &Value, errors: &mut Vec<FieldError>) {
    if selector.is_object() && empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"]) {
        errors.invalid("spec.selector", selector.clone(), "empty selector is invalid");
    }
}

/// Reports whether the selector matches the labels of the template.
fn selects_template(spec: &Value) -> bool {
    let labels = &spec["template"]["metadata"]["labels"];
    label_selector_from_json(spec.get("selector")).matches(labels)
}

fn report_mismatch(spec: &Value, errors: &mut Vec<FieldError>) {
    let labels = spec["template"]["metadata"]["labels"].clone();
    let why = "`selector` does not match template `labels`";
    errors.invalid("spec.template.metadata.labels", labels, why);
}

/// Checks that the pods of a template always restart.
fn validate_template(spec: &Value, errors: &mut Vec<FieldError>) {
    let template = &spec["template"]["spec"];
    let policy = text(&template["restartPolicy"]);
    if policy != "Always" {
        errors.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if !template["activeDeadlineSeconds"].is_null() {
        let why = "activeDeadlineSeconds is not supported in templates";
        errors.forbidden("spec.template.spec.activeDeadlineSeconds", why);
    }
}

fn validate_same_selector(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let [old, new] = [old, new].map(|object| &object["spec"]["selector"]);
    errors.extend(immutable(old, new, "spec.selector"));
}

/// Checks that counters of a status do not exceed the number of replicas, and that available replicas are ready.
fn validate_replicas(status: &Value, counter: &str, errors: &mut Vec<FieldError>) {
    for (counter, bound) in [
        (counter, "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ] {
        let count = number(&status[counter]);
        if count > number(&status[bound]) {
            let why = format!("cannot be greater than status.{bound}");
            errors.invalid(format!("status.{counter}"), count, why);
        }
    }
}

/// Checks that the counter of hash collisions only grows.
fn validate_collisions(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let [before, after] = [old, new].map(|obj| &obj["status"]["collisionCount"]);
    if !before.is_null() && (after.is_null() || number(after) < number(before)) {
        errors.invalid("status.collisionCount", number(after), "cannot be decremented");
    }
}

/// Reports whether a number or percentage of pods is zero.
fn is_zero(value: &Value) -> bool {
    declarative::percent_of(value).map_or_else(|| number(value) == 0, |percent| percent == 0)
}
