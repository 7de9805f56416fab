//! Validation of services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{empty, list, number, text};
use crate::registry::service::{has_node_ports, is_headless, traffic};
use crate::registry::{labels, names};

/// Checks an update of the main endpoint.
pub(crate) fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = same_address(old, new);
    errors.extend(traffic::same_balancer(&old["spec"], &new["spec"]));
    errors.extend(traffic::same_health_check(&old["spec"], &new["spec"]));
    errors.extend(service(new));
    errors
}

/// Checks an update of the status endpoint.
pub(crate) fn status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let addresses = list(&new["status"]["loadBalancer"]["ingress"]);
    if addresses.is_empty() || text(&new["spec"]["type"]) == "LoadBalancer" {
        return traffic::ingress(&new["status"]);
    }
    vec![FieldError::forbidden(
        "status.loadBalancer.ingress",
        "may only be used when `spec.type` is 'LoadBalancer'",
    )]
}

/// An address is given for good.
fn same_address(old: &Value, new: &Value) -> Vec<FieldError> {
    let (before, after) = (&old["spec"], &new["spec"]);
    let either = |value: &str| text(&before["type"]) == value || text(&after["type"]) == value;
    if either("ExternalName") || (is_headless(before) && is_headless(after)) {
        return Vec::new();
    }
    let (old_ips, new_ips) = (list(&before["clusterIPs"]), list(&after["clusterIPs"]));
    let mut errors = Vec::new();
    for (i, old_ip) in old_ips.iter().enumerate() {
        let problem = match new_ips.get(i) {
            None if i == 0 => "primary clusterIP can not be unset",
            Some(ip) if ip != old_ip => "may not change once set",
            _ => continue,
        };
        errors.invalid(
            format!("spec.clusterIPs[{i}]"),
            after["clusterIPs"].clone(),
            problem,
        );
    }
    errors
}

/// Checks a service.
pub(crate) fn service(service: &Value) -> Vec<FieldError> {
    let spec = &service["spec"];
    let kind = text(&spec["type"]);
    let ports = list(&spec["ports"]);
    let mut errors = Vec::new();
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    if is_headless(spec) && has_node_ports(kind) {
        errors.invalid(
            "spec.clusterIPs[0]",
            "None",
            format!("may not be set to 'None' for {kind} services"),
        );
    }
    if kind == "ExternalName" {
        errors.extend(external_name(spec));
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        errors.extend(one_port(
            port,
            ports.len() > 1,
            &mut seen,
            &format!("spec.ports[{i}]"),
        ));
    }
    errors.extend(labels::validate(&spec["selector"], "spec.selector"));
    let affinity = text(&spec["sessionAffinity"]);
    if !matches!(affinity, "ClientIP" | "None") {
        errors.not_supported("spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    }
    errors.extend(traffic::affinity(spec));
    errors.extend(addresses(spec));
    errors.extend(traffic::external_addresses(spec));
    if !matches!(kind, "ClusterIP" | "ExternalName" | "LoadBalancer" | "NodePort") {
        errors.not_supported(
            "spec.type",
            kind,
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        );
    }
    errors.extend(port_list(ports, kind));
    if !spec["allocateLoadBalancerNodePorts"].is_null() && kind != "LoadBalancer" {
        errors.forbidden(
            "spec.allocateLoadBalancerNodePorts",
            "may only be used when `type` is 'LoadBalancer'",
        );
    }
    errors.extend(traffic::balancer(spec));
    errors.extend(traffic::policies(spec));
    errors
}

fn external_name(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !empty(&spec[key]) {
            errors.forbidden(format!("spec.{key}"), "may not be set for ExternalName services");
        }
    }
    let given = text(&spec["externalName"]);
    let name = given.strip_suffix('.').unwrap_or(given);
    if name.is_empty() {
        errors.required("spec.externalName", "");
    } else {
        for wrong in names::dns_subdomain(name) {
            errors.invalid("spec.externalName", name, wrong);
        }
    }
    errors
}

fn one_port<'a>(
    port: &'a Value,
    needs_name: bool,
    seen: &mut BTreeSet<&'a str>,
    path: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(&port["name"]);
    if name.is_empty() {
        if needs_name {
            errors.required(format!("{path}.name"), "");
        }
    } else {
        for wrong in names::dns_label(name) {
            errors.invalid(format!("{path}.name"), name, wrong);
        }
        if !seen.insert(name) {
            errors.duplicate(format!("{path}.name"), name);
        }
    }
    if let Some(wrong) = names::port_number(number(&port["port"])) {
        errors.invalid(format!("{path}.port"), number(&port["port"]), wrong);
    }
    let protocol = text(&port["protocol"]);
    if !matches!(protocol, "SCTP" | "TCP" | "UDP") {
        errors.not_supported(format!("{path}.protocol"), protocol, &["SCTP", "TCP", "UDP"]);
    }
    match &port["targetPort"] {
        Value::String(name) => {
            for wrong in names::port_name(name) {
                errors.invalid(format!("{path}.targetPort"), name.as_str(), wrong);
            }
        }
        target => {
            if let Some(wrong) = names::port_number(number(target)) {
                errors.invalid(format!("{path}.targetPort"), number(target), wrong);
            }
        }
    }
    errors
}

