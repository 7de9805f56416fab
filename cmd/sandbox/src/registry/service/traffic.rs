//! Validation of session affinity, external addresses, traffic policies and load balancers.

use std::net::IpAddr;

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, number, text};
use crate::registry::names;
use crate::registry::service::{has_node_ports, is_outside, needs_health_check};

/// A day.
const LONGEST_AFFINITY: i64 = 86_400;
const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BALANCED_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

/// How long clients come back to the same pod.
pub(crate) fn affinity(spec: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let wrong =
        text(&spec["sessionAffinity"]) == "ClientIP" && !(1..=LONGEST_AFFINITY).contains(&number(seconds));
    let why = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
    wrong
        .then(|| FieldError::invalid(PATH, seconds.clone(), why))
        .into_iter()
        .collect()
}

/// External addresses are neither loopback nor multicast.
pub(crate) fn external_addresses(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, given) in list(&spec["externalIPs"]).iter().map(text).enumerate() {
        let mut wrong = |why: &str| {
            errors.invalid(format!("spec.externalIPs[{i}]"), given, why);
        };
        let Ok(address) = given.parse::<IpAddr>() else {
            wrong(NO_ADDRESS);
            continue;
        };
        let (local, local_group) = match address {
            IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] == 0xff02),
        };
        if address.is_unspecified() {
            wrong(&format!("may not be unspecified ({given})"));
        }
        if address.is_loopback() {
            wrong("may not be in the loopback range (127.0.0.0/8, ::1/128)");
        }
        if local {
            wrong("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
        }
        if local_group {
            wrong("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
        }
    }
    errors
}

/// Which load balancer is meant.
pub(crate) fn balancer(spec: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.loadBalancerClass";
    let class = &spec["loadBalancerClass"];
    match text(&spec["type"]) {
        _ if class.is_null() => Vec::new(),
        "LoadBalancer" => {
            let wrong = names::qualified(text(class)).into_iter();
            wrong
                .map(|why| FieldError::invalid(PATH, class.clone(), why))
                .collect()
        }
        _ => vec![FieldError::forbidden(PATH, BALANCED_ONLY)],
    }
}

/// A load balancer is chosen for good.
pub(crate) fn same_balancer(before: &Value, after: &Value) -> Vec<FieldError> {
    let balanced = |spec: &Value| text(&spec["type"]) == "LoadBalancer";
    let (old, new) = (&before["loadBalancerClass"], &after["loadBalancerClass"]);
    if balanced(before) && balanced(after) && old != new {
        return vec![FieldError::invalid(
            "spec.loadBalancerClass",
            new.clone(),
            "may not change once set",
        )];
    }
    Vec::new()
}

/// The port for checks of health is chosen for good.
pub(crate) fn same_health_check(before: &Value, after: &Value) -> Vec<FieldError> {
    const PORT: &str = "healthCheckNodePort";
    let wrong = needs_health_check(before) && needs_health_check(after) && before[PORT] != after[PORT];
    wrong
        .then(|| FieldError::forbidden(format!("spec.{PORT}"), "field is immutable"))
        .into_iter()
        .collect()
}

/// Traffic policies, and the port for checks of health that one of them needs.
pub(crate) fn policies(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(&spec["type"]);
    let outside = is_outside(spec);
    let path = "spec.externalTrafficPolicy";
    match text(&spec["externalTrafficPolicy"]) {
        "" if outside => errors.required(path, ""),
        "" => {}
        policy if !outside => {
            errors.invalid(path, policy, "may only be set for externally-accessible services");
        }
        "Cluster" | "Local" => {}
        other => errors.not_supported(path, other, &["Cluster", "Local"]),
    }
    let port = number(&spec["healthCheckNodePort"]);
    let path = "spec.healthCheckNodePort";
    if !needs_health_check(spec) {
        if port != 0 {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(path, port, why);
        }
    } else if port == 0 {
        errors.required(path, "");
    } else if let Some(why) = names::port_number(port) {
        errors.invalid(path, port, why);
    }
    let path = "spec.internalTrafficPolicy";
    match &spec["internalTrafficPolicy"] {
        Value::Null if has_node_ports(kind) || kind == "ClusterIP" => {
            errors.required(path, "");
        }
        Value::Null => {}
        policy if matches!(text(policy), "Cluster" | "Local") => {}
        policy => errors.not_supported(path, policy.clone(), &["Cluster", "Local"]),
    }
    errors
}

/// Validates the status of a load balancer.
pub(crate) fn ingress(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, ingress) in list(&status["loadBalancer"]["ingress"]).iter().enumerate() {
        let path = |field: &str| format!("status.loadBalancer.ingress[{i}].{field}");
        let (ip, mode, host) = (
            text(&ingress["ip"]),
            &ingress["ipMode"],
            text(&ingress["hostname"]),
        );
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            errors.invalid(path("ip"), ip, NO_ADDRESS);
        }
        match (ip.is_empty(), text(mode)) {
            (true, _) if mode.is_null() => {}
            (false, _) if mode.is_null() => {
                errors.required(path("ipMode"), "must be specified when `ip` is set");
            }
            (true, _) => {
                let why = "may not be specified when `ip` is not set";
                errors.forbidden(path("ipMode"), why);
            }
            (false, "Proxy" | "VIP") => {}
            (false, other) => {
                errors.not_supported(path("ipMode"), other, &["Proxy", "VIP"]);
            }
        }
        if !host.is_empty() {
            for why in names::dns_subdomain(host) {
                errors.invalid(path("hostname"), host, why);
            }
            if host.parse::<IpAddr>().is_ok() {
                let why = "must be a DNS name, not an IP address";
                errors.invalid(path("hostname"), host, why);
            }
        }
    }
    errors
}
