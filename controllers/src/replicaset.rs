//! The replica engine: keeps N pods alive for each owner, whatever its [`Kind`].
//!
//! What it promises:
//! - at no time are there more active pods of an owner than it asks for, as far as the engine makes them: a pod whose
//!   creation was not answered counts as a pod until it is known better;
//! - a pod that is not the owner's, by the uid of its controller, is never deleted or counted;
//! - scaling down takes the pods that are missed least ([`victims`]);
//! - a status that has not changed is not written, and nothing of an object is written but the fields named here.
//!
//! **What was done and is not seen yet.** The sync of an owner is put back until the caches show what the last one wrote
//! ([`PendingWrites`](coxswain_manager::cache::PendingWrites)). So a create that was answered is either shown or over when a sync reads
//! the cache, unless the pod is out of its scope. What is left is settled at the start of the sync, from the cache itself
//! rather than from a second stream of deltas: a create when its name is there, a delete when its uid, which the cache had
//! shown before, is gone or going. That is sound because a cache changes before it tells anybody: the event that would
//! have settled it also wakes the owner, and that sync looks at a cache that is at least as new. A name that is not settled
//! is read live. If it is there it counts, for as long as the cache does not show it; if not, it is the first to be used
//! again: the same name cannot become two pods.
//!
//! The walk: [`Owner`] and [`Pod`]s from caches → [`plan::claims`] → [`plan::manage`] → `act` → [`status`]. All writes are
//! in `act`.

mod act;
pub mod app_replica_set;
pub mod backoff;
mod kind;
mod metrics;
pub mod plan;
mod reconcile;
mod replica_set;
mod replication_controller;
pub mod status;
pub mod template;
pub mod victims;

pub use app_replica_set::APP_REPLICA_SET;
pub use kind::Kind;
pub use metrics::Metrics;
pub use reconcile::{Engine, build};
pub use replica_set::REPLICA_SET;
pub use replication_controller::REPLICATION_CONTROLLER;

use crate::support::owner::Owner;
use crate::support::pod::Pod;
use crate::support::{PODS, naming};

/// Name of the controller of `ReplicaSets`. The names are stable, see [`crate::registry`].
pub const NAME: &str = "replicaset-controller";
/// Name of the controller of `AppReplicaSets`.
pub const APP_REPLICASET_NAME: &str = "appreplicaset-controller";
/// Name of the controller of `ReplicationControllers`.
pub const REPLICATION_CONTROLLER_NAME: &str = "replicationcontroller-controller";

/// How many pods one sync creates or deletes at most.
pub const BURST: usize = 500;
