//! The `AppService` controller. An `AppService` is an application of one container: the controller keeps a Deployment for it,
//! and a Service if it has ports.
//!
//! - Objects of the same name that do not belong to the `AppService` (`ownership`) are never changed. The conflict is
//!   reported by an event and a condition, and resolved when the object is deleted or annotated for adoption.
//! - Children are created by POST and changed by server-side apply (`managed_fields`), in one apply for all fields and only
//!   if one differs (`drift`). Fields that the `AppService` sets are forced: a change by another manager is corrected, with
//!   an event that names the manager. Other fields are kept. A manager that keeps changing a field is met with backoff.
//! - The default image is used to create a Deployment only, and stays with a field manager of its own.
//! - A new `deploymentName` creates a new Deployment. The previous one is deleted when the new one is available (`plan`).
//! - With `deletionPolicy: Orphan` the children have no ownerReference and outlive the `AppService` (`deletion_policy`).
//! - An unchanged status is not written, and children in the desired state are not written.
//!
//! **Idempotence.** The names of children follow from the spec, and every other write carries the resourceVersion that it was
//! planned on. So a write with an unknown outcome is planned again by the next sync, which waits until the caches show all
//! earlier writes ([`PendingWrites`](steersman_manager::cache::PendingWrites)).
//!
//! A sync observes the caches, then runs `plan::plan` (pure), `act::act` (through `requests`, which has all writes), and
//! writes the `status`.

mod act;
mod child;
mod controller;
mod deletion_policy;
pub mod desired;
mod drift;
mod history;
mod managed_fields;
mod ownership;
mod plan;
mod reconcile;
mod requests;
mod status;
mod webhook;

pub use child::Service;
pub use controller::build;
pub use deletion_policy::FINALIZER;
pub use managed_fields::{DEFAULT_IMAGE_MANAGER, FIELD_MANAGER};
pub use reconcile::AppServiceReconciler;
pub use webhook::hooks;

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "appservice-controller";
