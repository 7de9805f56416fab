//! Admission plugins: the checks and changes between a decoded request and its write.
//!
//! Mirrors the plugins `NamespaceLifecycle`, `OwnerReferencesPermissionEnforcement`, `Priority`, `ResourceQuota`,
//! `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`.

pub(crate) mod dispatcher;
pub(crate) mod namespace_lifecycle;
pub(crate) mod owner_references;
pub(crate) mod priority;
pub(crate) mod quota;
pub(crate) mod service_account;
pub(crate) mod webhook;
