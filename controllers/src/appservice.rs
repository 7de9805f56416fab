//! `AppServices`: an application of one container, kept running by a Deployment, and found by a Service if it has ports.
//!
//! What it promises:
//! - a Deployment or a Service that is not the `AppService`'s own ([`standing`]) is never touched, whatever its name: that
//!   is said by an event and a condition, and looked at again when it goes;
//! - its own ones are created by POST and changed by server-side apply ([`fields`]), in one apply for all fields and only if
//!   one differs ([`drift`]). Fields of other managers stay; a field that another manager has changed is not forced back, but
//!   reported in a condition that names the manager;
//! - an object whose annotation names the `AppService` is adopted ([`standing`]);
//! - another `deploymentName` makes another Deployment, and the one before goes when that one is available ([`former`]);
//! - with `deletionPolicy: Orphan` its children refer to nobody, and outlive it however it is deleted ([`policy`]);
//! - a status that has not changed is not written, and nothing that has come to be as it is wanted is written again.
//!
//! **Sent twice, done once.** Every child has a name that follows from the spec, and every other write names the version
//! that it was decided on. So a write whose answer was lost is simply decided again; and the next sync is put back until
//! the caches show what the last one has written ([`PendingWrites`](coxswain_manager::cache::PendingWrites)).
//!
//! The walk: [`AppService`] and its children from caches → [`plan::plan`], which is [`children`], [`drift`], [`former`] and
//! [`policy`] → `act` → [`status`]. All writes are in `act`.

mod act;
pub mod children;
pub mod drift;
pub mod fields;
pub mod former;
pub mod plan;
pub mod policy;
mod reconcile;
mod service;
pub mod standing;
pub mod status;
mod webhook;
mod work;

pub use reconcile::{Keeper, build};
pub use service::Service;
pub use webhook::hooks;

use crate::api::app_service::{APP_SERVICES, AppService};
use crate::support::{DEPLOYMENTS, SERVICES};

/// The controller's name. Stable, see [`crate::registry`].
pub const NAME: &str = "appservice-controller";
