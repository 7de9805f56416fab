//! Validation of the rules of a webhook.

use std::collections::BTreeSet;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{list, text};
use crate::schema::Path;

/// Validates a rule: a wildcard excludes all other items.
pub(crate) fn validate(rule: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for key in ["operations", "apiGroups", "apiVersions"] {
        let values = list(&rule[key]);
        if values.len() > 1 && values.iter().any(|value| value == "*") {
            let why = format!("if '*' is present, must not specify other {key}");
            errors.invalid(&path.key(key), rule[key].clone(), why);
        }
    }
    let versions_path = path.key("apiVersions");
    for (i, version) in list(&rule["apiVersions"]).iter().enumerate() {
        if text(version).is_empty() {
            errors.required(&versions_path.index(i), "");
        }
    }
    validate_resources(&rule["resources"], &path.key("resources"), errors);
}

fn validate_resources(resources: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let all = list(resources);
    let (mut of_resource, mut of_subresource) = (BTreeSet::new(), BTreeSet::new());
    let mut plain = false;
    for (i, resource) in all.iter().map(text).enumerate() {
        let path = path.index(i);
        if resource.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Some((name, sub)) = resource.split_once('/') else {
            // Of several only the last one counts, as on the real server.
            plain = resource != "*";
            continue;
        };
        if of_resource.contains(name) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            errors.invalid(&path, resource, why);
        }
        if of_subresource.contains(sub) {
            let why = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.invalid(&path, resource, why);
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
