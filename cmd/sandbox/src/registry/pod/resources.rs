//! Validation of resource requirements: names, quantities, and requests against limits.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::quantity::Quantity;
use crate::registry::json::entries;
use crate::registry::names;
use crate::schema::Path;

/// The standard resources, which have no domain, that containers may use.
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
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
    let before = errors.len();
    errors.format(path, name, names::qualified);
    if errors.len() > before {
        return;
    }
    if name.contains('/') {
        if !is_native(name) && !is_extended(name) {
            errors.invalid(path, name, "doesn't follow extended resource name standard");
        }
    } else if !OF_CONTAINERS.contains(&name) && !is_huge_page(name) {
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
        errors.invalid(path, amount.clone(), "must be a quantity");
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
pub(crate) fn validate(resources: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    for (name, limit) in entries(limits) {
        let path = format!("{path}.limits[{name}]");
        validate_name(name, &path, errors);
        validate_amount(name, limit, &path, errors);
    }
    for (name, request) in entries(requests) {
        let item = format!("{path}.requests[{name}]");
        validate_name(name, &item, errors);
        let Some(request) = validate_amount(name, request, &item, errors) else {
            continue;
        };
        let Some(limit) = Quantity::read(&limits[name]) else {
            if limits[name].is_null() && !overcommits(name) {
                let why = "Limit must be set for non overcommitable resources";
                errors.required(&path.key("limits"), why);
            }
            continue;
        };
        let problem = if !overcommits(name) && !request.equals(limit) {
            "must be equal to"
        } else if request.exceeds(limit) {
            "must be less than or equal to"
        } else {
            continue;
        };
        let why = format!("{problem} {name} limit of {}", limit.text());
        errors.invalid(&path.key("requests"), request.text(), why);
    }
    let has = |wanted: fn(&str) -> bool| {
        entries(limits)
            .chain(entries(requests))
            .any(|(name, _)| wanted(name))
    };
    if has(is_huge_page) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}
