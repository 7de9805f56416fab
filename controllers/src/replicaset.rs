//! The controller of `ReplicaSets`, `ReplicationControllers` and `AppReplicaSets`: keeps the desired number of pods running.
//!
//! Guarantees:
//! - The controller never creates more active pods than `spec.replicas`: a create without an answer counts as a pod until a
//!   live read or the cache shows otherwise.
//! - It never counts or deletes a pod that another owner controls, by uid.
//! - A scale-down deletes pods in the order of kube-controller-manager (`deletion_order`).
//! - It writes only the fields named here, and no unchanged status.
//!
//! **Read your writes.** A sync is postponed until the caches show the writes of the previous one
//! ([`PendingWrites`](steersman_manager::cache::PendingWrites)). Expectations cover the rest: creates of pods outside the
//! scope of the cache and requests of unknown outcome. The start of a sync settles them from the cache: a create when its name exists, a
//! delete when its uid is gone or terminating. That misses nothing, because the cache changes before its handlers run: the
//! event that settles an expectation also enqueues the owner. Live reads resolve the other names. A name with a pod counts
//! until the cache shows it; a name without one is used first for the next create, so a late request cannot add a pod.
//!
//! One sync: `observe` → `plan` → `act` → `status`. All writes are in `act` and
//! [pod control](crate::support).

mod act;
mod backoff;
mod deletion_order;
mod metrics;
mod observe;
mod owner_kind;
mod plan;
mod reconcile;
mod status;
mod template;

pub use metrics::Metrics;
pub use owner_kind::{APP_REPLICA_SET, OwnerKind, REPLICA_SET, REPLICATION_CONTROLLER};
pub use reconcile::{ReplicaSetReconciler, build};

use crate::support::owner::Owner;
use crate::support::pod::Pod;
use crate::support::{PODS, naming};

/// Name of the controller of `ReplicaSets`. The names are stable, see [`crate::registry`].
pub const NAME: &str = "replicaset-controller";
/// Name of the controller of `AppReplicaSets`.
pub const APP_REPLICASET_NAME: &str = "appreplicaset-controller";
/// Name of the controller of `ReplicationControllers`.
pub const REPLICATION_CONTROLLER_NAME: &str = "replicationcontroller-controller";

/// The maximum number of pods that one sync creates or deletes.
const BURST_REPLICAS: usize = 500;
