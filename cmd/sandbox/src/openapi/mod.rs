//! The `OpenAPI` documents: operations, their kinds and parameters, and the fields of each kind.
//!
//! Clients use them to explain kinds, to detect server-side field validation, and to compute patches. Version 3 has one
//! document per group and version; the links in its index contain a hash, so that clients can cache the documents. Version
//! 2 is a single document, as JSON or protobuf.
//!
//! Schemas are built in version 2 and then translated. The schemas of custom resources are the exception, because version 2
//! cannot express all of version 3.

mod builtin;
mod custom;
mod paths;
mod swagger;

use std::borrow::Borrow;
use std::collections::BTreeSet;

pub use swagger::openapi_v2_protobuf;

use crate::discovery::resources::of_version;
use crate::json::{Map, Value, json};
use crate::resource::Resource;

/// The `OpenAPI` version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

impl Version {
    /// Returns the prefix of references to definitions.
    fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }

    fn reference(self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.prefix())})
    }
}

/// Returns the groups and versions that have a document.
#[must_use]
pub fn openapi_v3_paths<R: Borrow<Resource>>(resources: &[R]) -> BTreeSet<(&str, &str)> {
    let resources = resources.iter().map(Borrow::borrow);
    resources
        .map(|resource| (resource.group.as_str(), resource.version.as_str()))
        .collect()
}

/// Builds the index `/openapi/v3`, with the URL of each document and its hash.
#[must_use]
pub fn openapi_v3_index(hashes: impl IntoIterator<Item = (String, String)>) -> Value {
    let paths: Map = hashes
        .into_iter()
        .map(|(path, hash)| {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// Builds the document of one version, `/openapi/v3/api/v1` or `/openapi/v3/apis/<group>/<version>`, if it is served.
#[must_use]
pub fn openapi_v3_of<R: Borrow<Resource>>(resources: &[R], group: &str, version: &str) -> Option<Value> {
    let served = of_version(resources, group, version);
    if served.is_empty() {
        return None;
    }
    let custom = served.iter().all(|resource| resource.custom.is_some());
    let paths: Map = served
        .iter()
        .flat_map(|resource| paths::of(resource, Version::V3))
        .collect();
    Some(json!({
        "openapi": "3.0.0",
        "info": info(custom),
        "paths": paths,
        "components": {"schemas": schemas(&served, Version::V3)},
    }))
}

/// Builds the JSON document `/openapi/v2` of all resources.
#[must_use]
pub fn openapi_v2<R: Borrow<Resource>>(resources: &[R]) -> Value {
    let served: Vec<&Resource> = resources.iter().map(Borrow::borrow).collect();
    let paths: Map = served
        .iter()
        .flat_map(|resource| paths::of(resource, Version::V2))
        .collect();
    json!({
        "swagger": "2.0",
        "info": info(false),
        "paths": paths,
        "definitions": schemas(&served, Version::V2),
    })
}

/// Returns the schemas of resources, of their lists and subresources, and of all referenced types.
fn schemas(resources: &[&Resource], version: Version) -> Map {
    let mut wanted: BTreeSet<String> = paths::ALWAYS.iter().map(|&name| name.to_owned()).collect();
    let mut schemas = Map::new();
    for resource in resources {
        wanted.extend(paths::kinds(resource));
        if resource.custom.is_some() {
            schemas.extend(custom::schemas(resource, version));
        }
    }
    let mut open: Vec<String> = wanted.into_iter().collect();
    for schema in schemas.values() {
        references(schema, &mut open);
    }
    while let Some(name) = open.pop() {
        let Some(schema) = builtin::schema(&name).filter(|_| !schemas.contains_key(&name)) else {
            continue;
        };
        references(schema, &mut open);
        let schema = match version {
            Version::V2 => custom::to_v2(schema),
            Version::V3 => builtin::to_v3(&name, schema),
        };
        schemas.insert(name, schema);
    }
    schemas
}

/// Collects the names of the definitions that a schema references.
fn references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                names.extend(reference.rsplit('/').next().map(str::to_owned));
            }
            map.values().for_each(|below| references(below, names));
        }
        Value::Array(items) => items.iter().for_each(|below| references(below, names)),
        _ => {}
    }
}

fn info(custom: bool) -> Value {
    if custom {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        json!({"title": "Kubernetes", "version": "v1.36.0"})
    }
}

/// Returns the path of the document of a group and version: `api/v1` or `apis/<group>/<version>`.
#[must_use]
pub fn openapi_v3_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}
