//! Admission webhooks: who is asked about a write before it is done, and what the answers do to it.
//!
//! A configuration is compiled once, when it is written ([`Compiled`]). Whether a hook is asked about a write is decided by its
//! rules, selectors and conditions ([`Hook::concerns`]); what it is asked is an `AdmissionReview` ([`Question`]); how it is
//! asked is one HTTPS request within a deadline ([`call`]); what it says is read with suspicion ([`Answer`]). All but the
//! request itself is pure, and nobody who asks holds a lock meanwhile.
//!
//! What the server does on its own account (the content of a namespace that goes away, the default objects of a new one) is
//! nobody's request, and nobody is asked about it.

mod answer;
mod call;
mod hook;
mod matches;
mod review;
mod trust;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

pub use answer::{Answer, Fault};
pub use call::ask;
pub use hook::{Compiled, Hook, Hooks};
pub use matches::{Surroundings, Write};
pub use review::{Question, body};

/// Where services are that webhooks are reached through: by `namespace/name:port`.
pub type Services = BTreeMap<String, SocketAddr>;

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// It, or a part of it, is replaced.
    Update,
    /// It is to go.
    Delete,
}

impl Operation {
    /// As rules name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// Group, version and kind of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Empty for core.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `Pod`.
    pub name: String,
}

/// Which configurations hold webhooks.
pub const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
/// The same of those that only say yes or no.
pub const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
