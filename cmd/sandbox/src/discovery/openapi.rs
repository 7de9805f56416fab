//! `OpenAPI`, as far as clients need it to write objects: which operations there are, on which kind, with which query
//! parameters.
//!
//! `kubectl` looks for `fieldValidation` on the PATCH of a kind and, if it is there, leaves validation to the
//! server; without it, it would validate by itself against schemas that we do not have. Request bodies are left out
//! on purpose: a client that sees strategic merge patch among them computes patches by the schemas too, while without
//! them it takes the types it was built with.
//!
//! Version 3 is a document for each group and version, found through an index whose links carry a hash, by which
//! clients cache. Version 2 is all in one document, as JSON or as protobuf.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::resources::{of_version, subresources, verbs};
use crate::resource::Resource;

/// `/openapi/v3`: where the document of each group and version is.
#[must_use]
pub fn openapi_v3_index<R: Borrow<Resource>>(resources: &[R]) -> Value {
    let versions: BTreeSet<(&str, &str)> = resources.iter().map(Borrow::borrow).map(group_version).collect();
    let paths: Map<String, Value> = versions
        .into_iter()
        .filter_map(|(group, version)| {
            let document = openapi_v3_of(resources, group, version)?;
            let path = root(group, version);
            let url = format!("/openapi/v3/{path}?hash={}", hash(&document));
            Some((path, json!({"serverRelativeURL": url})))
        })
        .collect();
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1`, `/openapi/v3/apis/<group>/<version>`: the document of one version, if it is served.
#[must_use]
pub fn openapi_v3_of<R: Borrow<Resource>>(resources: &[R], group: &str, version: &str) -> Option<Value> {
    let served = of_version(resources, group, version);
    if served.is_empty() {
        return None;
    }
    let paths: Map<String, Value> = served
        .into_iter()
        .flat_map(|resource| paths(resource, parameter_v3))
        .collect();
    Some(json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": {}}}))
}

/// The hash in the link to a document: another one for another document.
///
/// FNV-1a: nobody gains anything by a collision here.
pub(super) fn hash(document: &Value) -> String {
    let text = document.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016X}")
}

/// `/openapi/v2`: everything in one document, for those who ask for JSON.
#[must_use]
pub fn openapi_v2<R: Borrow<Resource>>(resources: &[R]) -> Value {
    let resources = resources.iter().map(Borrow::borrow);
    let paths: Map<String, Value> = resources
        .flat_map(|resource| paths(resource, parameter_v2))
        .collect();
    json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": {}})
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.0"})
}

fn group_version(resource: &Resource) -> (&str, &str) {
    (&resource.group, &resource.version)
}

/// `api/v1` or `apis/<group>/<version>`.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// How a version of `OpenAPI` writes a parameter: its name, and `query` or `path`.
type Parameter = fn(&str, &str) -> Value;

fn parameter_v3(name: &str, place: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}})
}

fn parameter_v2(name: &str, place: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "type": "string"})
}

/// The paths of a resource and its subresources.
fn paths(resource: &Resource, parameter: Parameter) -> Vec<(String, Value)> {
    let (group, version) = group_version(resource);
    let root = root(group, version);
    let plural = &resource.plural;
    let own = [group, version, resource.kind.as_str()];
    let (base, mut in_path) = if resource.namespaced {
        (
            format!("/{root}/namespaces/{{namespace}}/{plural}"),
            vec!["namespace"],
        )
    } else {
        (format!("/{root}/{plural}"), vec![])
    };
    let item = |verbs: &[&str], gvk, in_path: &[&str]| {
        let methods = [
            ("create", "post"),
            ("delete", "delete"),
            ("get", "get"),
            ("patch", "patch"),
            ("update", "put"),
        ];
        let methods = methods
            .iter()
            .filter(|(verb, _)| verbs.contains(verb))
            .map(|(_, method)| *method);
        path_item(methods, gvk, in_path, parameter)
    };
    let mut paths = Vec::new();
    let mut on_collection = vec!["get", "post"];
    if verbs(resource).contains(&"deletecollection") {
        on_collection.push("delete");
    }
    paths.push((base.clone(), path_item(on_collection, own, &in_path, parameter)));
    if resource.namespaced {
        paths.push((
            format!("/{root}/{plural}"),
            path_item(["get"], own, &[], parameter),
        ));
    }
    in_path.push("name");
    paths.push((
        format!("{base}/{{name}}"),
        item(&["delete", "get", "patch", "update"], own, &in_path),
    ));
    for sub in subresources(resource) {
        let gvk = sub.kind.unwrap_or(own);
        paths.push((
            format!("{base}/{{name}}/{}", sub.name),
            item(sub.verbs, gvk, &in_path),
        ));
    }
    paths
}

/// The operations on one path.
fn path_item<'a>(
    methods: impl IntoIterator<Item = &'a str>,
    [group, version, kind]: [&str; 3],
    in_path: &[&str],
    parameter: Parameter,
) -> Value {
    let mut item = Map::new();
    for method in methods {
        let query: &[&str] = match method {
            "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
            "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
            "delete" => &[
                "dryRun",
                "gracePeriodSeconds",
                "orphanDependents",
                "propagationPolicy",
            ],
            _ => &[],
        };
        let operation = json!({
            "parameters": query.iter().map(|name| parameter(name, "query")).collect::<Vec<_>>(),
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": method,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        });
        item.insert(method.to_owned(), operation);
    }
    item.insert(
        "parameters".to_owned(),
        in_path.iter().map(|name| parameter(name, "path")).collect(),
    );
    Value::Object(item)
}
