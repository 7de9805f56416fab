//! Validation of resource requirements: names, quantities, and requests against limits.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::quantity::Quantity;
use crate::registry::json::{entries, text};
use crate::registry::names;

/// The standard resource names, which have no domain. Containers may use the first few.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Reports whether this is a standard resource name.
fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_empty()
}

/// Reports whether requests may be lower than limits.
fn overcommits(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Reports whether quantities of the resource must be integers.
fn is_counted(name: &str) -> bool {
    is_extended(name)
        || matches!(
            name,
            "pods"
                | "services"
                | "replicationcontrollers"
                | "resourcequotas"
                | "secrets"
                | "configmaps"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
        )
}

fn validate_name(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::qualified(name);
    if !wrong.is_empty() {
        errors.extend(
            wrong
                .into_iter()
                .map(|wrong| FieldError::invalid(path, name, wrong)),
        );
        return;
    }
    if name.contains('/') {
        if !is_native(name) && !is_extended(name) {
            errors.invalid(path, name, "doesn't follow extended resource name standard");
        }
        return;
    }
    if !is_standard(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    if !OF_CONTAINERS.contains(&name) && !is_huge_page(name) {
        errors.invalid(path, name, "must be a standard resource for containers");
    }
}

/// Validates one quantity: well-formed, not negative, and an integer if the resource requires it.
pub(crate) fn validate_amount(
    name: &str,
    amount: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) -> Option<Quantity> {
    let Some(quantity) = Quantity::read(amount) else {
        errors.invalid(
            path,
            amount.clone(),
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        );
        return None;
    };
    if quantity.is_negative() {
        errors.invalid(path, quantity.text(), "must be greater than or equal to 0");
    }
    if is_counted(name) && !quantity.is_whole() {
        errors.invalid(path, quantity.text(), "must be an integer");
    }
    Some(quantity)
}

/// Validates the requests and limits of a container.
pub(crate) fn validate(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (name, limit) in entries(&resources["limits"]) {
        let path = format!("{path}.limits[{name}]");
        validate_name(name, &path, errors);
        validate_amount(name, limit, &path, errors);
    }
    for (name, request) in entries(&resources["requests"]) {
        let item = format!("{path}.requests[{name}]");
        validate_name(name, &item, errors);
        let Some(request) = validate_amount(name, request, &item, errors) else {
            continue;
        };
        let limit = &resources["limits"][name];
        if limit.is_null() {
            if !overcommits(name) {
                errors.required(
                    format!("{path}.limits"),
                    "Limit must be set for non overcommitable resources",
                );
            }
        } else if let Some(limit) = Quantity::read(limit) {
            let problem = if !overcommits(name) && !request.equals(limit) {
                "must be equal to"
            } else if request.exceeds(limit) {
                "must be less than or equal to"
            } else {
                continue;
            };
            errors.invalid(
                format!("{path}.requests"),
                request.text(),
                format!("{problem} {name} limit of {}", limit.text()),
            );
        }
    }
    let names = || {
        entries(&resources["limits"])
            .chain(entries(&resources["requests"]))
            .map(|(name, _)| name)
    };
    if names().any(is_huge_page) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    for (i, claim) in crate::registry::json::list(&resources["claims"])
        .iter()
        .enumerate()
    {
        if text(&claim["name"]).is_empty() {
            errors.required(format!("{path}.claims[{i}].name"), "");
        }
    }
}
