//! Generates `CustomResourceDefinition`s from Rust types.
//!
//! A kind has a spec type and a status type, both with `#[derive(schemars::JsonSchema)]`, and a [`CustomKind`] with the
//! rest. [`yaml`] prints the result for `kubectl apply`; the manager never installs a CRD.
//!
//! Conventions for the types ([`schema`] has the conversion rules):
//! - The doc comment of a field becomes its description. Types of `k8s-openapi` lose theirs: the CRD would be too large
//!   for `kubectl apply`.
//! - An `Option` or a field with a default is optional and not nullable; `#[schemars(extend("nullable" = true))]` makes
//!   it nullable. `#[serde(default = "one")]` becomes a default in the schema, unless the default is an empty list, map
//!   or string.
//! - `#[schemars(range(min = 0), length(max = 63), regex(pattern = "…"))]` and `#[schemars(inner(…))]` set limits.
//! - `#[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "…"}]))]` on a field or a
//!   type is a CEL rule. A list, map or string that a rule reads needs a limit (`extend("maxProperties" = 64)` for a
//!   map), or the API server rejects the CRD because of the estimated cost. Rules on the name belong into
//!   [`CustomKind::rules`].
//! - `#[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]` makes a list map.
//! - An enum without fields becomes a string enum.

pub mod schema;
mod upstream;
pub mod yaml;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use steersman_manager::object::Resource;

use super::CATEGORY;

/// `*.k8s.io` is a protected group: its CRDs must say that they are unapproved.
const APPROVAL: (&str, &str) = ("api-approved.kubernetes.io", "unapproved, experimental-only");

/// A custom kind, apart from its schema.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct CustomKind {
    pub resource: Resource,
    pub short_names: &'static [&'static str],
    pub description: &'static str,
    /// Adds the scale subresource on `.spec.replicas`, `.status.replicas` and `.status.selector`.
    pub has_scale: bool,
    /// The columns of `kubectl get` after the name.
    pub columns: &'static [Column],
    /// Rules on the whole object. Of the metadata they can read `name` and `generateName` only.
    pub rules: &'static [Rule],
}

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: &'static str,
    /// If the path matches several values, the first is shown.
    pub json_path: &'static str,
    pub description: &'static str,
    /// Shown with `-o wide` only.
    pub wide: bool,
}

/// A CEL validation rule.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct Rule {
    /// Evaluates to true for a valid object.
    pub rule: &'static str,
    pub message: &'static str,
}

impl CustomKind {
    /// Returns the CRD with these types of spec and status.
    #[must_use]
    pub fn crd<Spec: JsonSchema, Status: JsonSchema>(&self) -> Value {
        let Resource {
            group,
            version,
            plural,
            kind,
            namespaced,
        } = &self.resource;
        let mut subresources = json!({"status": {}});
        if self.has_scale {
            subresources["scale"] = json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            });
        }
        let columns: Vec<Value> = self.columns.iter().copied().map(Column::to_json).collect();
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
            "description": self.description,
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
            let rules: Vec<Value> = self.rules.iter().copied().map(Rule::to_json).collect();
            root["x-kubernetes-validations"] = rules.into();
        }
        root
    }
}

impl Column {
    fn to_json(self) -> Value {
        let mut column = Map::new();
        column.insert("name".to_owned(), self.name.into());
        column.insert("type".to_owned(), self.type_.into());
        column.insert("jsonPath".to_owned(), self.json_path.into());
        column.insert("description".to_owned(), self.description.into());
        if self.wide {
            column.insert("priority".to_owned(), 1.into());
        }
        column.into()
    }
}

impl Rule {
    fn to_json(self) -> Value {
        json!({"rule": self.rule, "message": self.message})
    }
}

#[cfg(test)]
mod tests;
