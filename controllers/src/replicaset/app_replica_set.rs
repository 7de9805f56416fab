//! appcontroller.k8s.io/v1alpha1 `AppReplicaSet`: a `ReplicaSet` for clusters whose own controller of `ReplicaSets` cannot be
//! told to let go.
//!
//! What an API server sees to for a `ReplicaSet`, its definition says: a selector that asks for something, matches the
//! template, and never changes; no fewer than no replicas. A server that does not know rules takes what breaks them: then
//! the engine refuses it. Nobody looks into the template before a pod is made of it.

pub mod api;

use coxswain_manager::object::Resource;
use serde_json::Value;

use super::{APP_REPLICASET_NAME, Kind};
use crate::crd::{Column, Custom, GROUP, VERSION};

const RESOURCE: Resource = Resource::namespaced(GROUP, VERSION, "appreplicasets", "AppReplicaSet");

/// The engine for `AppReplicaSets`.
pub const APP_REPLICA_SET: Kind = Kind {
    name: APP_REPLICASET_NAME,
    source: APP_REPLICASET_NAME,
    queue: "appreplicaset",
    resource: RESOURCE,
    counts_terminating: true,
    tells_selector: true,
};

/// The columns of a `ReplicaSet`. It shows all containers and images, but a definition can show one value only.
const COLUMNS: &[Column] = &[
    Column {
        name: "Desired",
        kind: "integer",
        path: ".spec.replicas",
        about: "How many pods are asked for.",
        wide: false,
    },
    Column {
        name: "Current",
        kind: "integer",
        path: ".status.replicas",
        about: "How many pods there are.",
        wide: false,
    },
    Column {
        name: "Ready",
        kind: "integer",
        path: ".status.readyReplicas",
        about: "How many of them are ready.",
        wide: false,
    },
    Column {
        name: "Age",
        kind: "date",
        path: ".metadata.creationTimestamp",
        about: "How long it has been there.",
        wide: false,
    },
    Column {
        name: "Image",
        kind: "string",
        path: ".spec.template.spec.containers[0].image",
        about: "The image of the first container.",
        wide: true,
    },
    Column {
        name: "Selector",
        kind: "string",
        path: ".status.selector",
        about: "Which pods are meant.",
        wide: true,
    },
];

/// What a cluster is told of the kind.
#[must_use]
pub fn definition() -> Value {
    let custom = Custom {
        resource: RESOURCE,
        short_names: &["ars"],
        about: "AppReplicaSet keeps a number of pods alive, as a ReplicaSet does, by a controller of Coxswain.",
        scales: true,
        columns: COLUMNS,
        rules: &[],
    };
    custom.definition::<api::Spec, api::Status>()
}
