//! From the JSON schemas that `k8s-openapi` carries to our own, smaller form.
//!
//! Descriptions are dropped here: they are published (see [`super::definitions`]), and nothing else.

use std::collections::BTreeMap;

use k8s_openapi::Resource;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use super::{Definition, Field, Schema, Type, short_name, zero};

/// Collects kinds, then compiles them and all that they refer to.
#[derive(Default)]
pub(super) struct Compiler {
    generator: SchemaGenerator,
    kinds: BTreeMap<(&'static str, &'static str), String>,
}

impl Compiler {
    /// Adds a kind.
    pub(super) fn kind<K: Resource + JsonSchema>(&mut self) {
        self.definition::<K>();
        self.kinds
            .insert((K::API_VERSION, K::KIND), K::schema_name().into_owned());
    }

    /// Adds a type that is no kind.
    pub(super) fn definition<T: JsonSchema>(&mut self) {
        self.generator.subschema_for::<T>();
    }

    /// All definitions as they were written, with their descriptions.
    pub(super) fn into_definitions(mut self) -> Map<String, Value> {
        self.generator.take_definitions(false)
    }

    pub(super) fn finish(mut self) -> Schema {
        let all = self.generator.take_definitions(false);
        let mut definitions = BTreeMap::new();
        for (name, schema) in &all {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                let definition = definition(name, schema, properties, &all);
                definitions.insert(name.clone(), definition);
            }
        }
        Schema {
            definitions,
            kinds: self.kinds,
        }
    }
}

fn definition(
    name: &str,
    schema: &Value,
    properties: &Map<String, Value>,
    all: &Map<String, Value>,
) -> Definition {
    let required: Vec<&str> = strings(schema.get("required"));
    let fields = properties
        .iter()
        .map(|(key, schema)| {
            let field = Field {
                ty: ty(schema, all),
                required: required.contains(&key.as_str()),
                keeps_zero: zero::is_kept(short_name(name), key),
            };
            (key.clone(), field)
        })
        .collect();
    Definition {
        name: name.to_owned(),
        fields,
    }
}

/// The type of one place. Types without properties of their own are resolved here, so that only objects stay by name.
fn ty(schema: &Value, all: &Map<String, Value>) -> Type {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    if let Some(reference) = text("$ref") {
        return referenced(reference.rsplit('/').next().unwrap_or_default(), all);
    }
    if let Some(any) = schema.get("oneOf").and_then(Value::as_array) {
        return Type::OneOf(any.iter().map(|one| ty(one, all)).collect());
    }
    let inner = |key: &str| schema.get(key).map_or(Type::Any, |inner| ty(inner, all));
    match (text("type"), text("format")) {
        (Some("object"), _) if schema.get("additionalProperties").is_some() => {
            Type::Map(Box::new(inner("additionalProperties")))
        }
        (Some("array"), _) => Type::List(Box::new(inner("items"))),
        (Some("string"), Some("byte")) => Type::Bytes,
        (Some("string"), _) => Type::String,
        (Some("integer"), Some("int32")) => Type::Int32,
        (Some("integer"), _) => Type::Int64,
        (Some("number"), _) => Type::Number,
        (Some("boolean"), _) => Type::Boolean,
        _ => Type::Any,
    }
}

fn referenced(name: &str, all: &Map<String, Value>) -> Type {
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Type::Quantity,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Type::IntOrString,
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Type::Time,
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Type::MicroTime,
        _ => match all.get(name) {
            Some(schema) if schema.get("properties").is_some() => Type::Object(name.to_owned()),
            Some(schema) => ty(schema, all),
            None => Type::Any,
        },
    }
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    let list = list.and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}
