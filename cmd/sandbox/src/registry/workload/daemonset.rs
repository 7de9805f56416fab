//! Strategy of `DaemonSet`.

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{default_text, section, set, set_default, text};
use crate::registry::workload::{
    Owner, does_not_match, is_nothing, validate_at_most_all, validate_collisions, validate_count_or_percent,
    validate_counts, validate_same_selector, validate_template,
};
use crate::registry::{Rules, labels, pod};

const OWNER: Owner = Owner {
    selector_of: "daemonset",
    bad_selector: "",
    template_of: "DaemonSet",
};

/// Counts changes of the template alone. It was a field once; the server keeps it going as an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(crate) const RULES: Rules = Rules {
    default,
    create: |set| {
        let given = template_generation(set);
        set_template_generation(set, given.max(1));
    },
    update: |old, new| {
        let changed = old["spec"]["template"] != new["spec"]["template"];
        set_template_generation(new, template_generation(old).saturating_add(i64::from(changed)));
    },
    status: |old, new| set_template_generation(new, template_generation(old)),
    generation: Some(Rules::spec_changed),
    validate,
    validate_update: |old, new| {
        let mut errors: Vec<FieldError> = validate_same_selector(old, new).into_iter().collect();
        errors.extend(validate(new));
        errors
    },
    validate_status,
    ..Rules::GENERIC
};

fn template_generation(obj: &Value) -> i64 {
    text(&obj["metadata"]["annotations"][TEMPLATE_GENERATION])
        .parse()
        .unwrap_or_default()
}

fn set_template_generation(obj: &mut Value, generation: i64) {
    if let Some(meta) = section(obj, "metadata")
        && let Some(annotations) = section(meta, "annotations")
    {
        set(annotations, TEMPLATE_GENERATION, generation.to_string());
    }
}

fn default(daemon_set: &mut Value) {
    let Some(spec) = section(daemon_set, "spec") else {
        return;
    };
    if let Some(strategy) = section(spec, "updateStrategy") {
        default_text(strategy, "type", "RollingUpdate");
        if text(&strategy["type"]) == "RollingUpdate"
            && let Some(rolling) = section(strategy, "rollingUpdate")
        {
            set_default(rolling, "maxUnavailable", 1);
            set_default(rolling, "maxSurge", 0);
        }
    }
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "template", json!({}));
    pod::default_template(spec, "template");
}

fn validate(set: &Value) -> Vec<FieldError> {
    let spec = &set["spec"];
    let selector = &spec["selector"];
    let mut errors = labels::validate_selector(selector, "spec.selector");
    if errors.is_empty() && !labels::matches(selector, &spec["template"]["metadata"]["labels"]) {
        errors.push(does_not_match(spec));
    }
    if selector.is_object() && labels::selects_all(selector) {
        errors.invalid(
            "spec.selector",
            selector.clone(),
            format!("empty selector is invalid for {}", OWNER.selector_of),
        );
    }
    errors.extend(validate_template(spec, &OWNER));
    errors.extend(validate_counts(spec, "spec", &["minReadySeconds"]));
    errors.extend(validate_strategy(&spec["updateStrategy"]));
    errors.extend(validate_counts(spec, "spec", &["revisionHistoryLimit"]));
    errors
}

fn validate_strategy(strategy: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.updateStrategy";
    match text(&strategy["type"]) {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => validate_rolling(&strategy["rollingUpdate"]),
        _ => vec![FieldError::not_supported(
            PATH,
            strategy.clone(),
            &["RollingUpdate", "OnDelete"],
        )],
    }
}

/// A node has one pod of the set: it can be replaced before or after, not both and not neither.
fn validate_rolling(rolling: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let fields = ["maxUnavailable", "maxSurge"]
        .map(|key| (&rolling[key], format!("spec.updateStrategy.rollingUpdate.{key}")));
    for (value, path) in &fields {
        errors.extend(validate_count_or_percent(value, path));
    }
    for (value, path) in &fields {
        errors.extend(validate_at_most_all(value, path));
    }
    let [(unavailable, unavailable_path), (surge, surge_path)] = fields;
    match (is_nothing(unavailable), is_nothing(surge)) {
        (false, false) => errors.invalid(
            surge_path,
            surge.clone(),
            "may not be set when maxUnavailable is non-zero",
        ),
        (true, true) => {
            errors.required(unavailable_path, "cannot be 0 when maxSurge is 0");
        }
        _ => {}
    }
    errors
}

fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_counts(
        &new["status"],
        "status",
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    );
    errors.extend(validate_collisions(old, new));
    errors
}
