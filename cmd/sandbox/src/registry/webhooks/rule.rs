//! Validation of the rules of a webhook.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, text};

pub(crate) fn validate(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let mut all_or_some = |key: &str, what: &str| {
        let path = format!("{path}.{key}");
        let values = list(&rule[key]);
        if values.is_empty() {
            errors.required(path, "");
        } else if values.len() > 1 && values.iter().any(|value| value == "*") {
            let why = format!("if '*' is present, must not specify other {what}");
            errors.invalid(path, rule[key].clone(), why);
        }
    };
    all_or_some("operations", "operations");
    all_or_some("apiGroups", "API groups");
    all_or_some("apiVersions", "API versions");
    for (i, operation) in list(&rule["operations"]).iter().map(text).enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.not_supported(format!("{path}.operations[{i}]"), operation, OPERATIONS);
        }
    }
    for (i, version) in list(&rule["apiVersions"]).iter().enumerate() {
        if text(version).is_empty() {
            errors.required(format!("{path}.apiVersions[{i}]"), "");
        }
    }
    validate_resources(&rule["resources"], &format!("{path}.resources"), errors);
    let scope = text(&rule["scope"]);
    if !matches!(scope, "*" | "Cluster" | "Namespaced") {
        errors.not_supported(format!("{path}.scope"), scope, &["*", "Cluster", "Namespaced"]);
    }
}

/// A wildcard excludes every other item.
fn validate_resources(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let all = list(resources);
    if all.is_empty() {
        errors.required(path, "");
    }
    let (mut of_resource, mut of_subresource) = (BTreeSet::new(), BTreeSet::new());
    let mut plain = false;
    for (i, resource) in all.iter().map(text).enumerate() {
        let path = format!("{path}[{i}]");
        if resource.is_empty() {
            errors.required(path, "");
            continue;
        }
        let Some((name, sub)) = resource.split_once('/') else {
            // Of several only the last one counts, as on the real server.
            plain = resource != "*";
            continue;
        };
        if of_resource.contains(name) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            errors.invalid(path.as_str(), resource, why);
        }
        if of_subresource.contains(sub) {
            let why = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.invalid(path.as_str(), resource, why);
        }
        if sub == "*" {
            of_resource.insert(name);
        }
        if name == "*" {
            of_subresource.insert(sub);
        }
    }
    let has = |wanted: &str| all.iter().any(|resource| resource == wanted);
    if all.len() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.invalid(path, resources.clone(), why);
    }
    if has("*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, resources.clone(), why);
    }
}
