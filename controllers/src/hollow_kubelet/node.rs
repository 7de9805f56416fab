//! Projection of a Node, and the objects of hollow nodes.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_manager::object::decode::null_is_default;
use steersman_manager::object::{Meta, Object, Resource, Text};

use super::condition::{self, Condition, DesiredCondition};
use super::{LABEL, address};

pub(super) const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");

/// Projection of a Node.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
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
    /// Whether the node has the label.
    #[must_use]
    pub fn is_hollow(&self) -> bool {
        self.metadata.labels.get(LABEL).is_some_and(|it| it == "true")
    }

    pub(super) fn is_schedulable(&self) -> bool {
        !self.spec.unschedulable && !self.metadata.is_terminating()
    }

    /// The internal address, or empty.
    pub(super) fn ip(&self) -> Text {
        let mut addresses = self.status.addresses.iter();
        let internal = addresses.find(|it| it.type_ == "InternalIP");
        internal.map(|it| it.address.clone()).unwrap_or_default()
    }

    /// Whether the node is Ready without pressure and has an address.
    pub(super) fn is_ready(&self) -> bool {
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

#[must_use]
pub(super) fn name(index: u32) -> String {
    format!("hollow-{index}")
}

/// Returns the index of a hollow node by its name.
pub(super) fn index(name: &str) -> Option<u32> {
    let index = name.strip_prefix("hollow-")?.parse().ok()?;
    (self::name(index) == name).then_some(index)
}

/// Returns a new node.
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

/// Returns a strategic merge patch that makes a node Ready.
pub(super) fn ready(node: &Node, index: u32, now: Timestamp) -> Value {
    let ready = DesiredCondition {
        type_: "Ready",
        is_true: true,
        reason_and_message: Some((
            "KubeletReady",
            "hollow-kubelet reports the node as ready".to_owned(),
        )),
    };
    let pressures = PRESSURES.map(|type_| DesiredCondition {
        type_,
        is_true: false,
        reason_and_message: Some((
            "KubeletHasSufficient",
            "hollow nodes have no resource pressure".to_owned(),
        )),
    });
    let conditions: Vec<Value> = pressures
        .iter()
        .chain([&ready])
        .map(|desired| {
            let mut condition = condition::write(&node.status.conditions, desired, now);
            condition["lastHeartbeatTime"] = json!(steersman_manager::time::rfc3339(now));
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
                "kubeletVersion": concat!("steersman-", env!("CARGO_PKG_VERSION")),
                "containerRuntimeVersion": "hollow://0",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "osImage": "none",
            },
        },
    })
}
