//! Containers of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::json::{flag, list, number, text};
use super::super::names;
use super::{probe, resources, volumes};
use crate::field::FieldError;

/// What containers may refer to, and what the pod as a whole says.
pub(super) struct Surroundings<'a> {
    pub(super) volumes: BTreeSet<&'a str>,
    pub(super) grace_period: i64,
}

/// Checks the main containers: at least one, and no name twice.
pub(super) fn main(
    containers: &Value,
    around: &Surroundings<'_>,
    path: &str,
    errors: &mut Vec<FieldError>,
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    if list(containers).is_empty() {
        errors.push(FieldError::required(path, ""));
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

/// Checks the init containers; only those that keep running may have probes and hooks.
pub(super) fn init(
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
                errors.push(FieldError::forbidden(
                    format!("{path}.{key}"),
                    "may not be set for init containers without restartPolicy=Always",
                ));
            }
        }
    }
}

fn unique(container: &Value, seen: &mut BTreeSet<String>, path: &str, errors: &mut Vec<FieldError>) {
    let name = text(&container["name"]);
    if !seen.insert(name.to_owned()) {
        errors.push(FieldError::duplicate(format!("{path}.name"), name));
    }
}

fn common(container: &Value, around: &Surroundings<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let name = text(&container["name"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        for wrong in names::dns_label(name) {
            errors.push(FieldError::invalid(format!("{path}.name"), name, wrong));
        }
    }
    if text(&container["image"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    }
    let policy = text(&container["terminationMessagePolicy"]);
    if !matches!(policy, "File" | "FallbackToLogsOnError") {
        errors.push(FieldError::not_supported(
            format!("{path}.terminationMessagePolicy"),
            policy,
            &["File", "FallbackToLogsOnError"],
        ));
    }
    ports(&container["ports"], &format!("{path}.ports"), errors);
    environment(container, path, errors);
    volumes::validate_mounts(container, &around.volumes, path, errors);
    let policy = text(&container["imagePullPolicy"]);
    if !matches!(policy, "Always" | "IfNotPresent" | "Never") {
        errors.push(FieldError::not_supported(
            format!("{path}.imagePullPolicy"),
            policy,
            &["Always", "IfNotPresent", "Never"],
        ));
    }
    resources::validate(&container["resources"], &format!("{path}.resources"), errors);
    security(
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
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
            errors.extend(
                wrong
                    .into_iter()
                    .map(|wrong| FieldError::invalid(format!("{path}.name"), name, wrong)),
            );
        }
        let number_of = |key: &str| number(&port[key]);
        if number_of("containerPort") == 0 {
            errors.push(FieldError::required(format!("{path}.containerPort"), ""));
        }
        for key in ["containerPort", "hostPort"] {
            let port = number_of(key);
            if port != 0
                && let Some(wrong) = names::port_number(port)
            {
                errors.push(FieldError::invalid(format!("{path}.{key}"), port, wrong));
            }
        }
        let protocol = text(&port["protocol"]);
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            errors.push(FieldError::not_supported(
                format!("{path}.protocol"),
                protocol,
                &["SCTP", "TCP", "UDP"],
            ));
        }
    }
}

/// No two containers may ask for the same port of the node.
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
                errors.push(FieldError::duplicate(
                    format!("{path}[{i}].ports[{j}].hostPort"),
                    key,
                ));
            }
        }
    }
}

const VALUE_SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];

fn environment(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (i, variable) in list(&container["env"]).iter().enumerate() {
        let path = format!("{path}.env[{i}]");
        let name = text(&variable["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        for wrong in names::env_name(name) {
            errors.push(FieldError::invalid(format!("{path}.name"), name, wrong));
        }
        let from = &variable["valueFrom"];
        if from.is_null() {
            continue;
        }
        let path = format!("{path}.valueFrom");
        let sources = VALUE_SOURCES
            .iter()
            .filter(|source| !from[**source].is_null())
            .count();
        let problem = if sources == 0 {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        } else if !text(&variable["value"]).is_empty() {
            "may not be specified when `value` is not empty"
        } else if sources > 1 {
            "may not have more than one field specified at a time"
        } else {
            continue;
        };
        errors.push(FieldError::invalid(path, "", problem));
    }
    for (i, source) in list(&container["envFrom"]).iter().enumerate() {
        let item = format!("{path}.envFrom[{i}]");
        for wrong in names::env_name(text(&source["prefix"])) {
            errors.push(FieldError::invalid(
                format!("{item}.prefix"),
                text(&source["prefix"]),
                wrong,
            ));
        }
        let sources = ["configMapRef", "secretRef"]
            .iter()
            .filter(|kind| !source[**kind].is_null())
            .count();
        let problem = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(format!("{path}.envFrom"), "", problem));
    }
}

fn security(context: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let ids = ["runAsUser", "runAsGroup"]
        .iter()
        .map(|key| (*key, number(&context[*key])));
    for (key, id) in ids.filter(|(_, id)| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.push(FieldError::invalid(
            format!("{path}.{key}"),
            id,
            names::between(0, i64::from(i32::MAX)),
        ));
    }
    if flag(&context["privileged"]) && context["allowPrivilegeEscalation"] == Value::Bool(false) {
        errors.push(FieldError::invalid(
            path,
            context.clone(),
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ));
    }
}
