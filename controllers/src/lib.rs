//! The controllers that Coxswain hosts: one folder each, their [`names`], and the [`registry`] that
//! has a manager host them. Those that kube-controller-manager runs as well are [`yielding`] to it.
//!
//! A controller decides in a pure `plan` and acts in a thin executor; what it needs around it comes from
//! `coxswain-manager`.

pub mod appservice;
pub mod crd;
pub mod deployment;
pub mod garbage_collector;
pub mod hollow_kubelet;
mod memory;
pub mod names;
mod pace;
pub mod registry;
pub mod replicaset;
pub mod yielding;
