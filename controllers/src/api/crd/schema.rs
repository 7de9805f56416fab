//! Converts the output of schemars into a structural schema, as a CRD requires.
//!
//! - References are inlined; a recursive type becomes an object with unknown fields.
//! - The null type and the null alternative are dropped.
//! - Integer formats become `int32` or `int64`; the API server warns about others.
//! - Variants without fields become a string enum.
//! - Line breaks within a paragraph of a description become spaces.
//! - Titles, examples, and null or empty defaults are dropped.
//!
//! A construct that a structural schema cannot express is left for the API server to reject.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::upstream;

/// The prefix of references of schemars.
const REF_PREFIX: &str = "#/$defs/";
const VALIDATIONS: &str = "x-kubernetes-validations";
const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

/// Keywords that a structural schema does not allow or the API server ignores.
const DROPPED_KEYWORDS: [&str; 7] = [
    "$schema",
    "title",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

/// Returns the structural schema of a type.
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
        enclosing: Vec::new(),
    };
    types.structural(root)
}

struct Types {
    definitions: Map<String, Value>,
    /// The types that enclose the current schema.
    enclosing: Vec<String>,
}

impl Types {
    fn structural(&mut self, schema: Value) -> Value {
        let Value::Object(keywords) = schema else {
            return json!({PRESERVE_UNKNOWN: true});
        };
        let depth = self.enclosing.len();
        let mut keywords = self.inlined(keywords);
        keywords.retain(|key, _| !DROPPED_KEYWORDS.contains(&key.as_str()));
        remove_null(&mut keywords);
        merge_variants(&mut keywords);
        sign_format(&mut keywords);
        if keywords.get("default").is_some_and(is_empty) {
            keywords.remove("default");
        }
        if let Some(Value::String(comment)) = keywords.get_mut("description") {
            *comment = join_lines(comment);
        }
        let fields = keywords.get_mut("properties").and_then(Value::as_object_mut);
        for (_, field) in fields.into_iter().flatten() {
            *field = self.structural(field.take());
        }
        if let Some(items) = keywords.get_mut("items") {
            *items = self.structural(items.take());
        }
        match keywords.get_mut("additionalProperties") {
            Some(values @ Value::Object(_)) => *values = self.structural(values.take()),
            // Field validation of the request decides about unknown fields, not the schema.
            Some(Value::Bool(false)) => drop(keywords.remove("additionalProperties")),
            _ => {}
        }
        self.enclosing.truncate(depth);
        if keywords.is_empty() {
            keywords.insert(PRESERVE_UNKNOWN.to_owned(), true.into());
        }
        keywords.into()
    }

    /// Replaces references by the schemas they refer to, and records their types as enclosing. Keywords beside a
    /// reference take precedence.
    fn inlined(&mut self, mut keywords: Map<String, Value>) -> Map<String, Value> {
        while let Some(reference) = take_reference(&mut keywords) {
            let base = match reference {
                Reference::Schema(schema) => schema,
                Reference::Type(name) if self.enclosing.contains(&name) => {
                    json!({"type": "object", PRESERVE_UNKNOWN: true})
                }
                Reference::Type(name) => {
                    let schema = self.definitions.get(&name).cloned().unwrap_or_default();
                    self.enclosing.push(name);
                    schema
                }
            };
            if let Value::Object(base) = base {
                merge(&mut keywords, base);
            }
        }
        keywords
    }
}

enum Reference {
    Type(String),
    Schema(Value),
}

/// Removes and returns the reference of a schema, or its only alternative that is not null.
fn take_reference(keywords: &mut Map<String, Value>) -> Option<Reference> {
    if let Some(Value::String(path)) = keywords.remove("$ref") {
        let name = path.strip_prefix(REF_PREFIX).unwrap_or(&path);
        return Some(Reference::Type(name.to_owned()));
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(alternatives)) = keywords.get_mut(key) else {
            continue;
        };
        // An alternative without a type is a limit on the values.
        alternatives.retain(|it| it["type"] != "null");
        let is_type = |it: &Value| it.get("$ref").is_some() || it.get("type").is_some();
        if let [only] = alternatives.as_mut_slice()
            && is_type(only)
        {
            let only = only.take();
            keywords.remove(key);
            return Some(Reference::Schema(only));
        }
    }
    None
}

/// Adds the keywords of `base`. Rules are concatenated, those of the base first.
fn merge(keywords: &mut Map<String, Value>, base: Map<String, Value>) {
    for (key, value) in base {
        match keywords.get_mut(&key) {
            Some(Value::Array(rules)) if key == VALIDATIONS => {
                let own = std::mem::take(rules);
                rules.extend(value.as_array().cloned().unwrap_or_default());
                rules.extend(own);
            }
            Some(_) => {}
            None => drop(keywords.insert(key, value)),
        }
    }
}

fn remove_null(keywords: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            keywords.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum") {
        values.retain(|it| !it.is_null());
    }
}

/// Turns the alternatives that schemars makes of variants with doc comments into one enum.
fn merge_variants(keywords: &mut Map<String, Value>) {
    if let Some(only) = keywords.remove("const") {
        keywords.insert("enum".to_owned(), json!([only]));
    }
    let values = |variant: &Value| match (variant.get("const"), variant.get("enum")) {
        (Some(one @ Value::String(_)), None) => Some(vec![one.clone()]),
        (None, Some(Value::Array(several))) => Some(several.clone()),
        _ => None,
    };
    let Some(Value::Array(variants)) = keywords.get("oneOf") else {
        return;
    };
    let Some(values) = variants.iter().map(values).collect::<Option<Vec<_>>>() else {
        return;
    };
    keywords.remove("oneOf");
    keywords.insert("type".to_owned(), "string".into());
    keywords.insert("enum".to_owned(), values.concat().into());
}

/// Replaces integer formats that the API server does not know. A format without a signed counterpart that fits gets a
/// maximum.
fn sign_format(keywords: &mut Map<String, Value>) {
    let Some(format) = keywords.get("format").and_then(Value::as_str) else {
        return;
    };
    let (signed, most) = match format {
        "int8" | "int16" | "uint8" | "uint16" => ("int32", None),
        "uint32" => ("int64", Some(u32::MAX)),
        "int" | "uint" | "uint64" | "int128" | "uint128" => ("int64", None),
        _ => return,
    };
    keywords.insert("format".to_owned(), signed.into());
    if let Some(most) = most {
        keywords.entry("maximum").or_insert(most.into());
    }
}

/// Joins the lines of each paragraph.
fn join_lines(comment: &str) -> String {
    let paragraphs = comment.split("\n\n").map(|it| it.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn is_empty(default: &Value) -> bool {
    match default {
        Value::Null => true,
        // API servers of 1.20 treat it as null.
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
