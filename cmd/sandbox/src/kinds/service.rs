//! Services. Addresses and node ports are handed out elsewhere; here is what can be said without knowing which are free.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::json::{
    default_text, each, empty, keep, list, number, remove, section, set, set_default, text, with,
};
use super::shape::drop_empty_map;
use super::{Rules, labels, names};
use crate::field::FieldError;

pub(super) const RULES: Rules = Rules {
    name: names::label_name,
    default,
    create: families,
    update,
    validate,
    validate_update: |old, new| {
        let mut errors = validate_same_address(old, new);
        errors.extend(validate(new));
        errors
    },
    validate_status: |_, new| {
        let addresses = list(&new["status"]["loadBalancer"]["ingress"]);
        if addresses.is_empty() || text(&new["spec"]["type"]) == "LoadBalancer" {
            return Vec::new();
        }
        vec![FieldError::forbidden(
            "status.loadBalancer.ingress",
            "may only be used when `spec.type` is 'LoadBalancer'",
        )]
    },
    create_on_update: true,
    ..Rules::PLAIN
};

fn default(service: &mut Value) {
    let Some(spec) = section(service, "spec") else {
        return;
    };
    drop_empty_map(spec, "selector");
    default_text(spec, "sessionAffinity", "None");
    match text(&spec["sessionAffinity"]) {
        "None" => remove(spec, "sessionAffinityConfig"),
        "ClientIP" if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            set(
                spec,
                "sessionAffinityConfig",
                json!({"clientIP": {"timeoutSeconds": 10800}}),
            );
        }
        _ => {}
    }
    default_text(spec, "type", "ClusterIP");
    each(spec, "ports", |port| {
        default_text(port, "protocol", "TCP");
        if [Value::Null, json!(0), json!("")].contains(&port["targetPort"]) {
            let same = port["port"].clone();
            set(port, "targetPort", same);
        }
    });
    let kind = text(&spec["type"]).to_owned();
    let outside = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !list(&spec["externalIPs"]).is_empty());
    if outside {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn is_headless(spec: &Value) -> bool {
    list(&spec["clusterIPs"]).first().is_some_and(|ip| ip == "None") || text(&spec["clusterIP"]) == "None"
}

/// The single address and the list of addresses say the same; families follow.
fn families(service: &mut Value) {
    with(service, "spec", |spec| {
        let kind = text(&spec["type"]).to_owned();
        if kind == "ExternalName" {
            return;
        }
        if empty(&spec["clusterIPs"]) && !text(&spec["clusterIP"]).is_empty() {
            let single = spec["clusterIP"].clone();
            set(spec, "clusterIPs", json!([single]));
        }
        // Whoever writes the endpoints of such a service by hand may use either family.
        if is_headless(spec) && empty(&spec["selector"]) && spec["ipFamilyPolicy"].is_null() {
            if empty(&spec["ipFamilies"]) {
                set(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
            }
            set(spec, "ipFamilyPolicy", "RequireDualStack");
            return;
        }
        if empty(&spec["ipFamilies"]) {
            set(spec, "ipFamilies", json!(["IPv4"]));
        }
        set_default(spec, "ipFamilyPolicy", "SingleStack");
    });
}

fn update(old: &Value, service: &mut Value) {
    let before = &old["spec"];
    with(service, "spec", |spec| {
        let stays = text(&before["type"]) != "ExternalName" && text(&spec["type"]) != "ExternalName";
        if stays {
            carry_address(before, spec);
        }
        drop_what_the_type_lost(before, spec);
    });
    families(service);
}

/// An update that says nothing about addresses keeps them; one that names only the first means the list.
fn carry_address(before: &Value, spec: &mut Value) {
    if text(&spec["clusterIP"]).is_empty() && empty(&spec["clusterIPs"]) {
        keep(before, spec, "clusterIP");
        keep(before, spec, "clusterIPs");
    } else if spec["clusterIP"] != before["clusterIP"] && spec["clusterIPs"] == before["clusterIPs"] {
        if text(&spec["clusterIP"]).is_empty() {
            keep(before, spec, "clusterIP");
        } else {
            let single = spec["clusterIP"].clone();
            set(spec, "clusterIPs", json!([single]));
        }
    } else if text(&spec["clusterIP"]).is_empty()
        && let Some(first) = list(&spec["clusterIPs"]).first().cloned()
    {
        set(spec, "clusterIP", first);
    }
    for key in ["ipFamilies", "ipFamilyPolicy"] {
        if empty(&spec[key]) {
            keep(before, spec, key);
        }
    }
    if has_node_ports(text(&before["type"])) && has_node_ports(text(&spec["type"])) {
        each(spec, "ports", |port| {
            let same_port = |old: &&Value| {
                ["name", "port", "protocol"]
                    .iter()
                    .all(|key| old[*key] == port[*key])
            };
            if port["nodePort"].is_null()
                && let Some(old) = list(&before["ports"]).iter().find(same_port)
            {
                keep(old, port, "nodePort");
            }
        });
    }
}

fn has_node_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

/// Changing the type is a small patch; what only the former type needed goes with it, unless it was changed too.
fn drop_what_the_type_lost(before: &Value, spec: &mut Value) {
    let kind = text(&spec["type"]).to_owned();
    if kind == "ExternalName" && spec["clusterIPs"] == before["clusterIPs"] {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            remove(spec, key);
        }
        if spec["internalTrafficPolicy"] == before["internalTrafficPolicy"] {
            remove(spec, "internalTrafficPolicy");
        }
    }
    if has_node_ports(text(&before["type"])) && !has_node_ports(&kind) {
        let old_ports = list(&before["ports"]);
        each(spec, "ports", |port| {
            if old_ports.iter().any(|old| old["nodePort"] == port["nodePort"]) {
                remove(port, "nodePort");
            }
        });
        if spec["externalTrafficPolicy"] == before["externalTrafficPolicy"] && empty(&spec["externalIPs"]) {
            remove(spec, "externalTrafficPolicy");
        }
    }
    if kind != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec[key] == before[key] {
                remove(spec, key);
            }
        }
    }
}

