//! Valid objects and requests.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use steersman_controllers::api;
use steersman_sandbox::{Builder, Env, Sandbox};

/// Objects by the plural name of their resource.
static OBJECTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("corpus.json")).expect("JSON"));
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
    if resource == CRDS {
        WIDGETS.clone()
    } else {
        OBJECTS[resource].clone()
    }
}

/// Returns the path of a collection.
pub fn path(resource: &str) -> String {
    let object = object(resource);
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let namespace = if CLUSTER_SCOPED.contains(&resource) {
        ""
    } else {
        "namespaces/default/"
    };
    format!("{root}/{version}/{namespace}{resource}")
}

/// Returns a sandbox with all CRDs.
pub fn builder() -> Builder {
    let mut crds = api::crds();
    crds.push(WIDGETS.clone());
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    Sandbox::builder()
        .env(Env::starting_at(start, 7))
        .crds(documents(crds))
}

/// Returns the objects of some resources as a YAML stream.
pub fn stream(resources: &[&str]) -> String {
    documents(resources.iter().map(|resource| object(resource)))
}

fn documents(values: impl IntoIterator<Item = Value>) -> String {
    values.into_iter().fold(String::new(), |stream, value| {
        stream + "---\n" + &value.to_string() + "\n"
    })
}

/// Requests of the corpus.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// Content types and bodies.
    pub patches: Vec<(String, Value)>,
    /// Paths and bodies.
    pub subresources: Vec<(String, Value)>,
    pub delete: Value,
    /// YAML that is not JSON: anchors, merges, block scalars, octal numbers.
    pub yaml: String,
    pub write_queries: Vec<String>,
    pub list_queries: Vec<String>,
    pub accepts: Vec<String>,
}

pub static REQUESTS: LazyLock<Requests> =
    LazyLock::new(|| serde_json::from_str(include_str!("requests.json")).expect("requests"));