/// No port twice, neither inside nor on the nodes.
fn port_list(ports: &[Value], kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut inside = BTreeSet::new();
    let mut on_nodes = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let protocol = text(&port["protocol"]);
        let node_port = number(&port["nodePort"]);
        if node_port != 0 && kind == "ClusterIP" {
            errors.forbidden(
                format!("spec.ports[{i}].nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            );
        }
        if node_port != 0 && !on_nodes.insert((protocol, node_port)) {
            errors.duplicate(format!("spec.ports[{i}].nodePort"), node_port);
        }
        if !inside.insert((protocol, number(&port["port"]))) {
            errors.duplicate(
                format!("spec.ports[{i}]"),
                // As the server's own type has it.
                json!({"Name": "", "Protocol": protocol, "AppProtocol": null, "Port": port["port"], "TargetPort": 0,
                    "NodePort": 0}),
            );
        }
    }
    errors
}

/// There is one family of addresses here.
pub(crate) fn families(spec: &Value) -> Vec<FieldError> {
    const POLICY: &str = "spec.ipFamilyPolicy";
    let mut errors = Vec::new();
    if text(&spec["type"]) == "ExternalName" {
        return errors;
    }
    let (policy, families) = (text(&spec["ipFamilyPolicy"]), list(&spec["ipFamilies"]));
    let several = [
        (list(&spec["clusterIPs"]).len(), "cluster IPs"),
        (families.len(), "IP families"),
    ];
    for (_, what) in several
        .iter()
        .filter(|(count, _)| policy == "SingleStack" && *count == 2)
    {
        let why =
            format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        errors.invalid(POLICY, policy, why);
    }
    let whatever = is_headless(spec) && empty(&spec["selector"]);
    if whatever || !errors.is_empty() {
        return errors;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.invalid(POLICY, policy, why);
    }
    for (i, family) in families
        .iter()
        .enumerate()
        .filter(|(_, family)| *family != "IPv4")
    {
        let why = "not configured on this cluster";
        errors.invalid(format!("spec.ipFamilies[{i}]"), family.clone(), why);
    }
    errors
}

pub(crate) fn addresses(spec: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.clusterIPs";
    if text(&spec["type"]) == "ExternalName" {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let (single, all) = (text(&spec["clusterIP"]), list(&spec["clusterIPs"]));
    match (single.is_empty(), all.first()) {
        (true, Some(_)) => errors.invalid(
            PATH,
            spec["clusterIPs"].clone(),
            "must be empty when `clusterIP` is not specified",
        ),
        (false, None) => errors.required(PATH, ""),
        (false, Some(first)) if first != single => errors.invalid(
            PATH,
            spec["clusterIPs"].clone(),
            "first value must match `clusterIP`",
        ),
        _ => {}
    }
    let families: Vec<&str> = list(&spec["ipFamilies"]).iter().map(text).collect();
    for (i, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{i}]");
        if !matches!(*family, "IPv4" | "IPv6") {
            errors.not_supported(path.as_str(), *family, &["IPv4", "IPv6"]);
        }
        if families[..i].contains(family) {
            errors.duplicate(path, *family);
        }
    }
    let policy = text(&spec["ipFamilyPolicy"]);
    if !matches!(
        policy,
        "" | "PreferDualStack" | "RequireDualStack" | "SingleStack"
    ) {
        errors.not_supported(
            "spec.ipFamilyPolicy",
            policy,
            &["PreferDualStack", "RequireDualStack", "SingleStack"],
        );
    }
    let before = errors.len();
    for (i, ip) in all.iter().map(text).enumerate() {
        if ip == "None" && i == 0 {
            if all.len() > 1 {
                errors.invalid(
                    PATH,
                    spec["clusterIPs"].clone(),
                    "'None' must be the first and only value",
                );
            }
        } else if ip.parse::<IpAddr>().is_err() {
            errors.invalid(
                format!("{PATH}[{i}]"),
                ip,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            );
        }
    }
    let no_addresses = errors.len() > before;
    if all.len() > 2 {
        errors.invalid(PATH, spec["clusterIPs"].clone(), "may only hold up to 2 values");
    }
    // Invalid addresses have no further errors.
    if !no_addresses {
        errors.extend(addresses_of_families(spec, &families));
    }
    errors
}

/// No family has two addresses, and each address is of its family.
fn addresses_of_families(spec: &Value, families: &[&str]) -> Vec<FieldError> {
    const PATH: &str = "spec.clusterIPs";
    let addresses: Vec<IpAddr> = list(&spec["clusterIPs"])
        .iter()
        .filter_map(|ip| text(ip).parse().ok())
        .collect();
    let mut errors = Vec::new();
    let of_both = addresses.iter().any(IpAddr::is_ipv4) && addresses.iter().any(IpAddr::is_ipv6);
    if addresses.len() > 1 && !of_both {
        errors.invalid(
            PATH,
            spec["clusterIPs"].clone(),
            "may specify no more than one IP for each IP family",
        );
    }
    for (i, (address, family)) in addresses.iter().zip(families).enumerate() {
        let wrong = match *family {
            "IPv4" => address.is_ipv6(),
            "IPv6" => address.is_ipv4(),
            _ => false,
        };
        if wrong {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(format!("{PATH}[{i}]"), address.to_string(), why);
        }
    }
    errors
}
