//! Validation of environment variables and their sources.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, text};
use crate::registry::names;

const VALUE_SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];
/// The pod fields that `fieldRef` supports in environment variables.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Other valid field labels of pods, which environment variables do not support.
const OTHER_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];
/// The container resources that `resourceFieldRef` supports.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates the environment variables of a container.
pub(crate) fn validate(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (i, variable) in list(&container["env"]).iter().enumerate() {
        let path = format!("{path}.env[{i}]");
        let name = text(&variable["name"]);
        if name.is_empty() {
            errors.required(format!("{path}.name"), "");
        }
        for wrong in names::env_name(name) {
            errors.invalid(format!("{path}.name"), name, wrong);
        }
        if !variable["valueFrom"].is_null() {
            source(variable, &format!("{path}.valueFrom"), errors);
        }
    }
    for (i, source) in list(&container["envFrom"]).iter().enumerate() {
        let item = format!("{path}.envFrom[{i}]");
        for wrong in names::env_name(text(&source["prefix"])) {
            errors.invalid(format!("{item}.prefix"), text(&source["prefix"]), wrong);
        }
        let sources = ["configMapRef", "secretRef"];
        let sources = sources.iter().filter(|kind| !source[**kind].is_null());
        let count = sources
            .inspect(|kind| all_of(&source[**kind], &format!("{item}.{kind}"), errors))
            .count();
        let problem = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.invalid(format!("{path}.envFrom"), "", problem);
    }
}

/// Validates a reference to all keys of an object (`envFrom`).
fn all_of(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (name, path) = (text(&object["name"]), format!("{path}.name"));
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    for wrong in names::subdomain_name(name, true) {
        errors.invalid(path.as_str(), name, wrong);
    }
}

/// Validates the source of one variable (`valueFrom`).
fn source(variable: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let from = &variable["valueFrom"];
    let of = |source: &str| (&from[source], format!("{path}.{source}"));
    let (field, field_path) = of("fieldRef");
    if !field.is_null() {
        pod_field(field, &field_path, errors);
    }
    let (resource, resource_path) = of("resourceFieldRef");
    if !resource.is_null() {
        container_resource(resource, &resource_path, errors);
    }
    for (object, path) in ["configMapKeyRef", "secretKeyRef"].map(of) {
        if !object.is_null() {
            key_reference(object, &path, errors);
        }
    }
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
        return;
    };
    errors.invalid(path, "", problem);
}

/// Validates a `fieldRef`.
fn pod_field(field: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (version, name) = (text(&field["apiVersion"]), text(&field["fieldPath"]));
    for (key, value) in [("apiVersion", version), ("fieldPath", name)] {
        if value.is_empty() {
            errors.required(format!("{path}.{key}"), "");
            return;
        }
    }
    let place = format!("{path}.fieldPath");
    let subscripted = name.strip_suffix("']").and_then(|name| name.split_once("['"));
    let subscripted = subscripted.filter(|(map, _)| !map.is_empty());
    let unknown = match subscripted {
        _ if version != "v1" => format!("unsupported pod version: {version}"),
        Some((map @ ("metadata.annotations" | "metadata.labels"), key)) => {
            let key = match map {
                "metadata.labels" => key.to_owned(),
                _ => key.to_lowercase(),
            };
            for wrong in names::qualified(&key) {
                errors.invalid(path, key.as_str(), wrong);
            }
            return;
        }
        Some(_) => format!("field label does not support subscript: {name}"),
        None if FIELDS.contains(&name) || name == "spec.host" => return,
        None if OTHER_FIELDS.contains(&name) => {
            errors.not_supported(place, name, &FIELDS);
            return;
        }
        None => format!("field label not supported: {name}"),
    };
    let why = format!("error converting fieldPath: {unknown}");
    errors.invalid(place, name, why);
}

/// Validates a `resourceFieldRef`.
fn container_resource(resource: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (name, path) = (text(&resource["resource"]), format!("{path}.resource"));
    let huge = ["limits.hugepages-", "requests.hugepages-"];
    if name.is_empty() {
        errors.required(path, "");
    } else if !RESOURCES.contains(&name) && !huge.iter().any(|prefix| name.starts_with(prefix)) {
        errors.not_supported(path, name, &RESOURCES);
    }
}

/// Validates a reference to one key of an object.
fn key_reference(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let name = text(&object["name"]);
    for wrong in names::subdomain_name(name, false) {
        errors.invalid(format!("{path}.name"), name, wrong);
    }
    let (key, place) = (text(&object["key"]), format!("{path}.key"));
    if key.is_empty() {
        errors.required(place, "");
        return;
    }
    for wrong in names::config_key(key) {
        errors.invalid(place.as_str(), key, wrong);
    }
}
