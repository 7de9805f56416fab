//! The controllers from outside, against an API in the same process.

mod determinism;
mod hollow_kubelet;
mod replicaset;
mod yielding;
