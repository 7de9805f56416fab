//! Tests of the controllers against an in-process API.

mod appservice;
mod deployment;
mod determinism;
mod fault_injector;
mod fixture;
mod garbage_collector;
mod garbage_collector_discovery;
mod hollow_kubelet;
mod managers;
mod randomized;
mod replicaset;
mod service_accounts;
mod together;
mod yielding;
