//! From what schemars says of a type to a structural schema, which is what a definition may hold.
//!
//! - References are replaced by what they refer to; a type that contains itself is not looked into.
//! - Null is no value: its type, and its alternative, are left out.
//! - Integers have a signed format, `int32` or `int64`: a server knows no other, and warns.
//! - Variants without fields become the values of a text.
//! - Comments flow: a break of a line in them is none.
//! - What tells nothing to a server is left out: titles, examples, defaults that are null or empty.
//!
//! What cannot be said in a structural schema stays as it is, for the server to refuse.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::upstream;

/// Where schemars refers to.
const DEFINITIONS: &str = "#/$defs/";
/// Rules of a field are added to those of its type.
const RULES: &str = "x-kubernetes-validations";
/// Anything goes.
const ANYTHING: &str = "x-kubernetes-preserve-unknown-fields";

/// What schemars says and no server wants to know.
const SILENT: [&str; 7] = [
    "$schema",
    "title",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

/// The structural schema of a type.
#[must_use]
pub fn of<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let root = generator.subschema_for::<T>().to_value();
    let mut definitions = generator.take_definitions(false);
    for (name, schema) in &mut definitions {
        upstream::amend(name, schema);
    }
    let mut types = Types {
        definitions,
        inside: Vec::new(),
    };
    types.structural(root)
}

struct Types {
    definitions: Map<String, Value>,
    /// The types that the one at hand is in.
    inside: Vec<String>,
}

impl Types {
    fn structural(&mut self, schema: Value) -> Value {
        let Value::Object(said) = schema else {
            return json!({ANYTHING: true});
        };
        let depth = self.inside.len();
        let mut said = self.inlined(said);
        said.retain(|key, _| !SILENT.contains(&key.as_str()));
        without_null(&mut said);
        values_of_variants(&mut said);
        sign(&mut said);
        if said.get("default").is_some_and(is_nothing) {
            said.remove("default");
        }
        if let Some(Value::String(comment)) = said.get_mut("description") {
            *comment = flowing(comment);
        }
        let fields = said.get_mut("properties").and_then(Value::as_object_mut);
        for (_, field) in fields.into_iter().flatten() {
            *field = self.structural(field.take());
        }
        if let Some(items) = said.get_mut("items") {
            *items = self.structural(items.take());
        }
        match said.get_mut("additionalProperties") {
            Some(values @ Value::Object(_)) => *values = self.structural(values.take()),
            // Unknown fields are dropped, or refused if the client asks for that: it is not for a schema to say.
            Some(Value::Bool(false)) => drop(said.remove("additionalProperties")),
            _ => {}
        }
        self.inside.truncate(depth);
        if said.is_empty() {
            said.insert(ANYTHING.to_owned(), true.into());
        }
        said.into()
    }

    /// With what it refers to in its place; what stands beside a reference counts more. It is then inside of these types.
    fn inlined(&mut self, mut said: Map<String, Value>) -> Map<String, Value> {
        while let Some(of) = referred(&mut said) {
            let base = match of {
                Referred::Schema(schema) => schema,
                Referred::Type(name) if self.inside.contains(&name) => {
                    json!({"type": "object", ANYTHING: true})
                }
                Referred::Type(name) => {
                    let schema = self.definitions.get(&name).cloned().unwrap_or_default();
                    self.inside.push(name);
                    schema
                }
            };
            if let Value::Object(base) = base {
                merge(&mut said, base);
            }
        }
        said
    }
}

/// What a schema refers to.
enum Referred {
    Type(String),
    Schema(Value),
}

/// Takes a reference out of a schema, or the only alternative that is not null.
fn referred(said: &mut Map<String, Value>) -> Option<Referred> {
    if let Some(Value::String(path)) = said.remove("$ref") {
        let name = path.strip_prefix(DEFINITIONS).unwrap_or(&path);
        return Some(Referred::Type(name.to_owned()));
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(alternatives)) = said.get_mut(key) else {
            continue;
        };
        // The alternatives of a schema that has a type of its own are limits on its values.
        alternatives.retain(|it| it["type"] != "null");
        let is_type = |it: &Value| it.get("$ref").is_some() || it.get("type").is_some();
        if let [only] = alternatives.as_mut_slice()
            && is_type(only)
        {
            let only = only.take();
            said.remove(key);
            return Some(Referred::Schema(only));
        }
    }
    None
}

fn merge(said: &mut Map<String, Value>, base: Map<String, Value>) {
    for (key, value) in base {
        match said.get_mut(&key) {
            Some(Value::Array(rules)) if key == RULES => {
                let own = std::mem::take(rules);
                rules.extend(value.as_array().cloned().unwrap_or_default());
                rules.extend(own);
            }
            Some(_) => {}
            None => drop(said.insert(key, value)),
        }
    }
}

fn without_null(said: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = said.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            said.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = said.get_mut("enum") {
        values.retain(|it| !it.is_null());
    }
}

/// Variants that have comments are alternatives to schemars, each with one value or several.
fn values_of_variants(said: &mut Map<String, Value>) {
    if let Some(only) = said.remove("const") {
        said.insert("enum".to_owned(), json!([only]));
    }
    let values = |variant: &Value| match (variant.get("const"), variant.get("enum")) {
        (Some(one @ Value::String(_)), None) => Some(vec![one.clone()]),
        (None, Some(Value::Array(several))) => Some(several.clone()),
        _ => None,
    };
    let Some(Value::Array(variants)) = said.get("oneOf") else {
        return;
    };
    let Some(values) = variants.iter().map(values).collect::<Option<Vec<_>>>() else {
        return;
    };
    said.remove("oneOf");
    said.insert("type".to_owned(), "string".into());
    said.insert("enum".to_owned(), values.concat().into());
}

/// A server knows the signed formats only; what they cannot hold is left to the limits.
fn sign(said: &mut Map<String, Value>) {
    let Some(format) = said.get("format").and_then(Value::as_str) else {
        return;
    };
    let (signed, most) = match format {
        "int8" | "int16" | "uint8" | "uint16" => ("int32", None),
        "uint32" => ("int64", Some(u32::MAX)),
        "int" | "uint" | "uint64" | "int128" | "uint128" => ("int64", None),
        _ => return,
    };
    said.insert("format".to_owned(), signed.into());
    if let Some(most) = most {
        said.entry("maximum").or_insert(most.into());
    }
}

/// A comment without the breaks of its lines; those of its paragraphs stay.
fn flowing(comment: &str) -> String {
    let paragraphs = comment.split("\n\n").map(|it| it.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn is_nothing(default: &Value) -> bool {
    match default {
        Value::Null => true,
        // Servers of 1.20 take it for null.
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
