//! Authorization: requests as attributes, the rules of roles, the RBAC authorizer, and the reviews that ask it.
//!
//! Mirrors the RBAC authorizer and the API group `authorization.k8s.io`.

pub(crate) mod attributes;
pub(crate) mod authorize;
pub(crate) mod escalation;
pub(crate) mod reviews;
pub(crate) mod rules;

pub use attributes::{Attributes, Audit, AuditRecord};
pub use rules::{Rule, describe, quoted, uncovered};
