//! Schemas of custom resources: which ones a definition may have, and what they do to objects.

#![allow(
    clippy::needless_pass_by_value,
    reason = "a schema is written where it is used"
)]

mod defaulting;
mod embedded;
mod field_validation;
mod list_types;
mod pruning;
mod refused;
mod refused_rules;
mod rules;
mod validation;
mod versions;

use coxswain_tests::{Cluster, Test};
use serde_json::{Value, json};

use super::{Place, install};
use crate::expect;
use crate::support::with;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        defaulting::tests(),
        embedded::tests(),
        field_validation::tests(),
        list_types::tests(),
        pruning::tests(),
        refused::tests(),
        refused_rules::tests(),
        rules::tests(),
        validation::tests(),
        versions::tests(),
    ]
    .concat()
}

/// A definition of widgets whose one version has this schema.
fn crd_of(place: &Place, schema: Value) -> Value {
    with(
        place.crd(),
        "/spec/versions",
        json!([version_of("v1", true, schema)]),
    )
}

/// A served version with a schema.
fn version_of(name: &str, storage: bool, schema: Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

/// The schema of an object whose `spec` has this schema.
fn spec_of(spec: Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

/// The schema of an object with these fields.
fn object_of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// Widgets whose `spec` has this schema, installed, and their path.
async fn installed_with(c: &Cluster, spec: Value) -> (Place, String) {
    let place = Place::new(c).await;
    install(c, &crd_of(&place, spec_of(spec))).await;
    let path = place.widgets("v1");
    (place, path)
}

/// A widget with this spec.
fn widget(place: &Place, name: &str, spec: Value) -> Value {
    with(place.widget(name), "/spec", spec)
}

/// Asserts that widgets with these specs are refused for the causes beside them, and that none is there afterwards.
async fn refuses(c: &Cluster, place: &Place, path: &str, specs: Vec<(Value, Vec<&str>)>) {
    let bodies = specs
        .into_iter()
        .map(|(spec, causes)| (widget(place, "bad", spec), causes))
        .collect();
    expect::refuses(c, path, bodies).await;
}

/// Asserts that widgets with these specs are taken.
async fn takes(c: &Cluster, place: &Place, path: &str, specs: Vec<Value>) {
    for (n, spec) in specs.into_iter().enumerate() {
        let name = format!("good-{n}");
        c.api().post(path, widget(place, &name, spec)).await.expect(201);
    }
}
