//! Admission webhooks: an HTTPS server for the mutating and validating requests of the API server.
//!
//! - [`Hooks`]: the admission handlers. A mutating handler returns a JSON patch, a validating handler allows or denies. If
//!   a handler panics or times out, the server returns an error status, and the `failurePolicy` of the webhook applies.
//! - [`Certificates`]: the serving certificate, from files or issued by the leader. The leader stores it in one Secret,
//!   renews it after two thirds of its validity, and injects the `caBundle` into the webhook configurations. Every replica
//!   loads it when the Secret changes. A replica never serves a certificate that the injected `caBundle` does not verify.
//! - [`Server`]: the listener.
//!
//! Controllers must not rely on webhooks for validation: objects can predate a webhook or bypass it.
//!
//! Any client that can reach the port can send a review, so a handler must not reveal data that the request does not
//! contain. Body sizes, durations and concurrency are bounded.
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
mod conversion;
mod denial;
mod handler;
mod hooks;
mod metrics;
mod request;
mod review;
mod server;
#[cfg(test)]
mod tests;
mod typed;

pub use certificates::{Certificates, InvalidServiceName, ServiceCertificate, ServiceName, Source};
pub use conversion::{CONVERSION_PATH, Conversion, ConversionError, Convertible};
pub use denial::Denial;
pub use hooks::{Hooks, mutating_path, validating_path};
pub use request::{AdmissionRequest, GroupVersionKind, GroupVersionResource, Operation};
pub use server::{Server, WebhookError};
pub use typed::{Defaulter, Validator};
