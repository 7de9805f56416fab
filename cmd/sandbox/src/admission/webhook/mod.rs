//! Admission webhooks: the plugins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`.
//!
//! A written configuration is compiled once ([`ConfigurationCache`]). Rules, selectors and conditions select the webhooks of
//! a write ([`Webhook::matching_resource`]). Each gets an `AdmissionReview` in one HTTPS request ([`send`]); its
//! response is validated ([`ReviewResponse`]).
//!
//! Writes of the sandbox itself, such as those of a namespace deletion, are not reviewed.

mod client;
mod configuration;
mod matching;
mod response;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;

pub use client::send;
pub use configuration::{ConfigurationCache, Webhook, Webhooks};
pub use matching::Write;
pub use response::{ResponseError, ReviewResponse};

/// Addresses of services by `namespace/name:port`.
pub type Services = BTreeMap<String, SocketAddr>;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// Returns the name in rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The collection of mutating configurations.
pub const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
/// The collection of validating configurations.
pub const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
