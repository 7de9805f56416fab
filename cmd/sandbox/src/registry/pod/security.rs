//! Validation of the security contexts of pods and containers.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{flag, list, text};
use crate::registry::names;

/// The maximum user id and group id.
const LAST_ID: i64 = i32::MAX as i64;

/// Validates the security context of a pod.
pub(crate) fn validate_pod(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (context, path) = (&spec["securityContext"], format!("{path}.securityContext"));
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context[key], || format!("{path}.{key}"), errors);
    }
    for (i, group) in list(&context["supplementalGroups"]).iter().enumerate() {
        id(group, || format!("{path}.supplementalGroups[{i}]"), errors);
    }
    if flag(&spec["hostPID"]) && flag(&spec["shareProcessNamespace"]) {
        errors.invalid(
            format!("{path}.shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    choice(
        &context["fsGroupChangePolicy"],
        &format!("{path}.fsGroupChangePolicy"),
        &["Always", "OnRootMismatch"],
        errors,
    );
    seccomp(
        &context["seccompProfile"],
        &format!("{path}.seccompProfile"),
        errors,
    );
    choice(
        &context["supplementalGroupsPolicy"],
        &format!("{path}.supplementalGroupsPolicy"),
        &["Merge", "Strict"],
        errors,
    );
}

/// Validates the security context of a container.
pub(crate) fn validate_container(context: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["runAsUser", "runAsGroup"] {
        id(&context[key], || format!("{path}.{key}"), errors);
    }
    seccomp(
        &context["seccompProfile"],
        &format!("{path}.seccompProfile"),
        errors,
    );
    if flag(&context["privileged"]) && context["allowPrivilegeEscalation"] == Value::Bool(false) {
        errors.invalid(
            path,
            context.clone(),
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        );
    }
}

fn id(id: &Value, path: impl Fn() -> String, errors: &mut Vec<FieldError>) {
    if let Some(id) = id.as_i64().filter(|id| !(0..=LAST_ID).contains(id)) {
        errors.invalid(path(), id, names::between(0, LAST_ID));
    }
}

fn choice(value: &Value, path: &str, allowed: &[&'static str], errors: &mut Vec<FieldError>) {
    if !value.is_null() && !allowed.contains(&text(value)) {
        errors.not_supported(path, text(value), allowed);
    }
}

fn seccomp(profile: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if profile.is_null() {
        return;
    }
    let kind = text(&profile["type"]);
    if kind.is_empty() {
        let why = "type is required when seccompProfile is set";
        errors.required(format!("{path}.type"), why);
    } else {
        choice(
            &profile["type"],
            &format!("{path}.type"),
            &["Localhost", "RuntimeDefault", "Unconfined"],
            errors,
        );
    }
    let (file, path) = (&profile["localhostProfile"], format!("{path}.localhostProfile"));
    if kind == "Localhost" && file.is_null() {
        let why = "must be set when seccomp type is Localhost";
        errors.required(path, why);
    } else if kind != "Localhost" && !file.is_null() {
        let why = "can only be set when seccomp type is Localhost";
        errors.invalid(path, profile.clone(), why);
    }
}
