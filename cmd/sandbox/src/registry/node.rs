//! Strategy of Node.

use crate::field::{FieldError, Report as _, Wrong};
use crate::json::{Value, json};
use crate::registry::json::{empty, entries, list, section, set, text};
use crate::registry::{Rules, names, pod};

/// The taint of a new node, which a controller removes once the node is ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(crate) const RULES: Rules = Rules {
    name_on_update: names::subdomain_name,
    default,
    create: |node| {
        if let Some(spec) = section(node, "spec")
            && !list(&spec["taints"])
                .iter()
                .any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule")
        {
            let mut taints = list(&spec["taints"]).to_vec();
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
            set(spec, "taints", taints);
        }
    },
    // A kubelet registers itself with all it knows.
    status_on_create: true,
    validate,
    validate_update,
    validate_status: |old, new, errors| {
        validate_resources(new, errors);
        validate_update(old, new, errors);
    },
    ..Rules::GENERIC
};

fn default(node: &mut Value) {
    if let Some(status) = node.get_mut("status")
        && status["allocatable"].is_null()
        && !status["capacity"].is_null()
    {
        let all = status["capacity"].clone();
        set(status, "allocatable", all);
    }
    if let Some(spec) = node.get_mut("spec") {
        pod_ranges(spec);
    }
}

/// The single range and the list of ranges say the same.
fn pod_ranges(spec: &mut Value) {
    let first = list(&spec["podCIDRs"]).first().map_or("", text).to_owned();
    let single = text(&spec["podCIDR"]).to_owned();
    if single.is_empty() && !first.is_empty() {
        set(spec, "podCIDR", first);
    } else if !single.is_empty() && single != first {
        set(spec, "podCIDRs", json!([single]));
    }
}

fn validate(node: &Value, errors: &mut Vec<FieldError>) {
    // The API server reports taints below metadata.
    for error in errors.iter_mut() {
        if let Some(rest) = error.field.strip_prefix("spec.taints") {
            error.field = format!("metadata.taints{rest}");
        }
    }
    let mut seen = Vec::new();
    for (i, taint) in list(&node["spec"]["taints"]).iter().enumerate() {
        let pair = (&taint["key"], &taint["effect"]);
        if seen.contains(&pair) {
            let why = "taints must be unique by key and effect pair";
            errors.report(
                format!("metadata.taints[{i}]"),
                Wrong::Duplicate(taint.clone()),
                why,
            );
        }
        seen.push(pair);
    }
    validate_resources(node, errors);
}

fn validate_resources(node: &Value, errors: &mut Vec<FieldError>) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in entries(&node["status"][list]) {
            pod::validate_amount(name, amount, &format!("status.{list}.{name}"), errors);
        }
    }
}

fn validate_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let addresses = list(&new["status"]["addresses"]);
    for (i, address) in addresses.iter().enumerate() {
        if addresses[..i].contains(address) {
            errors.duplicate(format!("status.addresses[{i}]"), address.clone());
        }
    }
    for (key, noun) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let (before, after) = (&old["spec"][key], &new["spec"][key]);
        if !empty(before) && before != after {
            let why = format!("node updates may not change {noun} except from \"\" to valid");
            errors.forbidden(format!("spec.{key}"), why);
        }
    }
}
