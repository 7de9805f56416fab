//! The API of a case, and the requests of its user.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_controllers::api::{self, crd};
use steersman_sandbox::{ApiService, Env, Sandbox};
use tower_service::Service as _;

use super::memory::{Outside, outside};

/// The wall time at the start of a case.
pub(super) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The path of the `ConfigMaps` of the default namespace.
pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The path of the pods of the default namespace.
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
/// The path of the `ReplicaSets` of the default namespace.
pub(super) const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// The path of all CRDs.
pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The policy of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

impl Policy {
    pub(super) const ALL: [Self; 3] = [Self::Background, Self::Foreground, Self::Orphan];
}

/// The sandbox with the CRDs of the product, without field managers.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) env: Env,
    service: ApiService,
}

impl Cluster {
    pub(super) fn start() -> Self {
        outside(|| {
            let env = Env::starting_at(START, 7);
            let sandbox = Sandbox::builder()
                .env(env.clone())
                .crds(crd::yaml::documents(&api::crds()))
                .managed_fields(false)
                .start()
                .expect("a sandbox with valid CRDs");
            Self {
                env,
                service: sandbox.service(),
            }
        })
    }

    /// Returns the API of the product, another one than that of the user.
    pub(super) fn service(&self) -> ApiService {
        self.service.clone()
    }

    /// Sends a request. Returns the code and the body; the body is outside of the product's memory and should be dropped there.
    async fn request(&self, method: Method, uri: &str, body: Option<&Value>) -> (u16, Value) {
        Outside::new(|| {
            let content_type = if method == Method::PATCH {
                "application/merge-patch+json"
            } else {
                "application/json"
            };
            let body = body.map(Value::to_string).unwrap_or_default();
            let request = Request::builder()
                .method(method)
                .uri(uri)
                .header("content-type", content_type)
                .body(Full::new(Bytes::from(body)))
                .expect("a valid request");
            let mut service = self.service.clone();
            async move {
                let Ok(response) = service.call(request).await;
                let code = response.status().as_u16();
                let Ok(body) = response.into_body().collect().await;
                (code, serde_json::from_slice(&body.to_bytes()).unwrap_or_default())
            }
        })
        .await
    }

    /// Creates an object under the path of its resource. Returns its uid.
    pub(super) async fn create(&self, resource: &str, make: impl FnOnce() -> Value) -> String {
        let object = outside(make);
        let (code, created) = self.request(Method::POST, resource, Some(&object)).await;
        assert_eq!(code, 201, "{resource}: {created}");
        outside(|| {
            let uid = created["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            drop((object, created));
            uid
        })
    }

    /// Creates a namespace.
    pub(super) async fn create_namespace(&self, name: &str) {
        let make = || json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", make).await;
    }

    /// Merges a change into an object.
    pub(super) async fn patch(&self, path: &str, change: &Value) {
        let (code, patched) = self.request(Method::PATCH, path, Some(change)).await;
        assert_eq!(code, 200, "{path}: {patched}");
        outside(|| drop(patched));
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, path: &str, policy: Policy) {
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": format!("{policy:?}"),
        });
        let (code, deleted) = self.request(Method::DELETE, path, Some(&options)).await;
        assert_eq!(code, 200, "{path}: {deleted}");
        outside(|| drop(deleted));
    }

    /// Returns an object; null if it does not exist.
    pub(super) async fn get(&self, path: &str) -> Value {
        let (code, object) = self.request(Method::GET, path, None).await;
        if code == 200 { object } else { Value::Null }
    }

    /// Whether a list has objects.
    pub(super) async fn has_items(&self, list: &str) -> bool {
        let (_, list) = self.request(Method::GET, list, None).await;
        outside(|| {
            let has_items = list["items"].as_array().is_some_and(|it| !it.is_empty());
            drop(list);
            has_items
        })
    }

    /// Whether an object exists.
    pub(super) async fn exists(&self, path: &str) -> bool {
        let (code, object) = self.request(Method::GET, path, None).await;
        outside(|| drop(object));
        code == 200
    }

    /// Returns the number of objects of a resource, without reading all of them.
    pub(super) async fn count(&self, resource: &str) -> u64 {
        let (_, list) = self
            .request(Method::GET, &format!("{resource}?limit=1"), None)
            .await;
        let first = list["items"].as_array().map_or(0, Vec::len) as u64;
        let remaining = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        outside(|| drop(list));
        first + remaining
    }
}

/// Returns a reference to an owner.
pub(super) fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true,
    }])
}

/// Returns a `ConfigMap` with these owners.
pub(super) fn map(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": owners},
    })
}

/// Returns the template of a pod with a label.
pub(super) fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]},
    })
}

/// Returns a `ReplicaSet`.
pub(super) fn replica_set(name: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    })
}
