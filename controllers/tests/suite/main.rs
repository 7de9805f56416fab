//! The controllers from outside, against an API in the same process.

mod appservice;
mod deployment;
mod determinism;
mod door;
mod garbage_collector;
mod garbage_collector_discovery;
mod ground;
mod hollow_kubelet;
mod managers;
mod replicaset;
mod weather;
mod yielding;
