//! Strategy of Service: the rules that do not depend on which addresses and node ports are free.

pub(crate) mod cluster_ips;
pub(crate) mod node_ports;
pub(crate) mod traffic;
pub(crate) mod validate;

use crate::field::{FieldError, Report as _};
use crate::json::{Value, json};
use crate::registry::json::{
    default_text, each, empty, keep, list, number, remove, section, set, set_default, text, with,
};
use crate::registry::{Rules, names};

pub(crate) const RULES: Rules = Rules {
    name: names::label_name,
    default,
    create,
    update,
    validate: validate::service,
    validate_update: |old, new, errors| validate::update(&old["spec"], &new["spec"], errors),
    validate_status: |_, new, errors| {
        let addresses = list(&new["status"]["loadBalancer"]["ingress"]);
        if !addresses.is_empty() && text(&new["spec"]["type"]) != "LoadBalancer" {
            let why = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.clear();
            errors.forbidden("status.loadBalancer.ingress", why);
        }
    },
    create_on_update: true,
    ..Rules::GENERIC
};

fn default(service: &mut Value) {
    let Some(spec) = section(service, "spec") else {
        return;
    };
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
    let kind = text(&spec["type"]).to_owned();
    if is_outside(spec) {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = service
            .get_mut("status")
            .and_then(|status| section(status, "loadBalancer"))
        {
            each(balancer, "ingress", |ingress| {
                if !text(&ingress["ip"]).is_empty() {
                    set_default(ingress, "ipMode", "VIP");
                }
            });
        }
    }
}

/// Makes the port the default of its target port.
pub(crate) fn default_port(port: &mut Value) {
    if [Value::Null, json!(0), json!("")].contains(&port["targetPort"]) {
        let same = port["port"].clone();
        set(port, "targetPort", same);
    }
}

/// Whether nodes tell by a port of their own whether they have pods of the service.
fn needs_health_check(spec: &Value) -> bool {
    text(&spec["type"]) == "LoadBalancer" && text(&spec["externalTrafficPolicy"]) == "Local"
}

/// Validates the addresses that a service requests.
pub(crate) fn addresses(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate::addresses(&service["spec"], &mut errors);
    if errors.is_empty() {
        validate::families(&service["spec"], &mut errors);
    }
    errors
}

fn is_headless(spec: &Value) -> bool {
    list(&spec["clusterIPs"]).first().is_some_and(|ip| ip == "None") || text(&spec["clusterIP"]) == "None"
}

/// A new service that names one address means the list of it.
fn create(service: &mut Value) {
    with(service, "spec", |spec| {
        if empty(&spec["clusterIPs"]) && !text(&spec["clusterIP"]).is_empty() {
            let single = spec["clusterIP"].clone();
            set(spec, "clusterIPs", json!([single]));
        }
    });
    families(service);
}

