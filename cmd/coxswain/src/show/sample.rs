//! The application that a sandbox begins with.

use coxswain_manager::object::Resource;
use serde_json::{Value, json};

/// The kind of it.
pub(crate) const APP_SERVICES: Resource =
    Resource::namespaced("appcontroller.k8s.io", "v1alpha1", "appservices", "AppService");
/// Where it is.
pub(crate) const NAMESPACE: &str = "default";
/// What it is called.
pub(crate) const NAME: &str = "hello";

/// The application: two pods, and a Service that leads to them.
pub(crate) fn sample() -> Value {
    json!({
        "apiVersion": "appcontroller.k8s.io/v1alpha1",
        "kind": "AppService",
        "metadata": {"name": NAME},
        "spec": {"deploymentName": NAME, "replicas": 2, "image": "nginx", "ports": [{"port": 80}]},
    })
}
