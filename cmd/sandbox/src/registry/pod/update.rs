//! Validation of pod updates: almost every field is immutable.

use std::net::IpAddr;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{entries, keep, list, number, remove, set, text};
use crate::registry::meta::immutable;
use crate::registry::pod::gated;
use crate::registry::{declarative, names};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update of a pod.
pub(crate) fn validate(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let (old, new) = (&old["spec"], &new["spec"]);
    for kind in ["containers", "initContainers"] {
        if list(&old[kind]).len() != list(&new[kind]).len() {
            errors.forbidden(
                format!("spec.{kind}"),
                "pod updates may not add or remove containers",
            );
            return;
        }
    }
    if let Some((error, fatal)) = deadline(old, new) {
        errors.push(error);
        if fatal {
            return;
        }
    }
    added_tolerations(old, new, errors);
    removed_gates(old, new, errors);
    let mut rest = without_updatable(old, new);
    gated::validate_narrowing(old, new, &mut rest, errors);
    if rest != *old {
        errors.forbidden(
            "spec",
            format!(
                "pod updates may not change fields other than {UPDATABLE}\n{}",
                difference(old, &rest)
            ),
        );
    }
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
    if !kept {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden("spec.tolerations", why);
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
fn pod_addresses(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let addresses = list(&new["podIPs"]);
    let parsed = addresses.iter().map(|address| text(&address["ip"]).parse().ok());
    let parsed: Vec<Option<IpAddr>> = parsed.collect();
    for (i, address) in addresses.iter().enumerate() {
        if !list(&old["podIPs"]).contains(address) {
            errors.format(
                &*format!("status.podIPs[{i}]"),
                text(&address["ip"]),
                declarative::ip,
            );
        }
    }
    let of_both =
        parsed.iter().flatten().any(IpAddr::is_ipv4) && parsed.iter().flatten().any(IpAddr::is_ipv6);
    if addresses.len() > 2 || (addresses.len() == 2 && !of_both) {
        let why = "may specify no more than one IP for each IP family";
        errors.invalid("status.podIPs", addresses.to_vec(), why);
    }
}

/// Validates an update of the pod status.
pub(crate) fn validate_status(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let (old_status, status) = (&old["status"], &new["status"]);
    for (i, condition) in list(&status["conditions"]).iter().enumerate() {
        let kind = text(&condition["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.format(&*format!("status.conditions[{i}].Type"), kind, names::qualified);
        }
    }
    let nominated = text(&status["nominatedNodeName"]);
    if !nominated.is_empty() && nominated != text(&old_status["nominatedNodeName"]) {
        const PATH: &str = "status.nominatedNodeName";
        errors.format(PATH, nominated, names::dns_subdomain);
        if !text(&old["spec"]["nodeName"]).is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            errors.forbidden(PATH, why);
        }
    }
    pod_addresses(old_status, status, errors);
    let qos = [&old_status["qosClass"], &status["qosClass"]];
    errors.extend(immutable(qos[0], qos[1], "status.qosClass"));
    terminated_stay_terminated(old, status, errors);
}

/// Checks that a terminated container does not leave that state if the restart policy does not restart it.
fn terminated_stay_terminated(old: &Value, status: &Value, errors: &mut Vec<FieldError>) {
    let policy = text(&old["spec"]["restartPolicy"]);
    if policy == "Always" {
        return;
    }
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
}
