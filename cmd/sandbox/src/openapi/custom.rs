//! The schemas of custom resources: the structural schema of the CRD with `apiVersion`, `kind` and `metadata`.

use crate::json::{Map, Value, json};
use crate::openapi::Version;
use crate::openapi::builtin::META;
use crate::resource::Resource;

/// Returns the schema name of a custom kind: `com.example.v1.Widget`.
pub(super) fn name(resource: &Resource, kind: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), resource.version)
}

/// Returns the schemas of a custom resource and of its list.
pub(super) fn schemas(resource: &Resource, version: Version) -> [(String, Value); 2] {
    let item = name(resource, &resource.kind);
    let gvk = |kind: &str| json!([{"group": resource.group, "version": resource.version, "kind": kind}]);
    let mut object = object(resource, version);
    object["x-kubernetes-group-version-kind"] = gvk(&resource.kind);
    let list_kind = &resource.list_kind;
    let mut list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": version.reference(&item)},
            "kind": {"type": "string"},
            "metadata": metadata(version, "ListMeta"),
        },
        "x-kubernetes-group-version-kind": gvk(list_kind),
    });
    let selectable = resource.custom.iter().flat_map(|custom| &custom.selectable);
    let selectable: Vec<Value> = selectable.map(|path| json!({"fieldPath": path})).collect();
    if !selectable.is_empty() {
        for schema in [&mut object, &mut list] {
            schema["x-kubernetes-selectable-fields"] = selectable.clone().into();
        }
    }
    [(item, object), (name(resource, list_kind), list)]
}

fn object(resource: &Resource, version: Version) -> Value {
    let unknown = json!({"type": "object"});
    let Some(schema) = resource
        .custom
        .as_ref()
        .and_then(|custom| custom.openapi.as_ref())
    else {
        return unknown;
    };
    let mut schema = match version {
        // Clients of version 2 reject unknown fields.
        Version::V2 if preserves(schema) => return unknown,
        Version::V2 => to_v2(schema),
        Version::V3 => unfold(schema),
    };
    embed(&mut schema, version);
    add_object_fields(&mut schema, version);
    schema
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn metadata(version: Version, kind: &str) -> Value {
    let reference = version.reference(&format!("{META}.{kind}"));
    match version {
        Version::V2 => reference,
        Version::V3 => json!({"allOf": [reference]}),
    }
}

fn add_object_fields(schema: &mut Value, version: Version) {
    set_property(schema, "apiVersion", json!({"type": "string"}));
    set_property(schema, "kind", json!({"type": "string"}));
    set_property(schema, "metadata", metadata(version, "ObjectMeta"));
}

fn set_property(schema: &mut Value, field: &str, place: Value) {
    if let Some(schema) = schema.as_object_mut() {
        let properties = schema.get_or_insert_with("properties", || json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert(field.to_owned(), place);
        }
    }
}

/// Adds `apiVersion`, `kind` and `metadata` to embedded resources.
fn embed(schema: &mut Value, version: Version) {
    for below in below_mut(schema) {
        embed(below, version);
    }
    if schema["x-kubernetes-embedded-resource"] != true || (version == Version::V2 && preserves(schema)) {
        return;
    }
    add_object_fields(schema, version);
    if let Some(schema) = schema.as_object_mut() {
        let required = schema.get_or_insert_with("required", || json!([]));
        if let Some(required) = required.as_array_mut() {
            for field in ["kind", "apiVersion"] {
                if !required.iter().any(|name| name == field) {
                    required.push(field.into());
                }
            }
        }
    }
}

/// Returns the child schemas: fields, items and additional properties.
fn below_mut(schema: &mut Value) -> Vec<&mut Value> {
    let mut below = Vec::new();
    for (key, value) in schema.as_object_mut().into_iter().flatten() {
        match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => below.extend(fields.values_mut()),
            ("items" | "additionalProperties", value @ Value::Object(_)) => below.push(value),
            _ => {}
        }
    }
    below
}

/// Expands `x-kubernetes-int-or-string` to `anyOf` integer and string.
fn unfold(schema: &Value) -> Value {
    let mut schema = schema.clone();
    unfold_here(&mut schema);
    schema
}

fn unfold_here(schema: &mut Value) {
    for below in below_mut(schema) {
        unfold_here(below);
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    if schema["x-kubernetes-int-or-string"] != true
        || schema["anyOf"] == either
        || schema["allOf"][0]["anyOf"] == either
    {
        return;
    }
    if schema["anyOf"].is_null() {
        schema["anyOf"] = either;
    } else if let Some(schema) = schema.as_object_mut() {
        let all = schema.get_or_insert_with("allOf", || json!([]));
        if let Some(all) = all.as_array_mut() {
            all.insert(0, json!({"anyOf": either}));
        }
    }
}

/// Returns the subset of a schema that version 2 can express and its clients accept. A nullable value, or one that
/// preserves unknown fields, accepts anything.
pub(super) fn to_v2(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else {
        return schema.clone();
    };
    let open = map.get("nullable") == Some(&json!(true)) || preserves(schema);
    let mut out = Map::new();
    for (key, value) in map {
        let value = match key.as_str() {
            "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default" => continue,
            "items" | "properties" if open => continue,
            "properties" => value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(field, schema)| (field.clone(), to_v2(schema)))
                .collect::<Map>()
                .into(),
            "items" | "additionalProperties" => to_v2(value),
            "required" => {
                let nullable = |field: &Value| {
                    let field = field.as_str().unwrap_or_default();
                    schema["properties"][field]["nullable"] == true
                };
                let required: Vec<&Value> = value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|field| !nullable(field))
                    .collect();
                if required.is_empty() {
                    continue;
                }
                json!(required)
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    let list_of_anything = out.get("type") == Some(&json!("array")) && !out.contains_key("items");
    if map.get("nullable") == Some(&json!(true))
        || list_of_anything
        || (preserves(schema) && out.get("type") == Some(&json!("object")))
    {
        out.remove("type");
    }
    Value::Object(out)
}
