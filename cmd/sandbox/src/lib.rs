//! A Kubernetes API in one process.

pub mod field;
pub mod resource;
