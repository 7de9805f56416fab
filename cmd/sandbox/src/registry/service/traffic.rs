//! Validation of external addresses, traffic policies and load balancers.

use std::net::IpAddr;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{list, number, text};
use crate::registry::service::{has_node_ports, is_outside, needs_health_check};
use crate::registry::{declarative, names};
use crate::schema::Path;

/// Checks that external addresses are neither loopback nor link-local.
pub(crate) fn external_addresses(spec: &Value, errors: &mut Vec<FieldError>) {
    for (i, given) in list(&spec["externalIPs"]).iter().map(text).enumerate() {
        let path = format!("spec.externalIPs[{i}]");
        let Ok(address) = given.parse::<IpAddr>() else {
            errors.format(path.as_str(), given, declarative::ip);
            continue;
        };
        let (local, local_group) = match address {
            IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] == 0xff02),
        };
        for (violated, why) in [
            (address.is_unspecified(), "may not be unspecified"),
            (
                address.is_loopback(),
                "may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
            (
                local,
                "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
            ),
            (
                local_group,
                "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
            ),
        ] {
            if violated {
                errors.invalid(path.as_str(), given, why);
            }
        }
    }
}

/// Validates the fields that only load balancers have.
pub(crate) fn balancer(spec: &Value, errors: &mut Vec<FieldError>) {
    let class = &spec["loadBalancerClass"];
    if text(&spec["type"]) == "LoadBalancer" {
        if !class.is_null() {
            errors.format("spec.loadBalancerClass", text(class), names::qualified);
        }
        return;
    }
    for key in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
        if !spec[key].is_null() {
            let why = "may only be used when `type` is 'LoadBalancer'";
            errors.forbidden(format!("spec.{key}"), why);
        }
    }
}

/// Validates traffic policies, and the health check port that one of them needs.
pub(crate) fn policies(spec: &Value, errors: &mut Vec<FieldError>) {
    let kind = text(&spec["type"]);
    let path = "spec.externalTrafficPolicy";
    match (is_outside(spec), text(&spec["externalTrafficPolicy"])) {
        (true, "") => errors.required(path, ""),
        (false, "") | (true, "Cluster" | "Local") => {}
        (false, policy) => {
            errors.invalid(path, policy, "may only be set for externally-accessible services");
        }
        (true, other) => errors.not_supported(path, other, &["Cluster", "Local"]),
    }
    let port = number(&spec["healthCheckNodePort"]);
    let path = "spec.healthCheckNodePort";
    match (needs_health_check(spec), port) {
        (false, 0) => {}
        (false, port) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(path, port, why);
        }
        (true, 0) => errors.required(path, ""),
        (true, port) => {
            if let Some(why) = names::port_number(port) {
                errors.invalid(path, port, why);
            }
        }
    }
    if spec["internalTrafficPolicy"].is_null() && (has_node_ports(kind) || kind == "ClusterIP") {
        errors.required("spec.internalTrafficPolicy", "");
    }
}

/// Validates an ingress point of a load balancer.
pub(crate) fn ingress(ingress: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const MODES: [&str; 2] = ["Proxy", "VIP"];
    let (ip, mode) = (text(&ingress["ip"]), &ingress["ipMode"]);
    let mode_path = path.key("ipMode");
    match (ip.is_empty(), mode.is_null()) {
        (true, true) => {}
        (false, true) => errors.required(&mode_path, "must be specified when `ip` is set"),
        (true, false) => errors.forbidden(&mode_path, "may not be specified when `ip` is not set"),
        (false, false) if MODES.contains(&text(mode)) => {}
        (false, false) => errors.not_supported(&mode_path, text(mode), &MODES),
    }
    let host = text(&ingress["hostname"]);
    if host.parse::<IpAddr>().is_ok() {
        let why = "must be a DNS name, not an IP address";
        errors.invalid(&path.key("hostname"), host, why);
    }
}
