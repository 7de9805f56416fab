//! Request bodies, and accessors of responses.
//!
//! The pods of Deployment `a` have the label `app: a` and the image `i:1`; each image is a revision.

use serde_json::{Value, json};
use steersman_harness::fixtures::{self, field, with};

pub use crate::replicaset::fixture::{UNMANAGED_NODE, condition, controller, counter_of, name, names, text};

/// An image whose pods never become Ready.
pub const BAD: &str = "i:404";
/// The revision, on a Deployment and on its `ReplicaSet`s.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The size of the Deployment, on its `ReplicaSet`s.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The size of the Deployment with its surge, on its `ReplicaSet`s.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// The label of a `ReplicaSet` and its pods.
pub const HASH: &str = "pod-template-hash";
/// The value that means no deadline or no limit.
pub const NEVER: u64 = 2_147_483_647;

/// Returns the body of a Deployment.
pub fn deployment(name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name});
    let spec = json!({
        "replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}},
    });
    with(
        with(fixtures::deployment(name), image("i:1")),
        json!({"spec": spec}),
    )
}

/// Returns the body of a `ReplicaSet` that matches the Deployment `of`, without a hash label.
pub fn replica_set(of: &str, name: &str, replicas: u32) -> Value {
    let labels = json!({"app": of});
    let change = json!({"kind": "ReplicaSet", "metadata": {"name": name, "labels": labels}});
    with(deployment(of, replicas), change)
}

/// Returns the patch to an image.
pub fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// Returns the patch to a rolling update with these limits: numbers or percentages.
pub fn steps(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    let rolling = json!({"maxSurge": surge.into(), "maxUnavailable": unavailable.into()});
    json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}})
}

/// Returns the patch to the Recreate strategy.
pub fn recreate() -> Value {
    json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})
}

/// Returns the patch to pods on [`UNMANAGED_NODE`].
pub fn elsewhere() -> Value {
    json!({"spec": {"template": {"spec": {"nodeName": UNMANAGED_NODE}}}})
}

/// Returns the patch of annotations.
pub fn annotated(annotations: Value) -> Value {
    field("metadata", field("annotations", annotations))
}

pub fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

pub fn image_of(pod: &Value) -> String {
    text(&pod["spec"]["containers"][0]["image"])
}

/// Returns an annotation, or an empty string.
pub fn annotation(object: &Value, key: &str) -> String {
    text(&object["metadata"]["annotations"][key])
}

pub fn revision(object: &Value) -> String {
    annotation(object, REVISION)
}

/// Returns the reason of a condition, or an empty string.
pub fn reason(object: &Value, kind: &str) -> String {
    condition(&object["status"], kind).map_or_else(String::new, |it| text(&it["reason"]))
}

/// Returns status, reason and message of a condition.
pub fn condition_fields(object: &Value, kind: &str) -> [String; 3] {
    let it = condition(&object["status"], kind).cloned().unwrap_or_default();
    ["status", "reason", "message"].map(|field| text(&it[field]))
}
