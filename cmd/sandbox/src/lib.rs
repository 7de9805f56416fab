//! A Kubernetes API in one process.

pub mod field;
pub mod patch;
pub mod resource;
pub mod schema;
