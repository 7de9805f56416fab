//! The custom kinds: `AppService` and `AppReplicaSet`, their CRDs, defaults and validation.

pub mod app_replica_set;
pub mod app_service;
pub mod crd;

use serde_json::Value;

/// The API group of the custom kinds.
pub const GROUP: &str = "appcontroller.k8s.io";
/// The only version of the custom kinds.
pub const VERSION: &str = "v1alpha1";
/// The category that selects all custom kinds in `kubectl get`.
pub const CATEGORY: &str = "steersman";

/// Returns the CRDs of all custom kinds, ordered by name.
#[must_use]
pub fn crds() -> Vec<Value> {
    vec![app_replica_set::crd(), app_service::crd()]
}
