//! The controllers of Steersman: one folder each, and the [`registry`] that adds them to a manager. Controllers that
//! kube-controller-manager runs too [yield](yielding) to it.
//!
//! A controller decides in a pure `plan` and acts in a thin executor. Caches, queues and leader election come from
//! `steersman-manager`.

pub mod api;
pub mod appservice;
pub mod deployment;
pub mod garbage_collector;
pub mod hollow_kubelet;
pub mod registry;
pub mod replicaset;
pub mod support;
pub mod yielding;
