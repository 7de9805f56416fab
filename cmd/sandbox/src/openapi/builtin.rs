//! The schemas of the built-in types, in the terms of version 2: types, descriptions, and how fields merge.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::resource::Resource;
use crate::{fieldmanager, patch, registry, schema};

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(publish);

/// The schema of a built-in type.
pub(super) fn schema(name: &str) -> Option<&'static Value> {
    SCHEMAS.get(name)
}

/// The name of a built-in kind's type.
pub(super) fn type_name(api_version: &str, kind: &str) -> Option<&'static str> {
    schema::builtin(api_version, kind).map(schema::TypeRef::name)
}

/// The name of the type of lists of a kind.
pub(super) fn list_name(resource: &Resource) -> Option<String> {
    let name = type_name(&resource.api_version(), &resource.kind)?;
    let (package, _) = name.rsplit_once('.')?;
    Some(format!("{package}.{}", resource.list_kind))
}

/// A field of `apiVersion` or `kind`, as all kinds have it.
pub(super) fn type_field(name: &str) -> Value {
    let status = SCHEMAS.get(&format!("{META}.Status"));
    status.map_or(Value::Null, |status| status["properties"][name].clone())
}

fn publish() -> Map<String, Value> {
    let mut schemas: Map<String, Value> = schema::definitions()
        .into_iter()
        .map(|(name, definition)| {
            let schema = published(&name, definition);
            (name, schema)
        })
        .collect();
    schemas.insert(
        format!("{META}.Patch"),
        json!({"description": "A change of an object, in the format that its media type names.", "type": "object"}),
    );
    let gvk =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    if let Some(status) = schemas.get_mut(&format!("{META}.Status")) {
        status["x-kubernetes-group-version-kind"] = json!([gvk("", "v1", "Status")]);
    }
    for resource in registry::all() {
        let (group, version) = (&resource.group, &resource.version);
        let Some(name) = type_name(&resource.api_version(), &resource.kind) else {
            continue;
        };
        if let Some(schema) = schemas.get_mut(name) {
            mark_kind(schema, &gvk(group, version, &resource.kind));
        }
        if let Some(list) = list_name(&resource).filter(|_| !resource.is_review()) {
            let mut schema = list_schema(&resource.list_kind, &resource.kind, name, &schemas);
            mark_kind(&mut schema, &gvk(group, version, &resource.list_kind));
            schemas.insert(list, schema);
        }
    }
    for (api_version, group, kind) in [
        ("v1", "", "Binding"),
        ("autoscaling/v1", "autoscaling", "Scale"),
        ("policy/v1", "policy", "Eviction"),
        (
            "authentication.k8s.io/v1",
            "authentication.k8s.io",
            "TokenRequest",
        ),
    ] {
        let schema = type_name(api_version, kind).and_then(|name| schemas.get_mut(name));
        if let Some(schema) = schema {
            mark_kind(schema, &gvk(group, "v1", kind));
        }
    }
    schemas
}

/// A kind says which one it is. It need not have metadata, whatever its type says.
fn mark_kind(schema: &mut Value, gvk: &Value) {
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    if let Some(map) = schema.as_object_mut() {
        let required = map.get_mut("required").and_then(Value::as_array_mut);
        if required.is_some_and(|required| {
            required.retain(|name| name != "metadata");
            required.is_empty()
        }) {
            map.remove("required");
        }
    }
}

fn list_schema(list_kind: &str, kind: &str, item: &str, schemas: &Map<String, Value>) -> Value {
    let of_status = |field: &str| {
        let status = schemas.get(&format!("{META}.Status"));
        status.map_or(Value::Null, |status| status["properties"][field].clone())
    };
    json!({
        "description": format!("{list_kind} is a list of {kind}."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": of_status("apiVersion"),
            "items": {
                "description": format!("The objects of kind {kind}."),
                "type": "array",
                "items": {"$ref": format!("#/definitions/{item}")},
            },
            "kind": of_status("kind"),
            "metadata": of_status("metadata"),
        },
    })
}

/// A definition as version 2 has it.
fn published(name: &str, mut definition: Value) -> Value {
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            return json!({"description": definition["description"], "type": "string"});
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            return json!({
                "description": definition["description"],
                "type": "string",
                "format": "int-or-string",
            });
        }
        _ => {}
    }
    point_to_definitions(&mut definition);
    let short = schema::short_name(name);
    if fieldmanager::is_atomic(short) {
        definition["x-kubernetes-map-type"] = "atomic".into();
    }
    let properties = definition.get_mut("properties").and_then(Value::as_object_mut);
    for (field, schema) in properties.into_iter().flatten() {
        let (strategies, key) = patch::merge_rule(short, field);
        if !strategies.is_empty() {
            schema["x-kubernetes-patch-strategy"] = strategies.into();
        }
        if !key.is_empty() {
            schema["x-kubernetes-patch-merge-key"] = key.into();
        }
        if let Some((kind, keys)) =
            fieldmanager::list_type(short, field).filter(|_| schema["type"] == "array")
        {
            schema["x-kubernetes-list-type"] = kind.into();
            if !keys.is_empty() {
                schema["x-kubernetes-list-map-keys"] = keys.into();
            }
        }
    }
    definition
}

fn point_to_definitions(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                *reference = format!(
                    "#/definitions/{}",
                    reference.rsplit('/').next().unwrap_or_default()
                );
            }
            map.values_mut().for_each(point_to_definitions);
        }
        Value::Array(items) => items.iter_mut().for_each(point_to_definitions),
        _ => {}
    }
}
