//! A Kubernetes API in one process.
