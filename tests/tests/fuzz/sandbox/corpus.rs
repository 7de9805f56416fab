//! Valid objects and requests.

use std::sync::LazyLock;

use coxswain_controllers::api;
use coxswain_sandbox::{Builder, Env, Sandbox};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Objects by the plural name of their resource.
static OBJECTS: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("corpus.json")).expect("JSON"));
/// A CRD with rules, defaults and all sorts of lists.
static WIDGETS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../differential/kinds/widget_crd.json")).expect("JSON")
});
const CLUSTER_SCOPED: [&str; 5] = [
    "clusterroles",
    "customresourcedefinitions",
    "namespaces",
    "nodes",
    "validatingwebhookconfigurations",
];
pub const CRDS: &str = "customresourcedefinitions";

/// Returns the names of all resources.
pub fn resources() -> Vec<&'static str> {
    let objects = OBJECTS.as_object().into_iter().flat_map(serde_json::Map::keys);
    objects.map(String::as_str).chain([CRDS]).collect()
}

/// Returns the object of a resource.
pub fn object(resource: &str) -> Value {
    if resource == CRDS { WIDGETS.clone() } else { OBJECTS[resource].clone() }
}

/// Returns the path of a collection.
pub fn path(resource: &str) -> String {
    let object = object(resource);
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let namespace = if CLUSTER_SCOPED.contains(&resource) { "" } else { "namespaces/default/" };
    format!("{root}/{version}/{namespace}{resource}")
}

/// Returns a sandbox with all CRDs.
pub fn builder() -> Builder {
    let mut crds = api::crds();
    crds.push(WIDGETS.clone());
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    Sandbox::builder().env(Env::starting_at(start, 7)).crds(documents(crds))
}

/// Returns the objects of some resources as a YAML stream.
pub fn stream(resources: &[&str]) -> String {
    documents(resources.iter().map(|resource| object(resource)))
}

fn documents(values: impl IntoIterator<Item = Value>) -> String {
    values.into_iter().map(|value| format!("---\n{value}\n")).collect()
}

/// Patches of the objects, by the content type.
pub fn patches() -> [(&'static str, Value); 6] {
    [
        ("application/merge-patch+json", json!({"metadata": {"labels": {"app": null, "new": "x"}}, "spec": {"replicas": 5}})),
        ("application/strategic-merge-patch+json", json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"], "labels": {"$patch": "replace", "a": "b"}},
            "spec": {"replicas": 1, "$retainKeys": ["replicas"]},
        })),
        ("application/strategic-merge-patch+json", json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "log"}, {"name": "web"}],
            "containers": [{"name": "web", "image": "x", "env": [{"name": "A", "value": "c"}]}, {"name": "log", "$patch": "delete"}],
        }}}})),
        ("application/strategic-merge-patch+json", json!({"spec": {"containers": [{
            "name": "web", "$setElementOrder/ports": [{"containerPort": 80}], "ports": [{"containerPort": 80, "name": "x"}],
        }]}})),
        ("application/json-patch+json", json!([
            {"op": "test", "path": "/metadata/name", "value": "web"},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
            {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
            {"op": "move", "from": "/metadata/annotations/a", "path": "/metadata/annotations/c~1d"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "e"},
            {"op": "remove", "path": "/metadata/annotations"},
        ])),
        ("application/json-patch+json", json!([
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "n", "image": "i"}},
            {"op": "replace", "path": "/spec/containers/0/image", "value": "j"},
            {"op": "copy", "from": "/spec", "path": "/spec/free"},
            {"op": "copy", "from": "/spec", "path": "/spec/free/any"},
        ])),
    ]
}

/// Queries of writes and of lists.
pub const WRITE_QUERIES: [&str; 6] = [
    "",
    "",
    "fieldManager=a&force=true",
    "fieldManager=b",
    "fieldValidation=Strict",
    "fieldValidation=Ignore&dryRun=All",
];
pub const LIST_QUERIES: [&str; 10] = [
    "labelSelector=app=web",
    "labelSelector=app in (web,b),tier notin (x),!z,n>1",
    "fieldSelector=metadata.name=web,metadata.namespace!=x",
    "fieldSelector=status.phase=Running,spec.nodeName=",
    "limit=1&resourceVersion=0",
    "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTAsInN0YXJ0IjoiYSJ9",
    "resourceVersion=5&resourceVersionMatch=Exact",
    "watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1",
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "includeObject=Metadata&pretty=true",
];
pub const ACCEPTS: [&str; 6] = [
    "application/json",
    "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io;q=0.9",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf,application/yaml;q=0.1,text/*",
];
