//! The kinds of owners: `ReplicaSet`, `ReplicationController` and `AppReplicaSet`.

use steersman_manager::object::Resource;

use super::{APP_REPLICASET_NAME, NAME, REPLICATION_CONTROLLER_NAME};
use crate::api::app_replica_set::APP_REPLICA_SETS;
use crate::support::REPLICA_SETS;

/// A kind of owner, and the names of its controller.
#[derive(Clone, Debug)]
pub struct OwnerKind {
    /// The name of the controller.
    pub name: &'static str,
    /// The reporting component of events.
    pub component: &'static str,
    /// The name of the work queue in metrics.
    pub queue: &'static str,
    /// The resource of the owners.
    pub resource: Resource,
    /// Whether the status has `terminatingReplicas`.
    pub counts_terminating: bool,
    /// Whether the status has the selector as a string, for the scale subresource.
    pub writes_selector: bool,
}

/// apps/v1 `ReplicaSet`.
pub const REPLICA_SET: OwnerKind = OwnerKind {
    name: NAME,
    component: NAME,
    queue: "replicaset",
    resource: REPLICA_SETS,
    counts_terminating: true,
    writes_selector: false,
};

/// v1 `ReplicationController`. Client, events and queue have the older names of kube-controller-manager.
pub const REPLICATION_CONTROLLER: OwnerKind = OwnerKind {
    name: REPLICATION_CONTROLLER_NAME,
    component: "replication-controller",
    queue: "replicationmanager",
    resource: Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController"),
    counts_terminating: false,
    writes_selector: false,
};

/// `AppReplicaSet`: a `ReplicaSet` for clusters whose kube-controller-manager reconciles the `ReplicaSets` itself.
///
/// Its CRD validates the replicas and the selector, but not the template. An API server without CEL rules accepts an invalid
/// spec; the controller reports it.
pub const APP_REPLICA_SET: OwnerKind = OwnerKind {
    name: APP_REPLICASET_NAME,
    component: APP_REPLICASET_NAME,
    queue: "appreplicaset",
    resource: APP_REPLICA_SETS,
    counts_terminating: true,
    writes_selector: true,
};
