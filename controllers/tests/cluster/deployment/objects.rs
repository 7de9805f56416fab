//! What is sent, and what is read of what comes back.
//!
//! A Deployment `a` has the pods with `app: a`, and its containers the image `i:1`; another image is another revision.

use coxswain_tests::fixtures::{self, field, with};
use serde_json::{Value, json};

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
/// A deadline, or a limit, that is none.
pub const NEVER: u64 = 2_147_483_647;

/// A Deployment of so many, to be created.
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

/// A `ReplicaSet` as a Deployment of that name would have it, but that it carries no hash, to be created.
pub fn replica_set(of: &str, name: &str, replicas: u32) -> Value {
    let labels = json!({"app": of});
    let change = json!({"kind": "ReplicaSet", "metadata": {"name": name, "labels": labels}});
    with(deployment(of, replicas), change)
}

/// The change to this image.
pub fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// The change to a rolling update in these steps: numbers or percentages.
pub fn steps(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    let rolling = json!({"maxSurge": surge.into(), "maxUnavailable": unavailable.into()});
    json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}})
}

/// The change to a strategy that ends all pods before it makes any.
pub fn recreate() -> Value {
    json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})
}

/// The change to pods on [`UNMANAGED_NODE`].
pub fn elsewhere() -> Value {
    json!({"spec": {"template": {"spec": {"nodeName": UNMANAGED_NODE}}}})
}

/// The change of annotations.
pub fn annotated(annotations: Value) -> Value {
    field("metadata", field("annotations", annotations))
}

/// The items of a list.
pub fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

/// The image of a pod or template.
pub fn image_of(pod: &Value) -> String {
    text(&pod["spec"]["containers"][0]["image"])
}

/// An annotation, or nothing.
pub fn annotation(object: &Value, key: &str) -> String {
    text(&object["metadata"]["annotations"][key])
}

/// The revision of a Deployment or `ReplicaSet`.
pub fn revision(object: &Value) -> String {
    annotation(object, REVISION)
}

/// The reason of a condition of an object, or nothing.
pub fn reason(object: &Value, kind: &str) -> String {
    condition(&object["status"], kind).map_or_else(String::new, |it| text(&it["reason"]))
}

/// What a condition of an object says: status, reason and message.
pub fn said(object: &Value, kind: &str) -> [String; 3] {
    let it = condition(&object["status"], kind).cloned().unwrap_or_default();
    ["status", "reason", "message"].map(|field| text(&it[field]))
}
