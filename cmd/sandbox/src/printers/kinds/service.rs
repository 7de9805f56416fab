//! Services: addresses inside and outside, and ports.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::printers::column::{AGE, NAME, SELECTOR, string};
use crate::printers::duration::age;
use crate::printers::kinds::Kind;
use crate::printers::read::{int, list, text, text_or};
use crate::printers::selector::labels;

pub static SERVICE: Kind = Kind {
    columns: &[
        NAME,
        string("Type", "How the service is reached."),
        string("Cluster-IP", "Address inside the cluster."),
        string("External-IP", "Addresses from outside of the cluster."),
        string("Port(s)", "Ports, with the port on every node if there is one."),
        AGE,
        SELECTOR,
    ],
    cells: |service, now| {
        vec![
            json!(text(service, "/metadata/name")),
            json!(text(service, "/spec/type")),
            json!(text_or(service, "/spec/clusterIPs/0", "<none>")),
            json!(external(service)),
            json!(ports(service)),
            json!(age(service, now)),
            json!(labels(service.pointer("/spec/selector"))),
        ]
    },
};

fn external(service: &Value) -> String {
    let mut addresses: Vec<&str> = Vec::new();
    let none = match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => "<none>",
        "LoadBalancer" => {
            addresses.extend(balancers(service));
            "<pending>"
        }
        "ExternalName" => return text(service, "/spec/externalName").to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    addresses.extend(
        list(service, "/spec/externalIPs")
            .iter()
            .filter_map(Value::as_str),
    );
    if addresses.is_empty() {
        none.to_owned()
    } else {
        addresses.join(",")
    }
}

/// Each balancer by address or else by name, sorted.
fn balancers(service: &Value) -> BTreeSet<&str> {
    let ingress = list(service, "/status/loadBalancer/ingress").iter();
    ingress
        .map(|one| text_or(one, "/ip", text(one, "/hostname")))
        .filter(|one| !one.is_empty())
        .collect()
}

fn ports(service: &Value) -> String {
    let ports = list(service, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (int(port, "/port"), text(port, "/protocol"));
        match int(port, "/nodePort") {
            1.. => format!("{number}:{}/{protocol}", int(port, "/nodePort")),
            _ => format!("{number}/{protocol}"),
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports
    }
}
