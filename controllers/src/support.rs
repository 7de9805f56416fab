//! Code that more than one controller uses: projections of the objects they read, pod control, error classification,
//! per-object memory between syncs, and pod templates.

pub mod annotations;
pub mod deployment;
pub(crate) mod errors;
pub(crate) mod memory;
pub mod naming;
pub mod owner;
pub mod pod;
pub(crate) mod pod_control;
pub mod pod_template;
pub mod quantity;
pub(crate) mod requests;
pub mod template_hash;
pub mod write_backoff;

use steersman_manager::object::Resource;

pub(crate) const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
pub(crate) const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
pub(crate) const REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
pub(crate) const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");
