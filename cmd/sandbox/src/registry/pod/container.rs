//! Validation of the containers of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, number, text};
use crate::registry::names;
use crate::registry::pod::{environment, probe, resources, security, volumes};

/// The names that containers may reference, and the pod fields that affect their validation.
pub(crate) struct Surroundings<'a> {
    pub(crate) volumes: BTreeSet<&'a str>,
    pub(crate) grace_period: i64,
}

/// Validates the main containers: at least one, with unique names.
pub(crate) fn main(
    containers: &Value,
    around: &Surroundings<'_>,
    path: &str,
    errors: &mut Vec<FieldError>,
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    if list(containers).is_empty() {
        errors.required(path, "");
    }
    for (i, container) in list(containers).iter().enumerate() {
        let path = format!("{path}[{i}]");
        common(container, around, &path, errors);
        unique(container, &mut seen, &path, errors);
        probe::validate_all(container, around.grace_period, &path, errors);
    }
    host_ports(list(containers), path, errors);
    seen
}

/// Validates the init containers. Only sidecars may have probes and lifecycle hooks.
pub(crate) fn init(
    containers: &Value,
    mut seen: BTreeSet<String>,
    around: &Surroundings<'_>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for (i, container) in list(containers).iter().enumerate() {
        let path = format!("{path}[{i}]");
        common(container, around, &path, errors);
        unique(container, &mut seen, &path, errors);
        if text(&container["restartPolicy"]) == "Always" {
            probe::validate_all(container, around.grace_period, &path, errors);
            continue;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !container[key].is_null() {
                errors.forbidden(
                    format!("{path}.{key}"),
                    "may not be set for init containers without restartPolicy=Always",
                );
            }
        }
    }
}

/// Validates the ephemeral containers. Their names must differ from those of all other containers.
pub(crate) fn ephemeral(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let others = ["containers", "initContainers"];
    let others = others.iter().flat_map(|kind| list(&spec[*kind]));
    let mut seen = others.map(|other| text(&other["name"]).to_owned()).collect();
    let around = Surroundings {
        volumes: list(&spec["volumes"])
            .iter()
            .map(|volume| text(&volume["name"]))
            .collect(),
        grace_period: 0,
    };
    for (i, container) in list(&spec["ephemeralContainers"]).iter().enumerate() {
        let path = format!("{path}[{i}]");
        common(container, &around, &path, errors);
        unique(container, &mut seen, &path, errors);
    }
}

fn unique(container: &Value, seen: &mut BTreeSet<String>, path: &str, errors: &mut Vec<FieldError>) {
    let name = text(&container["name"]);
    if !seen.insert(name.to_owned()) {
        errors.duplicate(format!("{path}.name"), name);
    }
}

fn common(container: &Value, around: &Surroundings<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let name = text(&container["name"]);
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    } else {
        for wrong in names::dns_label(name) {
            errors.invalid(format!("{path}.name"), name, wrong);
        }
    }
    if text(&container["image"]).is_empty() {
        errors.required(format!("{path}.image"), "");
    }
    let policy = text(&container["terminationMessagePolicy"]);
    if !matches!(policy, "File" | "FallbackToLogsOnError") {
        errors.not_supported(
            format!("{path}.terminationMessagePolicy"),
            policy,
            &["File", "FallbackToLogsOnError"],
        );
    }
    ports(&container["ports"], &format!("{path}.ports"), errors);
    environment::validate(container, path, errors);
    volumes::validate_mounts(container, &around.volumes, path, errors);
    let policy = text(&container["imagePullPolicy"]);
    if !matches!(policy, "Always" | "IfNotPresent" | "Never") {
        errors.not_supported(
            format!("{path}.imagePullPolicy"),
            policy,
            &["Always", "IfNotPresent", "Never"],
        );
    }
    resources::validate(&container["resources"], &format!("{path}.resources"), errors);
    security::validate_container(
        &container["securityContext"],
        &format!("{path}.securityContext"),
        errors,
    );
}

fn ports(ports: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (i, port) in list(ports).iter().enumerate() {
        let path = format!("{path}[{i}]");
        let name = text(&port["name"]);
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if wrong.is_empty() && !seen.insert(name) {
                errors.duplicate(format!("{path}.name"), name);
            }
            errors.extend(
                wrong
                    .into_iter()
                    .map(|wrong| FieldError::invalid(format!("{path}.name"), name, wrong)),
            );
        }
        let number_of = |key: &str| number(&port[key]);
        if number_of("containerPort") == 0 {
            errors.required(format!("{path}.containerPort"), "");
        }
        for key in ["containerPort", "hostPort"] {
            let port = number_of(key);
            if port != 0
                && let Some(wrong) = names::port_number(port)
            {
                errors.invalid(format!("{path}.{key}"), port, wrong);
            }
        }
        let protocol = text(&port["protocol"]);
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            errors.not_supported(format!("{path}.protocol"), protocol, &["SCTP", "TCP", "UDP"]);
        }
    }
}

/// Checks that no two containers use the same host port.
fn host_ports(containers: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in list(&container["ports"]).iter().enumerate() {
            let host_port = number(&port["hostPort"]);
            if host_port == 0 {
                continue;
            }
            let key = format!(
                "{}/{}/{host_port}",
                text(&port["protocol"]),
                text(&port["hostIP"])
            );
            if !taken.insert(key.clone()) {
                errors.duplicate(format!("{path}[{i}].ports[{j}].hostPort"), key);
            }
        }
    }
}
