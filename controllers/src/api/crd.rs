//! The custom kinds, as a cluster is told of them: a `CustomResourceDefinition` from Rust types.
//!
//! A kind has a type for its spec and one for its status, both with `#[derive(schemars::JsonSchema)]`, and a [`Custom`] that
//! says the rest; [`Custom::definition`] makes the definition of them, and [`all`] has those of every kind of ours.
//! [`yaml`] prints what `kubectl apply` takes. The manager never installs any of it on a cluster.
//!
//! What a type says, and what becomes of it ([`schema`] has the rules):
//! - the comment of a field of ours is its description; types of `k8s-openapi` come without theirs, as they would make a
//!   definition too large for `kubectl apply`;
//! - an `Option`, or a field with a default, is not required, and null is no value of it; say
//!   `#[schemars(extend("nullable" = true))]` where it is to be one. `#[serde(default = "one")]` is filled in by the server;
//!   an empty list, map or text as a default is not;
//! - `#[schemars(range(min = 0), length(max = 63), regex(pattern = "…"))]` and `#[schemars(inner(…))]` are limits;
//! - `#[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "…"}]))]` is a rule in CEL, on a
//!   field or a type. A list, map or text that a rule looks at needs a limit (`extend("maxProperties" = 64)` for a map), or
//!   the server fears for its time and refuses the definition. Rules on the name are [`Custom::rules`];
//! - `#[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]` is a list by keys;
//! - an enum of plain variants is a text with these values.

pub mod schema;
mod upstream;
pub mod yaml;

use coxswain_manager::object::Resource;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::CATEGORY;

/// The group is a protected one: its definitions have to say that nobody has approved them.
const APPROVAL: (&str, &str) = ("api-approved.kubernetes.io", "unapproved, experimental-only");

/// What a kind is called, and how it is served and shown.
#[derive(Clone, Debug)]
pub struct Custom {
    /// Where it is served.
    pub resource: Resource,
    /// What `kubectl` takes for its name.
    pub short_names: &'static [&'static str],
    /// What it is, for `kubectl explain`.
    pub about: &'static str,
    /// Whether it can be scaled: by `.spec.replicas`, `.status.replicas` and, as a text, `.status.selector`.
    pub scales: bool,
    /// What `kubectl get` shows, after the name.
    pub columns: &'static [Column],
    /// Rules on a whole object: of its metadata they see `name` and `generateName` only.
    pub rules: &'static [Rule],
}

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its header.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// Where it is found. Of several values the first is shown.
    pub path: &'static str,
    /// What it says.
    pub about: &'static str,
    /// Whether it is shown with `-o wide` only.
    pub wide: bool,
}

/// A rule in CEL.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// True of what is allowed.
    pub rule: &'static str,
    /// What is said if it is not.
    pub message: &'static str,
}

impl Custom {
    /// The definition, with what the types say of the spec and the status.
    #[must_use]
    pub fn definition<Spec: JsonSchema, Status: JsonSchema>(&self) -> Value {
        let Resource {
            group,
            version,
            plural,
            kind,
            namespaced,
        } = &self.resource;
        let mut subresources = json!({"status": {}});
        if self.scales {
            subresources["scale"] = json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            });
        }
        let columns: Vec<Value> = self.columns.iter().map(Column::written).collect();
        let (annotation, approval) = APPROVAL;
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "annotations": {annotation: approval}},
            "spec": {
                "group": group,
                "names": {
                    "kind": kind,
                    "listKind": format!("{kind}List"),
                    "plural": plural,
                    "singular": kind.to_lowercase(),
                    "shortNames": self.short_names,
                    "categories": [CATEGORY],
                },
                "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "schema": {"openAPIV3Schema": self.root::<Spec, Status>()},
                    "subresources": subresources,
                    "additionalPrinterColumns": columns,
                }],
            },
        })
    }

    fn root<Spec: JsonSchema, Status: JsonSchema>(&self) -> Value {
        let mut root = json!({
            "description": self.about,
            "type": "object",
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": schema::of::<Spec>(),
                "status": schema::of::<Status>(),
            },
        });
        if !self.rules.is_empty() {
            let rules: Vec<Value> = self.rules.iter().map(Rule::written).collect();
            root["x-kubernetes-validations"] = rules.into();
        }
        root
    }
}

impl Column {
    fn written(&self) -> Value {
        let mut column = Map::new();
        column.insert("name".to_owned(), self.name.into());
        column.insert("type".to_owned(), self.kind.into());
        column.insert("jsonPath".to_owned(), self.path.into());
        column.insert("description".to_owned(), self.about.into());
        if self.wide {
            column.insert("priority".to_owned(), 1.into());
        }
        column.into()
    }
}

impl Rule {
    fn written(&self) -> Value {
        json!({"rule": self.rule, "message": self.message})
    }
}

#[cfg(test)]
mod tests;
