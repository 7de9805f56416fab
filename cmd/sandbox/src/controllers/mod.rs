//! The controllers that the API itself depends on: the namespace controller, the establishing controller of CRDs, the
//! service account controller with the root CA publisher, and the cluster role aggregation controller.
//!
//! Each runs within the request that changes its objects, so that its work is done when the response arrives. A test
//! may [delay](crate::Builder::delayed) one and run its rounds itself with [`Sandbox::step`](crate::Sandbox::step).

mod bootstrap;
mod namespace_deletion;
pub(crate) mod role_aggregation;
mod service_accounts;

use std::sync::Arc;

use crate::endpoints::Api;
use crate::json::{Value, json};
use crate::meta;
use crate::registry::json::list;
use crate::storage::Object;

/// A controller that runs within the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InternalController {
    /// Deletes the content of terminating namespaces, then removes the finalizer `kubernetes` from their spec.
    NamespaceDeletion,
    /// Accepts the names of CRDs and establishes them: their resources are served from then on.
    CrdEstablishing,
    /// Creates the `ServiceAccount` `default` and the `ConfigMap` `kube-root-ca.crt` of every namespace.
    NamespaceDefaults,
    /// Writes the rules of `ClusterRoles` that have an `aggregationRule`.
    RoleAggregation,
}

impl Api {
    /// Returns the present objects of a collection whose keys start with `prefix`.
    pub(crate) fn objects(&self, collection: &str, prefix: &str) -> Vec<Arc<Object>> {
        let snapshot = self.store.snapshot(collection, prefix, None, None);
        snapshot.map(|snapshot| snapshot.objects).unwrap_or_default()
    }

    /// Reports whether a controller runs in steps only.
    pub(crate) fn is_delayed(&self, controller: InternalController) -> bool {
        self.delayed.contains(&controller)
    }

    /// Runs one round of a controller. Returns whether the round wrote anything.
    pub(crate) fn run_round(&self, controller: InternalController) -> bool {
        let before = self.store.revision();
        match controller {
            InternalController::NamespaceDeletion => self.delete_contents_once(),
            InternalController::CrdEstablishing => self.establish_all(),
            InternalController::NamespaceDefaults => self.create_all_namespace_defaults(),
            InternalController::RoleAggregation => self.aggregate_roles_once(),
        }
        self.store.revision() != before
    }
}

/// Sets a condition; its transition time changes only with its status.
pub(crate) fn set_condition(object: &mut Value, now: &str, [kind, status, reason, message]: [&str; 4]) {
    let mut conditions = list(&object["status"]["conditions"]).to_vec();
    let mut next = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(present) => {
            if present["status"] == status {
                next["lastTransitionTime"] = present["lastTransitionTime"].clone();
            }
            *present = next;
        }
        None => conditions.push(next),
    }
    meta::set_path(object, "status.conditions", conditions.into());
}
