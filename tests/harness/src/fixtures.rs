//! Minimal valid objects and their paths. [`with`] adds the fields of a test.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Cluster, time};

/// The content type of a JSON patch (RFC 6902).
pub const JSON_PATCH: &str = "application/json-patch+json";
/// The content type of a merge patch (RFC 7396).
pub const MERGE: &str = "application/merge-patch+json";
/// The content type of a strategic merge patch.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The path of a resource of the core group, such as `pods`.
pub fn core(ns: &str, resource: &str) -> String {
    format!("/api/v1/namespaces/{ns}/{resource}")
}

/// The path of a resource of another group: `group("apps/v1", &ns, "deployments")`.
pub fn group(version: &str, ns: &str, resource: &str) -> String {
    format!("/apis/{version}/namespaces/{ns}/{resource}")
}

/// The path of a resource of apps/v1.
pub fn apps(ns: &str, resource: &str) -> String {
    group("apps/v1", ns, resource)
}

/// The path of leases.
pub fn leases(ns: &str) -> String {
    group("coordination.k8s.io/v1", ns, "leases")
}

/// `base` changed by a merge patch: objects are merged, `null` removes, all else replaces.
pub fn with(mut base: Value, change: Value) -> Value {
    merge(&mut base, change);
    base
}

fn merge(base: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *base = change;
        return;
    };
    if !base.is_object() {
        *base = json!({});
    }
    let Some(base) = base.as_object_mut() else { return };
    for (key, value) in change {
        if value.is_null() {
            base.remove(&key);
        } else {
            merge(base.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// An object of one field, for [`with`].
pub fn field(name: &str, value: Value) -> Value {
    Value::Object([(name.to_owned(), value)].into_iter().collect())
}

/// An object with type and name only.
pub fn named(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

/// With `data: {"k": "v"}`.
pub fn config_map(name: &str) -> Value {
    with(named("v1", "ConfigMap", name), json!({"data": {"k": "v"}}))
}

/// One container `c` of image `i`.
pub fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

/// A pod of [`pod_spec`] with the label `app: a`.
pub fn pod(name: &str) -> Value {
    let change = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()});
    with(named("v1", "Pod", name), change)
}

/// A pod template of [`pod_spec`] with the label `app: a`.
pub fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()})
}

/// A Deployment, `ReplicaSet`, `StatefulSet` or `DaemonSet`: the selector `app: a` and the [`template`] it matches.
pub fn workload(kind: &str, name: &str) -> Value {
    let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template()});
    with(named("apps/v1", kind, name), json!({"spec": spec}))
}

/// See [`workload`].
pub fn deployment(name: &str) -> Value {
    workload("Deployment", name)
}

/// See [`workload`].
pub fn replica_set(name: &str) -> Value {
    workload("ReplicaSet", name)
}

/// Nothing but the [`template`].
pub fn replication_controller(name: &str) -> Value {
    let change = json!({"spec": {"template": template()}});
    with(named("v1", "ReplicationController", name), change)
}

/// A pod template of a job: no labels, `restartPolicy: Never`.
pub fn job_template() -> Value {
    json!({"spec": with(pod_spec(), json!({"restartPolicy": "Never"}))})
}

/// Nothing but the [`job_template`].
pub fn job(name: &str) -> Value {
    let change = json!({"spec": {"template": job_template()}});
    with(named("batch/v1", "Job", name), change)
}

/// Port 80 of the pods with `app: a`.
pub fn service(name: &str) -> Value {
    let spec = json!({"selector": {"app": "a"}, "ports": [{"port": 80}]});
    with(named("v1", "Service", name), json!({"spec": spec}))
}

/// A Lease without a holder.
pub fn lease(name: &str) -> Value {
    named("coordination.k8s.io/v1", "Lease", name)
}

/// A reference to an owner that may be absent.
pub fn owner(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid})
}

/// The path of all custom resource definitions.
pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of a namespaced kind `<Singular>` in `<singular>s.example.com`, of any content.
pub fn definition(singular: &str, subresources: &Value) -> Value {
    let (first, rest) = singular.split_at(1);
    let names = json!({"plural": format!("{singular}s"), "kind": format!("{}{rest}", first.to_uppercase())});
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "subresources": subresources, "schema": {"openAPIV3Schema": any},
    });
    let spec = json!({"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]});
    let name = format!("{singular}s.example.com");
    with(
        named("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name),
        json!({"spec": spec}),
    )
}

/// Creates a [`definition`] and waits until its resource is served; the name must be unique in the whole run, and
/// [`undefine`] removes it.
pub async fn define(c: &Cluster, singular: &str, subresources: &Value) {
    c.create(CRDS, definition(singular, subresources)).await;
    let path = format!("/apis/example.com/v1/{singular}s");
    let served = time::eventually(Duration::from_mins(1), async || {
        (c.api().get(&path).await.status == 200).then_some(())
    });
    assert!(served.await.is_some(), "{path} is not served");
}

/// Deletes a CRD and its custom resources.
pub async fn undefine(c: &Cluster, singular: &str) {
    c.delete(&format!("{CRDS}/{singular}s.example.com")).await;
}
