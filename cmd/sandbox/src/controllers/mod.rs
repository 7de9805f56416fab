//! The controllers that the API server itself depends on: namespace deletion, role aggregation, and the objects of every
//! namespace.

mod namespace_deletion;
pub(crate) mod role_aggregation;
mod service_accounts;
