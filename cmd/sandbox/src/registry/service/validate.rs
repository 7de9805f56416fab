//! Validation of services: the rules that relate several fields.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::field::{FieldError, Report as _};
use crate::json::{Value, json};
use crate::registry::json::{empty, list, number, text};
use crate::registry::service::{has_node_ports, is_headless, needs_health_check, traffic};
use crate::registry::{declarative, names};

/// The longest session affinity: a day.
const AFFINITY_LIMIT: i64 = 86_400;
const ADDRESSES: &str = "spec.clusterIPs";

/// Validates an update of the main endpoint: addresses, load balancer class and health check port are immutable.
pub(crate) fn update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    same_address(old, new, errors);
    let balanced = |spec: &Value| text(&spec["type"]) == "LoadBalancer";
    let class = &new["loadBalancerClass"];
    if balanced(old) && balanced(new) && old["loadBalancerClass"] != *class {
        errors.invalid("spec.loadBalancerClass", class.clone(), "may not change once set");
    }
    let port = "healthCheckNodePort";
    if needs_health_check(old) && needs_health_check(new) && old[port] != new[port] {
        errors.forbidden(format!("spec.{port}"), "field is immutable");
    }
}

fn same_address(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let either = |kind: &str| old["type"] == kind || new["type"] == kind;
    if either("ExternalName") || (is_headless(old) && is_headless(new)) {
        return;
    }
    for (i, old_ip) in list(&old["clusterIPs"]).iter().enumerate() {
        let problem = match list(&new["clusterIPs"]).get(i) {
            None if i == 0 => "primary clusterIP can not be unset",
            Some(ip) if ip != old_ip => "may not change once set",
            _ => continue,
        };
        errors.invalid(format!("{ADDRESSES}[{i}]"), new["clusterIPs"].clone(), problem);
    }
}

/// Validates a service.
pub(crate) fn service(service: &Value, errors: &mut Vec<FieldError>) {
    let spec = &service["spec"];
    let kind = text(&spec["type"]);
    let ports = list(&spec["ports"]);
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    if is_headless(spec) && has_node_ports(kind) {
        let why = format!("may not be set to 'None' for {kind} services");
        errors.invalid("spec.clusterIPs[0]", "None", why);
    }
    if kind == "ExternalName" {
        external_name(spec, errors);
    }
    let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if text(&spec["sessionAffinity"]) == "ClientIP" && !(1..=AFFINITY_LIMIT).contains(&number(seconds)) {
        let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        let why = format!("must be greater than 0 and less than {AFFINITY_LIMIT}");
        errors.invalid(path, seconds.clone(), why);
    }
    port_list(ports, kind, errors);
    addresses(spec, errors);
    traffic::external_addresses(spec, errors);
    traffic::balancer(spec, errors);
    traffic::policies(spec, errors);
}

fn external_name(spec: &Value, errors: &mut Vec<FieldError>) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !empty(&spec[key]) {
            errors.forbidden(format!("spec.{key}"), "may not be set for ExternalName services");
        }
    }
    let given = text(&spec["externalName"]);
    match given.strip_suffix('.').unwrap_or(given) {
        "" => errors.required("spec.externalName", ""),
        name => errors.format("spec.externalName", name, names::dns_subdomain),
    }
}

/// Checks that ports have names if there are several, and that each port and node port is unique.
fn port_list(ports: &[Value], kind: &str, errors: &mut Vec<FieldError>) {
    let mut numbers = BTreeSet::new();
    let mut node_ports = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        let protocol = text(&port["protocol"]);
        let node_port = number(&port["nodePort"]);
        if ports.len() > 1 && empty(&port["name"]) {
            errors.required(format!("{path}.name"), "");
        }
        if node_port != 0 && kind == "ClusterIP" {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(format!("{path}.nodePort"), why);
        }
        if node_port != 0 && !node_ports.insert((protocol, node_port)) {
            errors.duplicate(format!("{path}.nodePort"), node_port);
        }
        if !numbers.insert((protocol, number(&port["port"]))) {
            errors.duplicate(path, json!({"Protocol": protocol, "Port": port["port"]}));
        }
    }
}

