//! Pods, and the pod templates of the kinds that make them.

mod admission;
mod affinity;
mod container;
mod defaults;
mod environment;
mod gated;
mod probe;
mod resources;
mod security;
mod update;
mod validate;
mod volumes;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::json::{default_text, keep, keep_meta, list, number, set, text};
use super::{Rules, names};

pub(super) use admission::create as tolerate_node_trouble;
pub(super) use defaults::template as default_template;
pub(super) use resources::validate_amount;
pub(super) use validate::template as validate_template;

pub(super) const RULES: Rules = Rules {
    name_on_update: names::subdomain_name,
    default: defaults::pod,
    create,
    update,
    status,
    generation: Some(Rules::spec_changed),
    validate: validate::create,
    validate_update: update::validate,
    validate_status: update::validate_status,
    ..Rules::GENERIC
};

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

fn update(old: &Value, new: &mut Value) {
    admission::update(old, new);
}

fn status(old: &Value, new: &mut Value) {
    // Writers of status may be older than fields they do not know, so these survive their silence.
    keep_meta(old, new, "ownerReferences");
    let Some(status) = new.get_mut("status") else {
        return;
    };
    default_text(status, "qosClass", text(&old["status"]["qosClass"]));
    if text(&status["qosClass"]).is_empty() {
        super::json::remove(status, "qosClass");
    }
    if number(&status["observedGeneration"]) == 0 {
        keep(&old["status"], status, "observedGeneration");
    }
    let old_conditions = list(&old["status"]["conditions"]);
    super::json::each(status, "conditions", |condition| {
        if number(&condition["observedGeneration"]) == 0 {
            let before = old_conditions.iter().find(|old| old["type"] == condition["type"]);
            keep(before.unwrap_or(&Value::Null), condition, "observedGeneration");
        }
    });
}
