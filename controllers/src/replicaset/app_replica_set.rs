//! appcontroller.k8s.io/v1alpha1 `AppReplicaSet`: a `ReplicaSet` for clusters whose own controller of `ReplicaSets` cannot be
//! told to let go.
//!
//! What an API server sees to for a `ReplicaSet`, its definition says: a selector that asks for something, matches the
//! template, and never changes; no fewer than no replicas. A server that does not know rules takes what breaks them: then
//! the engine refuses it. Nobody looks into the template before a pod is made of it.

use super::{APP_REPLICASET_NAME, Kind};
use crate::api::app_replica_set::APP_REPLICA_SETS;

/// The engine for `AppReplicaSets`.
pub const APP_REPLICA_SET: Kind = Kind {
    name: APP_REPLICASET_NAME,
    source: APP_REPLICASET_NAME,
    queue: "appreplicaset",
    resource: APP_REPLICA_SETS,
    counts_terminating: true,
    tells_selector: true,
};
