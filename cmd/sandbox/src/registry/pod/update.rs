//! Validation of pod updates: almost every field is immutable.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{entries, keep, list, number, remove, set, text};
use crate::registry::meta::immutable;
use crate::registry::names;
use crate::registry::pod::gated;
use crate::registry::pod::validate::{pod_only, tolerations};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update of a pod.
pub(crate) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = pod_only(new);
    let (old, new) = (&old["spec"], &new["spec"]);
    for kind in ["containers", "initContainers"] {
        if list(&old[kind]).len() != list(&new[kind]).len() {
            errors.forbidden(
                format!("spec.{kind}"),
                "pod updates may not add or remove containers",
            );
            return errors;
        }
    }
    if let Some((error, fatal)) = deadline(old, new) {
        errors.push(error);
        if fatal {
            return errors;
        }
    }
    added_tolerations(old, new, &mut errors);
    removed_gates(old, new, &mut errors);
    let mut rest = without_updatable(old, new);
    gated::steer(old, new, &mut rest, &mut errors);
    if rest != *old {
        errors.forbidden(
            "spec",
            format!(
                "pod updates may not change fields other than {UPDATABLE}\n{}",
                difference(old, &rest)
            ),
        );
    }
    errors
}

/// Checks that `activeDeadlineSeconds` does not increase. The flag says whether to skip further validation.
fn deadline(old: &Value, new: &Value) -> Option<(FieldError, bool)> {
    const PATH: &str = "spec.activeDeadlineSeconds";
    let [old, new] = [old, new].map(|spec| &spec["activeDeadlineSeconds"]);
    match (old.as_i64(), new.as_i64()) {
        (_, Some(seconds)) if !(0..=i64::from(i32::MAX)).contains(&seconds) => Some((
            FieldError::invalid(PATH, seconds, names::between(0, i64::from(i32::MAX))),
            true,
        )),
        (Some(before), Some(seconds)) if before < seconds => Some((
            FieldError::invalid(PATH, seconds, "must be less than or equal to previous value"),
            true,
        )),
        (Some(_), None) => Some((
            FieldError::invalid(
                PATH,
                Value::Null,
                "must not update from a positive integer to nil value",
            ),
            false,
        )),
        _ => None,
    }
}

