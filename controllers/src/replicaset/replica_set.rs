//! apps/v1 `ReplicaSet`.

use coxswain_manager::object::Resource;

use super::{Kind, NAME};

/// The engine for `ReplicaSets`.
pub const REPLICA_SET: Kind = Kind {
    name: NAME,
    source: NAME,
    queue: "replicaset",
    resource: Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet"),
    counts_terminating: true,
    tells_selector: false,
};
