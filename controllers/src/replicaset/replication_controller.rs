//! v1 `ReplicationController`: its client, its events and its queue have older names than its controller.

use coxswain_manager::object::Resource;

use super::{Kind, REPLICATION_CONTROLLER_NAME};

/// The engine for `ReplicationControllers`.
pub const REPLICATION_CONTROLLER: Kind = Kind {
    name: REPLICATION_CONTROLLER_NAME,
    source: "replication-controller",
    queue: "replicationmanager",
    resource: Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController"),
    counts_terminating: false,
    tells_selector: false,
};
