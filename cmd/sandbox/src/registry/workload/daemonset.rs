//! Strategy of `DaemonSet`.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::Rules;
use crate::registry::json::{section, set, set_default, text};
use crate::registry::workload::{
    is_zero, report_mismatch, selects_template, validate_collisions, validate_not_empty,
    validate_same_selector, validate_template,
};

/// Counts changes of the template alone. It was a field once; the server keeps it going as an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(crate) const RULES: Rules = Rules {
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
    validate_update: validate_same_selector,
    validate_status: validate_collisions,
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

/// Sets the defaults of rolling updates.
pub(crate) fn default_strategy(strategy: &mut Value) {
    if text(&strategy["type"]) == "RollingUpdate"
        && let Some(rolling) = section(strategy, "rollingUpdate")
    {
        set_default(rolling, "maxUnavailable", 1);
        set_default(rolling, "maxSurge", 0);
    }
}

fn validate(set: &Value, errors: &mut Vec<FieldError>) {
    let spec = &set["spec"];
    let invalid = errors
        .iter()
        .any(|error| error.field.starts_with("spec.selector"));
    if !invalid && !selects_template(spec) {
        report_mismatch(spec, errors);
    }
    validate_not_empty(&spec["selector"], errors);
    validate_template(spec, errors);
    validate_strategy(&spec["updateStrategy"], errors);
}

/// Checks the strategy. A node has one pod of the set: it is replaced before or after, not both and not neither.
fn validate_strategy(strategy: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.updateStrategy";
    let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|key| &strategy["rollingUpdate"][key]);
    match text(&strategy["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => match (is_zero(unavailable), is_zero(surge)) {
            (false, false) => {
                let why = "may not be set when maxUnavailable is non-zero";
                errors.invalid(format!("{PATH}.rollingUpdate.maxSurge"), surge.clone(), why);
            }
            (true, true) => {
                let why = "cannot be 0 when maxSurge is 0";
                errors.required(format!("{PATH}.rollingUpdate.maxUnavailable"), why);
            }
            _ => {}
        },
        _ => errors.not_supported(PATH, strategy.clone(), &["RollingUpdate", "OnDelete"]),
    }
}
