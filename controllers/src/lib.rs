//! The controllers that Coxswain hosts: one folder each, their [`names`], and the [`registry`] that
//! has a manager host them.
//!
//! A controller decides in a pure `plan` and acts in a thin executor; what it needs around it comes from
//! `coxswain-manager`.

pub mod hollow_kubelet;
pub mod names;
pub mod registry;
pub mod replicaset;