/// Checks that a service does not ask for two IP families: the cluster has one.
pub(crate) fn families(spec: &Value, errors: &mut Vec<FieldError>) {
    const POLICY: &str = "spec.ipFamilyPolicy";
    if text(&spec["type"]) == "ExternalName" {
        return;
    }
    let policy = text(&spec["ipFamilyPolicy"]);
    for (key, noun) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if policy == "SingleStack" && list(&spec[key]).len() == 2 {
            let why =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified");
            errors.invalid(POLICY, policy, why);
        }
    }
    let any_family = is_headless(spec) && empty(&spec["selector"]);
    if any_family || !errors.is_empty() {
        return;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.invalid(POLICY, policy, why);
    }
    for (i, family) in list(&spec["ipFamilies"]).iter().enumerate() {
        if family != "IPv4" {
            let why = "not configured on this cluster";
            errors.invalid(format!("spec.ipFamilies[{i}]"), family.clone(), why);
        }
    }
}

/// Validates the addresses and IP families of a service.
pub(crate) fn addresses(spec: &Value, errors: &mut Vec<FieldError>) {
    const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if text(&spec["type"]) == "ExternalName" {
        return;
    }
    let (single, all) = (text(&spec["clusterIP"]), list(&spec["clusterIPs"]));
    let mut invalid = |why: &str| errors.invalid(ADDRESSES, spec["clusterIPs"].clone(), why);
    match (single.is_empty(), all.first()) {
        (true, Some(_)) => invalid("must be empty when `clusterIP` is not specified"),
        (false, Some(first)) if first != single => invalid("first value must match `clusterIP`"),
        (false, None) => errors.required(ADDRESSES, ""),
        _ => {}
    }
    let families: Vec<&str> = list(&spec["ipFamilies"]).iter().map(text).collect();
    for (i, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{i}]");
        if !FAMILIES.contains(family) {
            errors.not_supported(path.as_str(), *family, &FAMILIES);
        }
        if families[..i].contains(family) {
            errors.duplicate(path, *family);
        }
    }
    let policy = text(&spec["ipFamilyPolicy"]);
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        errors.not_supported("spec.ipFamilyPolicy", policy, &POLICIES);
    }
    let before = errors.len();
    for (i, ip) in all.iter().map(text).enumerate() {
        if ip != "None" || i > 0 {
            errors.format(format!("{ADDRESSES}[{i}]").as_str(), ip, declarative::ip);
        } else if all.len() > 1 {
            let why = "'None' must be the first and only value";
            errors.invalid(ADDRESSES, spec["clusterIPs"].clone(), why);
        }
    }
    let readable = errors.len() == before;
    if all.len() > 2 {
        errors.invalid(
            ADDRESSES,
            spec["clusterIPs"].clone(),
            "may only hold up to 2 values",
        );
    }
    // Invalid addresses have no further errors.
    if readable {
        addresses_of_families(spec, &families, errors);
    }
}

/// Checks that no family has two addresses, and that each address is of its family.
fn addresses_of_families(spec: &Value, families: &[&str], errors: &mut Vec<FieldError>) {
    let addresses = list(&spec["clusterIPs"]).iter();
    let addresses: Vec<IpAddr> = addresses.filter_map(|ip| text(ip).parse().ok()).collect();
    let of_both = addresses.iter().any(IpAddr::is_ipv4) && addresses.iter().any(IpAddr::is_ipv6);
    if addresses.len() > 1 && !of_both {
        let why = "may specify no more than one IP for each IP family";
        errors.invalid(ADDRESSES, spec["clusterIPs"].clone(), why);
    }
    for (i, (address, family)) in addresses.iter().zip(families).enumerate() {
        let of_family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        if of_family != *family {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(format!("{ADDRESSES}[{i}]"), address.to_string(), why);
        }
    }
}
