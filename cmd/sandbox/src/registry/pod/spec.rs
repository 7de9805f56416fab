//! Validation of pod specs and pod templates: the rules that relate several fields.

use std::collections::BTreeSet;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{flag, list, number, text};
use crate::registry::meta::validate_annotations;
use crate::registry::{declarative, names};
use crate::schema::Path;

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Validates a pod template.
pub(crate) fn template(template: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let metadata = &template["metadata"];
    declarative::validate_labels(&metadata["labels"], &path.key("labels"), errors);
    validate_annotations(&metadata["annotations"], &path.key("annotations"), errors);
    if !list(&template["spec"]["ephemeralContainers"]).is_empty() {
        errors.forbidden(
            &path.key("spec").key("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// Validates a pod spec.
pub(crate) fn spec(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let config = &spec["dnsConfig"];
    if text(&spec["dnsPolicy"]) == "None" {
        let path = path.key("dnsConfig");
        if config.is_null() {
            errors.required(&path, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else if list(&config["nameservers"]).is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&path.key("nameservers"), why);
        }
    }
    if flag(&spec["hostPID"]) && flag(&spec["shareProcessNamespace"]) {
        errors.invalid(
            &path.key("securityContext").key("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    scheduling_gates(spec, path, errors);
    host_ports(list(&spec["containers"]), path, errors);
    let volumes = valid_volumes(spec, path, errors);
    let mut names = BTreeSet::new();
    for kind in CONTAINERS {
        let path = path.key(kind);
        for (i, container) in list(&spec[kind]).iter().enumerate() {
            let path = path.index(i);
            let name = text(&container["name"]);
            if !names.insert(name) {
                errors.duplicate(&path.key("name"), name);
            }
            volume_references(container, &volumes, &path, errors);
            if kind == "initContainers" && text(&container["restartPolicy"]) != "Always" {
                no_probes(container, &path, errors);
            } else {
                sleep_within_grace_period(container, spec, &path, errors);
            }
        }
    }
}

fn scheduling_gates(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    let path = path.key("schedulingGates");
    for (i, gate) in list(&spec["schedulingGates"]).iter().enumerate() {
        let name = text(&gate["name"]);
        errors.format(&path.index(i), name, names::qualified);
        if !seen.insert(name) {
            errors.duplicate(&path.index(i), name);
        }
    }
}

/// Checks that no two containers use the same host port.
fn host_ports(containers: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in list(&container["ports"]).iter().enumerate() {
            let key = format!(
                "{}/{}/{}",
                text(&port["protocol"]),
                text(&port["hostIP"]),
                port["hostPort"]
            );
            if number(&port["hostPort"]) != 0 && !taken.insert(key.clone()) {
                errors.duplicate(format!("{path}.containers[{i}].ports[{j}].hostPort"), key);
            }
        }
    }
}

/// Returns the names of the volumes without errors, which mounts may reference.
fn valid_volumes<'a>(spec: &'a Value, path: &Path<'_>, errors: &[FieldError]) -> BTreeSet<&'a str> {
    let volumes = list(&spec["volumes"]).iter().enumerate();
    let is_valid = |i: usize| {
        let prefix = || format!("{path}.volumes[{i}]");
        errors.is_empty() || !errors.iter().any(|error| error.field.starts_with(&prefix()))
    };
    volumes
        .filter(|(i, _)| is_valid(*i))
        .map(|(_, volume)| text(&volume["name"]))
        .collect()
}

fn volume_references(
    container: &Value,
    volumes: &BTreeSet<&str>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    for key in ["volumeMounts", "volumeDevices"] {
        let path = path.key(key);
        for (i, mount) in list(&container[key]).iter().enumerate() {
            let name = text(&mount["name"]);
            if !volumes.contains(name) {
                errors.not_found(&path.index(i).key("name"), name);
            }
        }
    }
}

/// Only init containers that are sidecars may have probes and lifecycle hooks.
fn no_probes(container: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if !container[key].is_null() {
            let why = "may not be set for init containers without restartPolicy=Always";
            errors.forbidden(&path.key(key), why);
        }
    }
}

fn sleep_within_grace_period(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let grace_period = number(&spec["terminationGracePeriodSeconds"]);
    for hook in ["postStart", "preStop"] {
        let seconds = &container["lifecycle"][hook]["sleep"]["seconds"];
        if !seconds.is_null() && !(0..=grace_period).contains(&number(seconds)) {
            let why =
                format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
            errors.invalid(format!("{path}.lifecycle.{hook}.sleep"), seconds.clone(), why);
        }
    }
}

/// Validates a toleration.
pub(crate) fn toleration(toleration: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let [key, operator, value, effect] =
        ["key", "operator", "value", "effect"].map(|field| text(&toleration[field]));
    let operator_path = path.key("operator");
    if key.is_empty() && operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&operator_path, operator, why);
    }
    if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&path.key("effect"), effect, why);
    }
    match operator {
        "Equal" | "" => errors.format(&operator_path, value, names::label_value),
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            errors.invalid(&operator_path, value, why);
        }
        "Exists" => {}
        other => errors.not_supported(&operator_path, other, &["Equal", "Exists"]),
    }
}
