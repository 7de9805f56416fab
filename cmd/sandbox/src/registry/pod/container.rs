//! Validation of containers and volumes: the rules that relate several fields.

use std::collections::BTreeSet;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{entries, flag, list, number, text};
use crate::registry::names;
use crate::schema::Path;

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
/// The order in which the API server checks volume sources. The first one takes precedence.
const VOLUME_SOURCES: [&str; 8] = [
    "emptyDir",
    "hostPath",
    "secret",
    "nfs",
    "iscsi",
    "persistentVolumeClaim",
    "downwardAPI",
    "configMap",
];

/// Validates the mounts and probes of a container.
pub(crate) fn container(container: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut mount_paths = BTreeSet::new();
    let devices = list(&container["volumeDevices"]);
    let mounts_path = path.key("volumeMounts");
    for (i, mount) in list(&container["volumeMounts"]).iter().enumerate() {
        let path = mounts_path.index(i);
        let [name, mount_path, sub_path, expression] =
            ["name", "mountPath", "subPath", "subPathExpr"].map(|key| text(&mount[key]));
        if !mount_paths.insert(mount_path) {
            errors.invalid(&path.key("mountPath"), mount_path, "must be unique");
        }
        if devices.iter().any(|device| device["name"] == mount["name"]) {
            let why = "must not already exist in volumeDevices";
            errors.invalid(&path.key("name"), name, why);
        }
        if !expression.is_empty() && !sub_path.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.key("subPathExpr"), expression, why);
        }
    }
    let own_grace = &container["readinessProbe"]["terminationGracePeriodSeconds"];
    if !own_grace.is_null() {
        errors.invalid(
            &path.key("readinessProbe").key("terminationGracePeriodSeconds"),
            own_grace.clone(),
            "must not be set for readinessProbes",
        );
    }
    for name in ["livenessProbe", "startupProbe"] {
        let threshold = number(&container[name]["successThreshold"]);
        if !container[name].is_null() && threshold != 1 {
            errors.invalid(&path.key(name).key("successThreshold"), threshold, "must be 1");
        }
    }
}

/// Checks that a probe or lifecycle hook has exactly one action.
pub(crate) fn handler(handler: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let given = kinds.into_iter().filter(|kind| !handler[*kind].is_null());
    one_of(given, "handler type", path, errors);
}

/// Checks that a volume has exactly one source.
pub(crate) fn volume(volume: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut sources: Vec<&str> = entries(volume).map(|(key, _)| key).collect();
    sources.retain(|key| *key != "name");
    sources.sort_by_key(|source| {
        let position = VOLUME_SOURCES.iter().position(|known| known == source);
        position.unwrap_or(VOLUME_SOURCES.len())
    });
    one_of(sources.into_iter(), "volume type", path, errors);
}

fn one_of<'a>(
    mut given: impl Iterator<Item = &'a str>,
    noun: &str,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if given.next().is_none() {
        errors.required(path, format!("must specify a {noun}"));
    }
    for extra in given {
        errors.forbidden(&path.key(extra), format!("may not specify more than 1 {noun}"));
    }
}

/// Validates the source of an environment variable.
pub(crate) fn variable(variable: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (from, path) = (&variable["valueFrom"], path.key("valueFrom"));
    if from.is_null() {
        return;
    }
    if !from["fieldRef"].is_null() {
        pod_field(&from["fieldRef"], &path.key("fieldRef"), errors);
    }
    let problem = match entries(from).count() {
        0 => "must specify one source",
        _ if !text(&variable["value"]).is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.invalid(&path, "", problem);
}

/// Validates the source of a set of environment variables.
pub(crate) fn variables(source: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kinds = ["configMapRef", "secretRef"];
    let problem = match kinds.iter().filter(|kind| !source[**kind].is_null()).count() {
        0 => "must specify one of: `configMapRef` or `secretRef`",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    // The API server reports the list, not the item.
    let path = match path {
        Path::Index { parent, .. } => parent,
        path => path,
    };
    errors.invalid(path, "", problem);
}

fn pod_field(field: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (version, name) = (text(&field["apiVersion"]), text(&field["fieldPath"]));
    if name.is_empty() {
        return;
    }
    let subscripted = name.strip_suffix("']").and_then(|name| name.split_once("['"));
    let subscripted = subscripted.filter(|(map, _)| !map.is_empty());
    let unknown = match subscripted {
        _ if version != "v1" => format!("unsupported pod version: {version}"),
        Some(("metadata.labels", key)) => return errors.format(path, key, names::qualified),
        Some(("metadata.annotations", key)) => {
            return errors.format(path, &key.to_lowercase(), names::qualified);
        }
        Some(_) => format!("field label does not support subscript: {name}"),
        None if FIELDS.contains(&name) || name == "spec.host" => return,
        None if OTHER_FIELDS.contains(&name) => {
            return errors.not_supported(&path.key("fieldPath"), name, &FIELDS);
        }
        None => format!("field label not supported: {name}"),
    };
    let why = format!("error converting fieldPath: {unknown}");
    errors.invalid(&path.key("fieldPath"), name, why);
}

/// Validates the security context of a container.
pub(crate) fn security_context(context: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if flag(&context["privileged"]) && context["allowPrivilegeEscalation"] == Value::Bool(false) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(path, context.clone(), why);
    }
}

/// Checks that a seccomp profile names a file exactly if its type is `Localhost`.
pub(crate) fn seccomp_profile(profile: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (file, path) = (&profile["localhostProfile"], path.key("localhostProfile"));
    let local = text(&profile["type"]) == "Localhost";
    if local && file.is_null() {
        errors.required(&path, "must be set when seccomp type is Localhost");
    } else if !local && !file.is_null() {
        let why = "can only be set when seccomp type is Localhost";
        errors.invalid(&path, profile.clone(), why);
    }
}
