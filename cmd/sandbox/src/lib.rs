//! A Kubernetes API in one process.

pub mod field;
pub mod kinds;
pub mod resource;
