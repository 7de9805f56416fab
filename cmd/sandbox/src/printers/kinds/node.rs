//! Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::printers::column::{AGE, NAME, string, wide};
use crate::printers::duration::age;
use crate::printers::kinds::Kind;
use crate::printers::read::{condition, flag, list, text, text_or};

pub static NODE: Kind = Kind {
    columns: &[
        NAME,
        string(
            "Status",
            "Whether the node is ready, and whether it takes new pods.",
        ),
        string("Roles", "Roles of the node, by its labels."),
        AGE,
        string("Version", "Version of the node's kubelet."),
        wide("Internal-IP", "First address inside the cluster."),
        wide("External-IP", "First address outside of the cluster."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Kernel and architecture."),
        wide("Container-Runtime", "Container runtime and its version."),
    ],
    cells: |node, now| {
        let mut kernel = text_or(node, "/status/nodeInfo/kernelVersion", "<unknown>").to_owned();
        match text(node, "/status/nodeInfo/architecture") {
            "" => {}
            architecture => kernel = format!("{kernel} ({architecture})"),
        }
        vec![
            json!(text(node, "/metadata/name")),
            json!(status(node)),
            json!(roles(node)),
            json!(age(node, now)),
            json!(text(node, "/status/nodeInfo/kubeletVersion")),
            json!(address(node, "InternalIP")),
            json!(address(node, "ExternalIP")),
            json!(text_or(node, "/status/nodeInfo/osImage", "<unknown>")),
            json!(kernel),
            json!(text_or(
                node,
                "/status/nodeInfo/containerRuntimeVersion",
                "<unknown>"
            )),
        ]
    },
};

fn status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        "" => "Unknown",
        "True" => "Ready",
        _ => "NotReady",
    };
    if flag(node, "/spec/unschedulable") {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

/// `node-role.kubernetes.io/<role>` and `kubernetes.io/role=<role>`, sorted.
fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    list(node, "/status/addresses")
        .iter()
        .find(|address| text(address, "/type") == kind)
        .map_or("<none>", |address| text(address, "/address"))
}