fn added_tolerations(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.tolerations";
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let kept = list(&old["tolerations"]).iter().all(|old| {
        let old = without_seconds(old);
        list(&new["tolerations"])
            .iter()
            .any(|new| without_seconds(new) == old)
    });
    if kept {
        tolerations(&new["tolerations"], PATH, errors);
    } else {
        errors.forbidden(
            PATH,
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

fn removed_gates(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let gates = list(&new["schedulingGates"]);
    for (i, gate) in gates.iter().enumerate() {
        // A duplicate is reported at its last index.
        let again = gates[i + 1..].iter().any(|other| other["name"] == gate["name"]);
        if !again
            && !list(&old["schedulingGates"])
                .iter()
                .any(|old| old["name"] == gate["name"])
        {
            errors.forbidden(
                format!("spec.schedulingGates[{i}].name"),
                format!(
                    "only deletion is allowed, but found new scheduling gate '{}'",
                    text(&gate["name"])
                ),
            );
        }
    }
}

/// Returns the new spec with all mutable fields reverted. Any remaining difference is forbidden.
fn without_updatable(old: &Value, new: &Value) -> Value {
    let mut rest = new.clone();
    for kind in ["containers", "initContainers"] {
        let mut containers = list(&rest[kind]).to_vec();
        for (container, old) in containers.iter_mut().zip(list(&old[kind])) {
            keep(old, container, "image");
        }
        if !containers.is_empty() {
            set(&mut rest, kind, containers);
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(old, &mut rest, key);
    }
    if number(&old["terminationGracePeriodSeconds"]) < 0 && number(&new["terminationGracePeriodSeconds"]) == 1
    {
        keep(old, &mut rest, "terminationGracePeriodSeconds");
    }
    rest
}

/// Formats the fields that differ, with old and new value, one per line.
fn difference(old: &Value, new: &Value) -> String {
    let mut lines = Vec::new();
    for (key, value) in entries(old) {
        if new[key] != *value {
            lines.push(format!("- {key}: {value}"));
        }
    }
    for (key, value) in entries(new) {
        if old[key] != *value {
            lines.push(format!("+ {key}: {value}"));
        }
    }
    lines.join("\n")
}

/// Checks that new pod IPs are valid and that there is at most one per IP family.
fn pod_addresses(old: &Value, new: &Value) -> Vec<FieldError> {
    let addresses = |status: &'_ Value| -> Vec<String> {
        let all = list(&status["podIPs"]).iter();
        all.map(|one| text(&one["ip"]).to_owned()).collect()
    };
    let (before, now) = (addresses(old), addresses(new));
    let parsed: Vec<Option<IpAddr>> = now.iter().map(|ip| ip.parse().ok()).collect();
    let mut errors = Vec::new();
    for (i, ip) in now.iter().enumerate() {
        if parsed[i].is_none() && !before.contains(ip) {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(format!("status.podIPs[{i}]"), ip.as_str(), why);
        }
    }
    let of_both =
        parsed.iter().flatten().any(IpAddr::is_ipv4) && parsed.iter().flatten().any(IpAddr::is_ipv6);
    if now.len() > 2 || (now.len() == 2 && !of_both) {
        let shown: Vec<Value> = now.iter().map(|ip| json!({"IP": ip})).collect();
        let why = "may specify no more than one IP for each IP family";
        errors.invalid("status.podIPs", shown, why);
    }
    errors
}

/// Validates an update of the pod status.
pub(crate) fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (old_status, status) = (&old["status"], &new["status"]);
    for (i, condition) in list(&status["conditions"]).iter().enumerate() {
        if number(&condition["observedGeneration"]) < 0 {
            errors.invalid(
                format!("status.conditions[{i}].observedGeneration"),
                condition["observedGeneration"].clone(),
                "must be a non-negative integer",
            );
        }
        let kind = text(&condition["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            for wrong in names::qualified(kind) {
                errors.invalid(format!("status.conditions[{i}].Type"), kind, wrong);
            }
        }
    }
    let nominated = text(&status["nominatedNodeName"]);
    if !nominated.is_empty() && nominated != text(&old_status["nominatedNodeName"]) {
        for wrong in names::dns_subdomain(nominated) {
            errors.invalid("status.nominatedNodeName", nominated, wrong);
        }
    }
    let bound = !text(&old["spec"]["nodeName"]).is_empty();
    if bound && !nominated.is_empty() && nominated != text(&old_status["nominatedNodeName"]) {
        errors.forbidden(
            "status.nominatedNodeName",
            "may not be set on pods that are already bound to a node",
        );
    }
    if number(&status["observedGeneration"]) < 0 {
        errors.invalid(
            "status.observedGeneration",
            status["observedGeneration"].clone(),
            "must be a non-negative integer",
        );
    }
    errors.extend(pod_addresses(old_status, status));
    errors.extend(immutable(
        &old_status["qosClass"],
        &status["qosClass"],
        "status.qosClass",
    ));
    errors.extend(terminated_stay_terminated(old, status));
    errors
}

/// Checks that a terminated container does not leave that state if the restart policy does not restart it.
fn terminated_stay_terminated(old: &Value, status: &Value) -> Vec<FieldError> {
    let policy = text(&old["spec"]["restartPolicy"]);
    if policy == "Always" {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for before in list(&old["status"]["containerStatuses"]) {
        let ended = &before["state"]["terminated"];
        if ended.is_null() || (policy == "OnFailure" && number(&ended["exitCode"]) != 0) {
            continue;
        }
        let after = list(&status["containerStatuses"]).iter().enumerate();
        for (i, after) in after.filter(|(_, after)| after["name"] == before["name"]) {
            if after["state"]["terminated"].is_null() {
                errors.forbidden(
                    format!("status.containerStatuses[{i}].state"),
                    "may not be transitioned to non-terminated state",
                );
            }
        }
    }
    errors
}
