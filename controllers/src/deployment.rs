//! Deployments: the pods of one template give way to those of another, through one `ReplicaSet` for each.
//!
//! What it promises:
//! - no step asks for more pods than `replicas + maxSurge`, and none takes a pod that serves from the last
//!   `replicas - maxUnavailable`, by the generation that it was decided from. What users or failing pods do to these
//!   numbers is theirs; the next step starts from there;
//! - a rollout whose pods become available comes to its end;
//! - there is one `ReplicaSet` for a template, whatever becomes of it on its way into the store ([`sets`]);
//! - a `ReplicaSet` that is not the Deployment's, by the uid of its controller, is never scaled or deleted;
//! - nothing of an object is written but the fields named here, and nothing that has not changed.
//!
//! **One step at a time.** A plan is decided from one view of the caches; the next sync of the Deployment is put back until
//! the caches show what the last one has written ([`PendingWrites`](coxswain_manager::cache::PendingWrites)), or may have ([`doubt`]).
//! So no step is decided twice, and within one step only such writes are put together of which each is within the bounds without the others.
//!
//! The walk: `Deployment` and `ReplicaSet`s from caches → [`plan::claims`] → [`plan::plan`], which is [`rolling`],
//! [`recreate`], [`scale`], [`rollback`] and [`cleanup`] → `act` → [`progress`] and [`status`]. All writes are in `act`.

mod act;
pub mod bounds;
pub mod cleanup;
pub mod doubt;
pub mod new_replica_set;
pub mod plan;
pub mod progress;
mod reconcile;
pub mod recreate;
pub mod revision;
pub mod rollback;
pub mod rolling;
#[cfg(test)]
mod rollouts;
pub mod scale;
pub mod sets;
pub mod status;
#[cfg(test)]
mod world;

pub use reconcile::{Roller, build};

use crate::support::owner::Owner as ReplicaSet;
use crate::support::{DEPLOYMENTS, REPLICA_SETS};

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "deployment-controller";
