//! The controllers from outside, against an API in the same process.

mod determinism;
mod garbage_collector;
mod hollow_kubelet;
mod replicaset;
mod yielding;
