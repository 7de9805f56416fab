//! The pod subresource `ephemeralcontainers`. Mirrors `podEphemeralContainersStrategy`.

use crate::field::{FieldError, Report as _};
use crate::json::{Map, Value};
use crate::registry::json::{keep, list, remove, section, set, text};

/// The container fields that ephemeral containers must not set.
const FORBIDDEN: [&str; 9] = [
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "startupProbe",
];

/// Reverts all changes except those of the ephemeral containers.
pub(crate) fn prepare(old: &Value, new: &mut Value) {
    let sent = std::mem::replace(new, old.clone());
    keep(&sent["metadata"], &mut new["metadata"], "managedFields");
    match list(&sent["spec"]["ephemeralContainers"]) {
        [] => {
            if let Some(spec) = section(new, "spec") {
                remove(spec, "ephemeralContainers");
            }
        }
        containers => set(&mut new["spec"], "ephemeralContainers", containers.to_vec()),
    }
}

/// Validates the ephemeral containers of a pod. Existing ones are immutable.
pub(crate) fn validate(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.ephemeralContainers";
    if !new["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
        errors.forbidden("", "static pods do not support ephemeral containers");
    }
    let (old, spec) = (list(&old["spec"]["ephemeralContainers"]), &new["spec"]);
    let new = list(&spec["ephemeralContainers"]);
    let others = ["containers", "initContainers"];
    let others = others.iter().flat_map(|kind| list(&spec[*kind]));
    let others: Vec<&Value> = others.map(|container| &container["name"]).collect();
    for (i, container) in new.iter().enumerate() {
        let path = format!("{PATH}[{i}]");
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(&&container["targetContainerName"]) {
            errors.not_found(format!("{path}.targetContainerName"), target);
        }
        let mut forbid = |path: String| errors.forbidden(path, "cannot be set for an Ephemeral Container");
        for key in FORBIDDEN {
            let empty = container[key].as_object().is_some_and(Map::is_empty);
            if !container[key].is_null() && !empty {
                forbid(format!("{path}.{key}"));
            }
        }
        for (j, mount) in list(&container["volumeMounts"]).iter().enumerate() {
            for key in ["subPath", "subPathExpr"] {
                if !text(&mount[key]).is_empty() {
                    forbid(format!("{path}.volumeMounts[{j}].{key}"));
                }
            }
        }
    }
    for before in old {
        let name = text(&before["name"]);
        let verb = match new.iter().find(|after| after["name"] == before["name"]) {
            None => "removed",
            Some(after) if after != before => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {verb}\n");
        errors.forbidden(PATH, why);
    }
}
