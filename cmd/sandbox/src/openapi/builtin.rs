//! The schemas of built-in types in `OpenAPI` version 2: types and merge rules, without descriptions.

use std::sync::LazyLock;

use crate::generated;
use crate::json::{Map, Value, json};
use crate::openapi::Version;
use crate::resource::Resource;
use crate::schema;

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

static SCHEMAS: LazyLock<Map> = LazyLock::new(|| {
    let types = generated::types().values();
    types.map(|ty| (ty.name.to_owned(), published(ty))).collect()
});

/// Returns the schema of a built-in type.
pub(super) fn schema(name: &str) -> Option<&'static Value> {
    SCHEMAS.get(name)
}

/// Returns the type name of a built-in kind.
pub(super) fn type_name(api_version: &str, kind: &str) -> Option<&'static str> {
    schema::builtin(api_version, kind).map(schema::TypeRef::name)
}

/// Returns the type name of the list of a kind.
pub(super) fn list_name(resource: &Resource) -> Option<String> {
    type_name(&resource.api_version(), &resource.list_kind).map(str::to_owned)
}

fn published(ty: &generated::Type) -> Value {
    if let Some(alias) = ty.alias {
        return place(alias);
    }
    let mut schema = json!({"type": "object"});
    let required: Vec<&str> = ty.fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    let properties: Map = ty
        .fields
        .iter()
        .map(|f| (f.name.to_owned(), property(f)))
        .collect();
    schema["properties"] = properties.into();
    if let Some([group, version, kind]) = ty.kind {
        let gvk = json!({"group": group, "version": version, "kind": kind});
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    }
    if ty.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

fn property(field: &generated::Field) -> Value {
    let mut schema = place(field.ty);
    let mut set = |key: &str, value: Value| schema[key] = value;
    if !field.merge_type.is_empty() {
        let of_list = field.ty.starts_with("[]");
        let key = if of_list {
            "x-kubernetes-list-type"
        } else {
            "x-kubernetes-map-type"
        };
        set(key, field.merge_type.into());
    }
    if !field.map_keys.is_empty() {
        set("x-kubernetes-list-map-keys", json!(field.map_keys));
    }
    if !field.patch_strategy.is_empty() {
        set("x-kubernetes-patch-strategy", field.patch_strategy.into());
    }
    if !field.patch_merge_key.is_empty() {
        set("x-kubernetes-patch-merge-key", field.patch_merge_key.into());
    }
    if let Some(default) = field.default.and_then(|text| serde_json::from_str(text).ok()) {
        set("default", default);
    }
    schema
}

/// Parses the type notation of the generated data into a schema.
fn place(text: &str) -> Value {
    if let Some(item) = text.strip_prefix("[]") {
        return json!({"type": "array", "items": place(item)});
    }
    if let Some(value) = text.strip_prefix("{}") {
        return json!({"type": "object", "additionalProperties": place(value)});
    }
    match text {
        "string" | "boolean" | "object" => json!({"type": text}),
        "quantity" => json!({"type": "string"}),
        "bytes" => json!({"type": "string", "format": "byte"}),
        "int-or-string" => json!({"type": "string", "format": text}),
        "time" | "micro-time" => json!({"type": "string", "format": "date-time"}),
        "int32" | "int64" => json!({"type": "integer", "format": text}),
        "number" => json!({"type": "number", "format": "double"}),
        // Version 2 does not support alternatives.
        name => generated::types().get(name).map_or_else(
            || json!({}),
            |ty| json!({"$ref": format!("#/definitions/{}", ty.name)}),
        ),
    }
}

/// Translates a schema to version 3, where a reference cannot have siblings: `allOf` wraps the reference.
pub(super) fn to_v3(name: &str, schema: &Value) -> Value {
    let either = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => json!([{"type": "string"}, {"type": "number"}]),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => json!([{"type": "integer"}, {"type": "string"}]),
        _ => return walk_v3(schema),
    };
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut() {
        map.remove("type");
        map.insert("oneOf", either);
    }
    schema
}

fn walk_v3(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut out: Map = map
                .iter()
                .map(|(key, below)| (key.clone(), walk_v3(below)))
                .collect();
            // The reference of a field is wrapped in `allOf` even without siblings.
            for (_, field) in out
                .get_mut("properties")
                .and_then(Value::as_object_mut)
                .into_iter()
                .flatten()
            {
                if field.get("$ref").is_some() {
                    *field = json!({"allOf": [field.take()]});
                }
            }
            if let Some(Value::String(reference)) = out.get("$ref") {
                let name = reference.rsplit('/').next().unwrap_or_default().to_owned();
                let reference = Version::V3.reference(&name);
                if out.len() == 1 {
                    return reference;
                }
                out.remove("$ref");
                out.insert("allOf", json!([reference]));
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(walk_v3).collect(),
        other => other.clone(),
    }
}