fn validate_same_address(old: &Value, new: &Value) -> Vec<FieldError> {
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
        errors.push(FieldError::invalid(
            format!("spec.clusterIPs[{i}]"),
            after["clusterIPs"].clone(),
            problem,
        ));
    }
    errors
}

fn validate(service: &Value) -> Vec<FieldError> {
    let spec = &service["spec"];
    let kind = text(&spec["type"]);
    let ports = list(&spec["ports"]);
    let mut errors = Vec::new();
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if is_headless(spec) && has_node_ports(kind) {
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            "None",
            format!("may not be set to 'None' for {kind} services"),
        ));
    }
    if kind == "ExternalName" {
        errors.extend(validate_external_name(spec));
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        errors.extend(validate_port(
            port,
            ports.len() > 1,
            &mut seen,
            &format!("spec.ports[{i}]"),
        ));
    }
    errors.extend(labels::validate(&spec["selector"], "spec.selector"));
    let affinity = text(&spec["sessionAffinity"]);
    if !matches!(affinity, "ClientIP" | "None") {
        errors.push(FieldError::not_supported(
            "spec.sessionAffinity",
            affinity,
            &["ClientIP", "None"],
        ));
    }
    errors.extend(validate_addresses(spec));
    if !matches!(kind, "ClusterIP" | "ExternalName" | "LoadBalancer" | "NodePort") {
        errors.push(FieldError::not_supported(
            "spec.type",
            kind,
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        ));
    }
    errors.extend(validate_port_list(ports, kind));
    if !spec["allocateLoadBalancerNodePorts"].is_null() && kind != "LoadBalancer" {
        errors.push(FieldError::forbidden(
            "spec.allocateLoadBalancerNodePorts",
            "may only be used when `type` is 'LoadBalancer'",
        ));
    }
    errors
}

fn validate_external_name(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !empty(&spec[key]) {
            errors.push(FieldError::forbidden(
                format!("spec.{key}"),
                "may not be set for ExternalName services",
            ));
        }
    }
    let given = text(&spec["externalName"]);
    let name = given.strip_suffix('.').unwrap_or(given);
    if name.is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    } else {
        for wrong in names::dns_subdomain(name) {
            errors.push(FieldError::invalid("spec.externalName", name, wrong));
        }
    }
    errors
}

