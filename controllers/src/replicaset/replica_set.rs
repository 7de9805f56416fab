//! apps/v1 `ReplicaSet`.

use coxswain_manager::object::Resource;

use super::Kind;
use crate::names::REPLICASET;

/// The engine for `ReplicaSets`.
pub const REPLICA_SET: Kind = Kind {
    name: REPLICASET,
    source: REPLICASET,
    queue: "replicaset",
    resource: Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet"),
    counts_terminating: true,
    tells_selector: false,
};
