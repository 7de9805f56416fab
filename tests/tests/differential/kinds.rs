//! The kinds of the sequences: a minimal object of each, and its fields with the values that steps write.
//!
//! A file describes each kind. The server accepts the good values of a field in most states of an object. The bad ones are
//! unusual or invalid, and rarer.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use steersman_harness::{Cluster, fixtures, time};

/// A field and the values that steps write to it.
#[derive(Deserialize)]
pub struct Place {
    /// A JSON pointer.
    pub at: String,
    pub good: Vec<Value>,
    pub bad: Vec<Value>,
}

/// A kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    /// `/api/v1` or `/apis/<group>/<version>`.
    root: String,
    plural: String,
    api_version: String,
    #[serde(rename = "kind")]
    title: String,
    /// The required fields besides the name.
    rest: Value,
    pub places: Vec<Place>,
    /// Bodies of strategic merge patches with directives. Empty for a kind without such patches.
    pub directives: Vec<Place>,
    /// The fields of the status subresource.
    pub status: Vec<Place>,
    pub has_scale: bool,
}

/// All kinds, each with its weight.
pub fn all() -> Vec<(usize, Kind)> {
    let files = [
        (3, include_str!("kinds/config_map.json")),
        (4, include_str!("kinds/deployment.json")),
        (4, include_str!("kinds/pod.json")),
        (3, include_str!("kinds/service.json")),
        (6, include_str!("kinds/widget.json")),
    ];
    let kind = |(weight, text)| {
        let mut kind: Kind = serde_json::from_str(text).expect("a kind");
        let metadata = places(include_str!("kinds/metadata.json"));
        kind.places.splice(0..0, metadata);
        (weight, kind)
    };
    files.into_iter().map(kind).collect()
}

/// Reads a list of fields.
pub fn places(text: &str) -> Vec<Place> {
    serde_json::from_str(text).expect("fields")
}

impl Kind {
    pub fn name(&self) -> &str {
        &self.title
    }

    /// The path of the collection in a namespace.
    pub fn path(&self, ns: &str) -> String {
        format!("{}/namespaces/{ns}/{}", self.root, self.plural)
    }

    /// A minimal valid object.
    pub fn base(&self, name: &str) -> Value {
        fixtures::with(self.named(name), self.rest.clone())
    }

    /// Type and name only.
    pub fn named(&self, name: &str) -> Value {
        fixtures::named(&self.api_version, &self.title, name)
    }

    /// Whether its objects allocate from a small range, so that a sequence deletes them.
    pub fn is_scarce(&self) -> bool {
        self.title == "Service"
    }
}

/// Creates the CRD of the widgets and waits until it is served. Its schema uses all features.
pub async fn define_widgets(cluster: &Cluster, with_rules: bool) {
    let mut crd: Value = serde_json::from_str(include_str!("kinds/widget_crd.json")).expect("a CRD");
    if !with_rules {
        remove_rules(&mut crd);
    }
    cluster.api().post(fixtures::CRDS, crd).await.expect(201);
    let path = "/apis/differential.example.com/v1/widgets";
    let served = time::eventually(Duration::from_mins(1), async || {
        (cluster.api().get(path).await.status == 200).then_some(())
    });
    assert!(served.await.is_some(), "{path} is not served");
}

/// Removes the CEL rules from a schema, for servers without them.
fn remove_rules(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            map.values_mut().for_each(remove_rules);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_rules),
        _ => {}
    }
}
