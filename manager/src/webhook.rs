//! Admission webhooks: an HTTPS port on which the API server asks whether, and how, an object may be written.
//!
//! - [`Hooks`]: a mutating hook changes an object, a validating one says whether it may be. One that panics or hangs
//!   has not judged: the API server then does what the failure policy of the webhook says.
//! - [`Certificates`]: the user's own, or one that the leader makes. That is kept in one Secret, renewed after two thirds of its
//!   life, loaded by every replica as soon as it changes, and verified by the `caBundle` that the leader puts into the
//!   configurations. At no time does a replica serve what these do not verify.
//! - [`Server`]: the port.
//! - A webhook is a convenience: who writes a controller must not rely on what it has refused. Objects are older than
//!   webhooks, and there are ways around them.
//!
//! Whoever can reach the port can ask, and learns what a hook says of what they sent: a hook says nothing that its caller does
//! not know. Sizes, times and numbers are bounded.
//!
//! ```
//! # use std::future::ready;
//! use coxswain_manager::client::Cause;
//! use coxswain_manager::object::Resource;
//! use coxswain_manager::webhook::{Hooks, Operation, Denial};
//! use serde_json::json;
//!
//! const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");
//!
//! let hooks = Hooks::new()
//!     .mutating(&BOATS, |request| {
//!         let mut patch = Vec::new();
//!         if request.object["spec"]["oars"].is_null() {
//!             patch.push(json!({"op": "add", "path": "/spec/oars", "value": 8}));
//!         }
//!         ready(Ok(patch))
//!     })
//!     .validating(&BOATS, |request| {
//!         if request.operation != Operation::Delete && request.object["spec"]["oars"] == 0 {
//!             let cause = Cause {
//!                 reason: "FieldValueInvalid".to_owned(),
//!                 message: "a boat has oars".to_owned(),
//!                 field: "spec.oars".to_owned(),
//!             };
//!             return ready(Err(Denial::invalid("Boat", &request.name, vec![cause])));
//!         }
//!         ready(Ok(Vec::new()))
//!     });
//! # let _ = hooks;
//! ```

mod certificates;
mod hooks;
mod metrics;
mod review;
mod server;
mod site;
#[cfg(test)]
mod tests;

pub use certificates::{Certificates, InvalidServiceName, ServiceName, Source};
pub use hooks::{Denial, Hooks, mutating_path, validating_path};
pub use review::{AdmissionRequest, GroupVersionKind, Operation};
pub use server::{Server, WebhookError};