/// Which families of addresses the service has, where that is left open.
fn families(service: &mut Value) {
    with(service, "spec", |spec| {
        if !has_address(spec) {
            // It says nothing of such a service, and is never shown.
            if matches!(text(&spec["internalTrafficPolicy"]), "Cluster" | "Local") {
                remove(spec, "internalTrafficPolicy");
            }
            return;
        }
        // The endpoints of such a service may have either family.
        if is_headless(spec) && empty(&spec["selector"]) {
            set_default(spec, "ipFamilyPolicy", "RequireDualStack");
            if empty(&spec["ipFamilies"]) {
                set(spec, "ipFamilies", json!(["IPv4"]));
            }
            if text(&spec["ipFamilyPolicy"]) != "SingleStack" {
                match list(&spec["ipFamilies"]) {
                    [one] if one == "IPv4" => set(spec, "ipFamilies", json!(["IPv4", "IPv6"])),
                    [one] if one == "IPv6" => set(spec, "ipFamilies", json!(["IPv6", "IPv4"])),
                    _ => {}
                }
            }
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
        if has_address(before) && has_address(spec) {
            carry_address(before, spec);
        }
        same_addresses(before, spec);
        drop_what_the_type_lost(before, spec);
        if text(&spec["ipFamilyPolicy"]) == "SingleStack" {
            for key in ["clusterIPs", "ipFamilies"] {
                if spec[key] == before[key]
                    && let Some(first) = list(&spec[key]).first().cloned()
                {
                    set(spec, key, json!([first]));
                }
            }
        }
    });
    families(service);
}

/// An update that says nothing about addresses keeps them.
fn carry_address(before: &Value, spec: &mut Value) {
    for key in ["clusterIP", "clusterIPs", "ipFamilyPolicy"] {
        if empty(&spec[key]) {
            keep(before, spec, key);
        }
    }
    if gets_node_ports(before) && gets_node_ports(spec) {
        carry_node_ports(before, spec);
    }
}

/// Whether it is given numbers of its ports on the nodes.
fn gets_node_ports(spec: &Value) -> bool {
    has_node_ports(text(&spec["type"])) && spec["allocateLoadBalancerNodePorts"] != json!(false)
}

/// A port that has the name of an old one keeps its number on the nodes, unless another one has asked for that.
fn carry_node_ports(before: &Value, spec: &mut Value) {
    let numbers = |spec: &Value| -> Vec<i64> {
        let ports = list(&spec["ports"]).iter();
        ports.map(|port| number(&port["nodePort"])).collect()
    };
    let asked = numbers(spec);
    each(spec, "ports", |port| {
        let same_name = |old: &&Value| text(&old["name"]) == text(&port["name"]);
        if number(&port["nodePort"]) == 0
            && let Some(old) = list(&before["ports"]).iter().rev().find(same_name)
            && !asked.contains(&number(&old["nodePort"]))
        {
            keep(old, port, "nodePort");
        }
    });
}

/// The single address and the list of addresses say the same: a change of one field means both.
fn same_addresses(before: &Value, spec: &mut Value) {
    let (old, new) = (text(&before["clusterIP"]), text(&spec["clusterIP"]));
    let same_list = list(&before["clusterIPs"]) == list(&spec["clusterIPs"]);
    if old == new {
        if empty(&spec["clusterIPs"]) && !empty(&before["clusterIPs"]) {
            keep(before, spec, "clusterIPs");
        }
    } else if same_list && new.is_empty() {
        remove(spec, "clusterIPs");
    } else if same_list {
        let single = json!([new]);
        set(spec, "clusterIPs", single);
    }
}

/// Whether it is of a type that has an address in the cluster.
fn has_address(spec: &Value) -> bool {
    text(&spec["type"]) != "ExternalName"
}

fn has_node_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

/// Whether it is reached from outside of the cluster.
fn is_outside(spec: &Value) -> bool {
    let kind = text(&spec["type"]);
    has_node_ports(kind) || (kind == "ClusterIP" && !list(&spec["externalIPs"]).is_empty())
}

/// Changing the type is a small patch; fields that only the old type needed are cleared, unless they changed too.
fn drop_what_the_type_lost(before: &Value, spec: &mut Value) {
    let kind = text(&spec["type"]).to_owned();
    let same = |spec: &Value, key: &str| spec[key] == before[key];
    if has_address(before) && !has_address(spec) {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            remove(spec, "clusterIP");
            remove(spec, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(spec, key) {
                remove(spec, key);
            }
        }
    }
    if has_node_ports(text(&before["type"])) && !has_node_ports(&kind) {
        // One that is new is meant, and refused.
        let known = |port: &Value| {
            let of = |old: &Value| old["nodePort"] == port["nodePort"];
            number(&port["nodePort"]) == 0 || list(&before["ports"]).iter().any(of)
        };
        if list(&spec["ports"]).iter().all(known) {
            each(spec, "ports", |port| remove(port, "nodePort"));
        }
    }
    if is_outside(before) && !is_outside(spec) && same(spec, "externalTrafficPolicy") {
        remove(spec, "externalTrafficPolicy");
    }
    if kind != "LoadBalancer" && text(&before["type"]) == "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec[key] == before[key] {
                remove(spec, key);
            }
        }
    }
    let port = "healthCheckNodePort";
    if needs_health_check(before) {
        if !needs_health_check(spec) && spec[port] == before[port] {
            remove(spec, port);
        } else if needs_health_check(spec) && empty(&spec[port]) {
            keep(before, spec, port);
        }
    }
}
