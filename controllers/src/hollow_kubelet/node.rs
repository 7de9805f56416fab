//! What is read of a node, and what its nodes look like.

use coxswain_manager::object::decode::null_is_default;
use coxswain_manager::object::{Meta, Object, Resource, Text};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::condition::{self, Condition, Wanted};

use super::{LABEL, address};

/// Where nodes are.
pub(super) const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its metadata.
    pub metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "null_is_default")]
    addresses: Box<[Address]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    type_: Text,
    address: Text,
}

impl Node {
    /// Whether it carries the label.
    #[must_use]
    pub fn is_hollow(&self) -> bool {
        self.metadata.labels.get(LABEL).is_some_and(|it| it == "true")
    }

    /// Whether pods may be bound to it.
    pub(super) fn takes_pods(&self) -> bool {
        !self.spec.unschedulable && !self.metadata.is_terminating()
    }

    /// Its address; empty if it has none.
    pub(super) fn ip(&self) -> Text {
        let mut addresses = self.status.addresses.iter();
        let internal = addresses.find(|it| it.type_ == "InternalIP");
        internal.map(|it| it.address.clone()).unwrap_or_default()
    }

    /// Whether its status says that all is well.
    pub(super) fn is_well(&self) -> bool {
        let conditions = &self.status.conditions;
        condition::is_true(conditions, "Ready")
            && PRESSURES
                .iter()
                .all(|it| condition::find(conditions, it).is_some_and(|it| it.status == "False"))
            && !self.ip().is_empty()
    }
}

impl Object for Node {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

const PRESSURES: [&str; 3] = ["MemoryPressure", "DiskPressure", "PIDPressure"];

/// The name of its node with this index.
#[must_use]
pub(super) fn name(index: u32) -> String {
    format!("hollow-{index}")
}

/// The index in a name of its nodes; none if it is another's.
pub(super) fn index(name: &str) -> Option<u32> {
    let index = name.strip_prefix("hollow-")?.parse().ok()?;
    (self::name(index) == name).then_some(index)
}

/// A node to create.
pub(super) fn new(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            LABEL: "true",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }},
    })
}

/// The strategic merge patch that makes the node with this index Ready.
pub(super) fn ready(node: &Node, index: u32, now: Timestamp) -> Value {
    let ready = Wanted {
        type_: "Ready",
        holds: true,
        why: Some(("KubeletReady", "hollow-kubelet says so".to_owned())),
    };
    let pressures = PRESSURES.map(|type_| Wanted {
        type_,
        holds: false,
        why: Some((
            "KubeletHasSufficient",
            "there is nothing to run out of".to_owned(),
        )),
    });
    let conditions: Vec<Value> = pressures
        .iter()
        .chain([&ready])
        .map(|wanted| {
            let mut condition = condition::write(&node.status.conditions, wanted, now);
            condition["lastHeartbeatTime"] = json!(coxswain_manager::time::rfc3339(now));
            condition
        })
        .collect();
    let resources = json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "10000"});
    json!({
        "metadata": node.metadata.preconditions(),
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": address::node(index)},
                {"type": "Hostname", "address": node.metadata.name},
            ],
            "nodeInfo": {
                "kubeletVersion": concat!("coxswain-", env!("CARGO_PKG_VERSION")),
                "containerRuntimeVersion": "hollow://0",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "osImage": "none",
            },
        },
    })
}
