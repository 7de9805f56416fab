//! The strategy of Pod, and the rules of pod templates.

pub(crate) mod admission;
pub(crate) mod connect;
pub(crate) mod container;
pub(crate) mod defaults;
pub(crate) mod ephemeral;
pub(crate) mod gated;
pub(crate) mod resources;
pub(crate) mod spec;
pub(crate) mod subresources;
pub(crate) mod update;

use crate::field::{FieldError, Report as _};
use crate::json::{Value, json};
use crate::registry::json::{default_text, keep, keep_meta, list, number, set, text};
use crate::registry::{Rules, names};

pub(crate) use admission::create as tolerate_node_trouble;
pub(crate) use resources::validate_amount;

pub(crate) const RULES: Rules = Rules {
    name_on_update: names::subdomain_name,
    create,
    update: admission::update,
    status,
    generation: Some(Rules::spec_changed),
    validate,
    validate_create,
    validate_update: update::validate,
    validate_status: update::validate_status,
    ..Rules::GENERIC
};

fn validate(pod: &Value, errors: &mut Vec<FieldError>) {
    for kind in ["containers", "initContainers"] {
        for (i, container) in list(&pod["spec"][kind]).iter().enumerate() {
            let image = text(&container["image"]);
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                errors.invalid(format!("spec.{kind}[{i}].image"), image, why);
            }
        }
    }
}

fn validate_create(pod: &Value, errors: &mut Vec<FieldError>) {
    let spec = &pod["spec"];
    if !list(&spec["ephemeralContainers"]).is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(&spec["nodeName"]).is_empty() && !list(&spec["schedulingGates"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden("spec.nodeName", why);
    }
}

fn create(pod: &mut Value) {
    admission::create(pod);
    let mut status = json!({"phase": "Pending", "qosClass": admission::quality_of_service(pod)});
    if !list(&pod["spec"]["schedulingGates"]).is_empty() {
        let mut gated = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        if !pod["metadata"]["creationTimestamp"].is_null() {
            set(
                &mut gated,
                "lastTransitionTime",
                pod["metadata"]["creationTimestamp"].clone(),
            );
        }
        set(&mut status, "conditions", json!([gated]));
    }
    set(pod, "status", status);
}

fn status(old: &Value, new: &mut Value) {
    // Older clients may omit status fields that they do not know, so omitted fields keep their old values.
    keep_meta(old, new, "ownerReferences");
    let Some(status) = new.get_mut("status") else {
        return;
    };
    default_text(status, "qosClass", text(&old["status"]["qosClass"]));
    if text(&status["qosClass"]).is_empty() {
        crate::registry::json::remove(status, "qosClass");
    }
    if number(&status["observedGeneration"]) == 0 {
        keep(&old["status"], status, "observedGeneration");
    }
    let old_conditions = list(&old["status"]["conditions"]);
    crate::registry::json::each(status, "conditions", |condition| {
        if number(&condition["observedGeneration"]) == 0 {
            let before = old_conditions.iter().find(|old| old["type"] == condition["type"]);
            keep(before.unwrap_or(&Value::Null), condition, "observedGeneration");
        }
    });
}
