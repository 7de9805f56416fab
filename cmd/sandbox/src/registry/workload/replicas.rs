//! Strategies of `ReplicaSet` and `ReplicationController`.

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{empty, entries, section, set, set_default, text, with};
use crate::registry::workload::{
    Owner, does_not_match, validate_counts, validate_same_selector, validate_selector_and_template,
    validate_status_counts, validate_template,
};
use crate::registry::{Rules, pod};

const SET: Owner = Owner {
    selector_of: "deployment",
    bad_selector: "invalid label selector",
    template_of: "ReplicaSet",
};
const CONTROLLER: Owner = Owner {
    selector_of: "",
    bad_selector: "",
    template_of: "ReplicationController",
};

pub(crate) const SET_RULES: Rules = Rules {
    default: default_set,
    generation: Some(Rules::spec_changed),
    validate: validate_set,
    validate_update: |old, new| {
        let mut errors = validate_set(new);
        errors.extend(validate_same_selector(old, new));
        errors
    },
    validate_status,
    ..Rules::GENERIC
};

pub(crate) const CONTROLLER_RULES: Rules = Rules {
    default: default_controller,
    generation: Some(Rules::spec_changed),
    validate: validate_controller,
    validate_update: |_, new| validate_controller(new),
    validate_status,
    ..Rules::GENERIC
};

fn default_set(set: &mut Value) {
    if let Some(spec) = section(set, "spec") {
        set_default(spec, "replicas", 1);
        set_default(spec, "template", json!({}));
        pod::default_template(spec, "template");
    }
}

/// A controller without a selector looks for the labels of its template, and carries them itself.
fn default_controller(controller: &mut Value) {
    let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
    if !empty(&labels) {
        if empty(&controller["spec"]["selector"]) {
            with(controller, "spec", |spec| set(spec, "selector", labels.clone()));
        }
        if empty(&controller["metadata"]["labels"])
            && let Some(meta) = section(controller, "metadata")
        {
            set(meta, "labels", labels);
        }
    }
    if let Some(spec) = section(controller, "spec") {
        set_default(spec, "replicas", 1);
        pod::default_template(spec, "template");
    }
}

fn validate_set(set: &Value) -> Vec<FieldError> {
    let spec = &set["spec"];
    let mut errors = validate_counts(spec, "spec", &["replicas", "minReadySeconds"]);
    errors.extend(validate_selector_and_template(spec, &SET));
    errors
}

fn validate_controller(controller: &Value) -> Vec<FieldError> {
    let spec = &controller["spec"];
    let mut errors = validate_counts(spec, "spec", &["minReadySeconds"]);
    if empty(&spec["selector"]) {
        errors.required("spec.selector", "");
    }
    errors.extend(validate_counts(spec, "spec", &["replicas"]));
    if spec["template"].is_null() {
        errors.required("spec.template", "");
        return errors;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let selected = |(key, value): (&str, &Value)| text(&labels[key]) == text(value) && !labels[key].is_null();
    if !entries(&spec["selector"]).all(selected) {
        errors.push(does_not_match(spec));
    }
    errors.extend(validate_template(spec, &CONTROLLER));
    errors
}

fn validate_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let status = &new["status"];
    let mut errors = validate_counts(
        status,
        "status",
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    );
    errors.extend(validate_status_counts(
        status,
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        "readyReplicas",
    ));
    errors
}
