//! Translation of the schemas of built-in types to each version of `OpenAPI`.

use serde_json::{Map, Value, json};

use crate::openapi::Version;

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
        map.insert("oneOf".to_owned(), either);
    }
    schema
}

fn walk_v3(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut out: Map<String, Value> = map
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
                out.insert("allOf".to_owned(), json!([reference]));
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(walk_v3).collect(),
        other => other.clone(),
    }
}

/// Translates a schema to version 2, which does not support alternatives: such a value accepts anything.
pub(super) fn to_v2(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let keep = |key: &str| !matches!(key, "allOf" | "anyOf" | "oneOf" | "not" | "default");
            map.iter()
                .filter(|(key, _)| keep(key))
                .map(|(key, below)| {
                    // Field names are not keywords.
                    let below = match below {
                        Value::Object(fields) if key == "properties" => fields
                            .iter()
                            .map(|(field, schema)| (field.clone(), to_v2(schema)))
                            .collect::<Map<_, _>>()
                            .into(),
                        below => to_v2(below),
                    };
                    (key.clone(), below)
                })
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(to_v2).collect(),
        other => other.clone(),
    }
}
