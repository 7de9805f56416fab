//! `OpenAPI` documents, by which clients explain kinds, compute patches and choose the validation.

#![allow(
    clippy::needless_pass_by_value,
    reason = "a schema is written where it is used"
)]

mod custom;
mod documents;
mod kubectl;

use coxswain_tests::{Cluster, Test};
use serde_json::{Value, json};

use crate::support::soon;

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    [custom::tests(), documents::tests(), kubectl::tests()].concat()
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A CRD `widgets` with its own group.
struct Widgets {
    ns: String,
    group: String,
}

impl Widgets {
    async fn new(c: &Cluster) -> Self {
        let ns = c.namespace().await;
        let group = format!("{ns}.example.com");
        Self { ns, group }
    }

    fn crd(&self, versions: Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{}", self.group)},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": versions,
            },
        })
    }

    async fn install(&self, c: &Cluster, versions: Value) {
        c.create(CRDS, &self.crd(versions)).await;
    }

    fn document(&self, version: &str) -> String {
        format!("/openapi/v3/apis/{}/{version}", self.group)
    }

    /// Waits until the document exists and is `ready`.
    async fn when(&self, c: &Cluster, version: &str, ready: impl Fn(&Value) -> bool) -> Value {
        soon("the document is published", async || {
            let reply = c.api().get(&self.document(version)).await;
            (reply.status == 200 && !reply.body.is_empty())
                .then(|| reply.json())
                .filter(|document| ready(document))
        })
        .await
    }

    fn name(&self, version: &str, kind: &str) -> String {
        let group: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{version}.{kind}", group.join("."))
    }

    fn schema<'a>(&self, document: &'a Value, version: &str) -> &'a Value {
        &document["components"]["schemas"][self.name(version, "Widget")]
    }
}

fn version(name: &str, storage: bool, properties: Value) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": storage,
        "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        }},
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": "A widget is an example.",
            "properties": properties,
        }},
    })
}

fn properties() -> Value {
    json!({
        "spec": {
            "type": "object",
            "description": "spec is the desired state.",
            "required": ["size"],
            "properties": {
                "size": {"type": "string", "description": "size is the size class.", "enum": ["small", "large"], "default": "small"},
                "replicas": {"type": "integer", "format": "int32", "minimum": 0},
                "port": {"x-kubernetes-int-or-string": true},
                "parts": {
                    "type": "array",
                    "description": "parts are the parts by name.",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "weight": {"type": "number", "nullable": true}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    })
}

/// The names of an operation's parameters.
fn parameters(operation: &Value) -> Vec<&str> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters
        .filter_map(|parameter| parameter["name"].as_str())
        .collect()
}

fn media_types(operation: &Value) -> Vec<String> {
    let content = operation["requestBody"]["content"].as_object();
    content
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect()
}
