//! The deployment controller: replaces the pods of one template by those of another, through one `ReplicaSet` per
//! template.
//!
//! Guarantees:
//! - No step asks for more than `replicas + maxSurge` pods or takes an available pod from the last `replicas -
//!   maxUnavailable`, based on the observed generation. Users and failing pods can leave these bounds; the next step
//!   starts from there.
//! - A rollout whose pods become available completes.
//! - A template has one `ReplicaSet`, even if a webhook changes the `ReplicaSet` on its creation ([`replica_sets`]).
//! - A `ReplicaSet` whose controller reference has another uid is never scaled or deleted.
//! - Only the fields named here are written, and only if they change.
//!
//! **One step at a time.** A plan is based on one snapshot of the caches. The next sync of the Deployment waits until
//! the caches show the writes of the last one ([`PendingWrites`](steersman_manager::cache::PendingWrites)), including writes with an
//! unknown outcome ([`unknown_write`]). So no step is planned twice. The writes of one step are each within the bounds
//! without the others.
//!
//! A sync reads the Deployment and its `ReplicaSet`s from the caches, then calls [`plan::claims`] and [`plan::plan`],
//! which uses [`rolling`], [`recreate`], [`scale`], [`rollback`] and [`cleanup`], then executes the plan, and last
//! computes the status ([`progress`] and [`status`]). All requests are in `act`.

mod act;
pub mod bounds;
pub mod cleanup;
mod controller;
mod execute;
pub mod new_replica_set;
pub mod plan;
pub mod progress;
mod reconcile;
pub mod recreate;
pub mod replica_sets;
pub mod revision;
pub mod rollback;
pub mod rolling;
pub mod scale;
pub mod status;
pub mod unknown_write;
mod validation;

#[cfg(test)]
mod tests;

pub use controller::build;
pub use reconcile::DeploymentReconciler;

use crate::support::owner::Owner as ReplicaSet;
use crate::support::{DEPLOYMENTS, REPLICA_SETS};

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "deployment-controller";