fn validate_port<'a>(
    port: &'a Value,
    needs_name: bool,
    seen: &mut BTreeSet<&'a str>,
    path: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(&port["name"]);
    if name.is_empty() {
        if needs_name {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
    } else {
        for wrong in names::dns_label(name) {
            errors.push(FieldError::invalid(format!("{path}.name"), name, wrong));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
    }
    if let Some(wrong) = names::port_number(number(&port["port"])) {
        errors.push(FieldError::invalid(
            format!("{path}.port"),
            number(&port["port"]),
            wrong,
        ));
    }
    let protocol = text(&port["protocol"]);
    if !matches!(protocol, "SCTP" | "TCP" | "UDP") {
        errors.push(FieldError::not_supported(
            format!("{path}.protocol"),
            protocol,
            &["SCTP", "TCP", "UDP"],
        ));
    }
    match &port["targetPort"] {
        Value::String(name) => {
            for wrong in names::port_name(name) {
                errors.push(FieldError::invalid(
                    format!("{path}.targetPort"),
                    name.as_str(),
                    wrong,
                ));
            }
        }
        target => {
            if let Some(wrong) = names::port_number(number(target)) {
                errors.push(FieldError::invalid(
                    format!("{path}.targetPort"),
                    number(target),
                    wrong,
                ));
            }
        }
    }
    errors
}

/// No port twice, neither inside nor on the nodes.
fn validate_port_list(ports: &[Value], kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut inside = BTreeSet::new();
    let mut on_nodes = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let protocol = text(&port["protocol"]);
        let node_port = number(&port["nodePort"]);
        if node_port != 0 && kind == "ClusterIP" {
            errors.push(FieldError::forbidden(
                format!("spec.ports[{i}].nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
        if node_port != 0 && !on_nodes.insert((protocol, node_port)) {
            errors.push(FieldError::duplicate(
                format!("spec.ports[{i}].nodePort"),
                node_port,
            ));
        }
        if !inside.insert((protocol, number(&port["port"]))) {
            errors.push(FieldError::duplicate(
                format!("spec.ports[{i}]"),
                json!({"port": port["port"], "protocol": protocol}),
            ));
        }
    }
    errors
}

fn validate_addresses(spec: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.clusterIPs";
    if text(&spec["type"]) == "ExternalName" {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let (single, all) = (text(&spec["clusterIP"]), list(&spec["clusterIPs"]));
    match (single.is_empty(), all.first()) {
        (true, Some(_)) => errors.push(FieldError::invalid(
            PATH,
            spec["clusterIPs"].clone(),
            "must be empty when `clusterIP` is not specified",
        )),
        (false, None) => errors.push(FieldError::required(PATH, "")),
        (false, Some(first)) if first != single => errors.push(FieldError::invalid(
            PATH,
            spec["clusterIPs"].clone(),
            "first value must match `clusterIP`",
        )),
        _ => {}
    }
    for (i, family) in list(&spec["ipFamilies"]).iter().map(text).enumerate() {
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(
                format!("spec.ipFamilies[{i}]"),
                family,
                &["IPv4", "IPv6"],
            ));
        }
    }
    let policy = text(&spec["ipFamilyPolicy"]);
    if !matches!(
        policy,
        "" | "PreferDualStack" | "RequireDualStack" | "SingleStack"
    ) {
        errors.push(FieldError::not_supported(
            "spec.ipFamilyPolicy",
            policy,
            &["PreferDualStack", "RequireDualStack", "SingleStack"],
        ));
    }
    for (i, ip) in all.iter().map(text).enumerate() {
        if ip == "None" && i == 0 {
            if all.len() > 1 {
                errors.push(FieldError::invalid(
                    PATH,
                    spec["clusterIPs"].clone(),
                    "'None' must be the first and only value",
                ));
            }
        } else if ip.parse::<std::net::IpAddr>().is_err() {
            errors.push(FieldError::invalid(
                format!("{PATH}[{i}]"),
                ip,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ));
        }
    }
    if all.len() > 2 {
        errors.push(FieldError::invalid(
            PATH,
            spec["clusterIPs"].clone(),
            "may only hold up to 2 values",
        ));
    }
    errors
}

#[cfg(test)]
mod tests;
