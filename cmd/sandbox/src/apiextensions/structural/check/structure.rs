//! The structure of a schema: types and fields are specified once, outside of the value validations.

use serde_json::{Map, Value, json};

use crate::apiextensions::structural::path::Path;
use crate::apiextensions::structural::pattern;
use crate::field::FieldError;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

const NESTED: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

/// Reports violations of the structural rules, in the order of the server's messages.
pub(crate) fn check(schema: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    place(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema[key] == true
}

fn said(value: &Value) -> bool {
    !value.is_null() && *value != false && *value != "" && *value != json!([])
}

fn place(schema: &Value, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let ty = schema["type"].as_str().unwrap_or_default();
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let additional = &schema["additionalProperties"];
    if schema["items"].is_object() {
        place(&schema["items"], Level::Item, &path.child("items"), errors);
    } else if ty == "array" {
        errors.push(FieldError::required(
            path.child("items").field(),
            "must be specified",
        ));
    }
    let properties = path.child("properties");
    for (name, field) in fields(schema) {
        place(field, Level::Field, &properties.key(name), errors);
    }
    let below = path.child("additionalProperties");
    if !additional.is_null() && level == Level::Root {
        errors.push(FieldError::forbidden(
            below.field(),
            "must not be used at the root",
        ));
    }
    if additional.is_object() {
        place(additional, Level::Field, &below, errors);
    }
    for (key, set) in [
        ("x-kubernetes-preserve-unknown-fields", preserve),
        ("x-kubernetes-embedded-resource", embedded),
    ] {
        if int_or_string && set {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(path.child(key).field(), true, why));
        }
    }
    values(schema, level == Level::Root, path, errors);

    let type_path = path.child("type");
    if embedded && ty != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if ty.is_empty() {
            FieldError::required(type_path.field(), why)
        } else {
            FieldError::invalid(type_path.field(), ty, why)
        });
    } else if ty.is_empty() && !int_or_string && !preserve {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(type_path.field(), why));
    }
    if embedded && !additional.is_null() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(below.field(), why));
    }
    if level == Level::Root && !ty.is_empty() && ty != "object" {
        errors.push(FieldError::invalid(
            type_path.field(),
            ty,
            "must be object at the root",
        ));
    }
    metadata(schema, level, embedded, &properties, errors);
    if embedded && !preserve && fields(schema).next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(properties.field(), why));
    }
}

/// Kind, apiVersion and metadata belong to the server; a schema may only restrict names.
fn metadata(
    schema: &Value,
    level: Level,
    embedded: bool,
    properties: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let resource = level == Level::Root || embedded;
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let Some(field) = schema["properties"].get(name) else {
            continue;
        };
        let at = properties.key(name);
        let ty = field["type"].as_str().unwrap_or_default();
        if resource && ty != wanted {
            let why = format!("must be {wanted}");
            errors.push(FieldError::invalid(at.child("type").field(), ty, why));
        }
        if name == "metadata" && level == Level::Root {
            let mut rest: Map<String, Value> = field.as_object().cloned().unwrap_or_default();
            rest.remove("type");
            rest.remove("default");
            rest.retain(|_, value| said(value));
            let only_names = rest.get("properties").is_none_or(|properties| {
                let mut names = properties.as_object().into_iter().flatten();
                names.all(|(name, _)| name == "name" || name == "generateName")
            });
            rest.remove("properties");
            if !only_names || !rest.is_empty() {
                let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
                errors.push(FieldError::forbidden(at.field(), why));
            }
        }
    }
}

/// Value validations, which must not specify structure.
fn values(schema: &Value, root: bool, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && schema[key] == int_or_string {
            continue;
        }
        let below = path.child(key);
        for (index, nested) in schema[key].as_array().into_iter().flatten().enumerate() {
            let pair = key == "allOf" && index == 0 && nested["anyOf"] == int_or_string;
            limits(nested, pair, root, &below.index(index), errors);
        }
    }
    if schema["not"].is_object() {
        limits(&schema["not"], false, root, &path.child("not"), errors);
    }
    if let Some(text) = schema["pattern"].as_str().filter(|text| !text.is_empty())
        && let Err(why) = pattern::compile(text)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(path.child("pattern").field(), text, why));
    }
}

fn limits(schema: &Value, pair_allowed: bool, root: bool, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if pair_allowed {
        let mut rest = schema.clone();
        if let Some(map) = rest.as_object_mut() {
            map.remove("anyOf");
        }
        values(&rest, root, path, errors);
    } else {
        values(schema, root, path, errors);
    }
    if schema["items"].is_object() {
        limits(&schema["items"], false, root, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, field) in fields(schema) {
        limits(field, false, false, &properties.key(name), errors);
    }
    for (key, why) in NESTED {
        if said(&schema[key]) {
            errors.push(FieldError::forbidden(path.child(key).field(), why));
        }
    }
    for key in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if said(&schema[key]) {
            errors.push(FieldError::forbidden(
                path.child(key).field(),
                "must be empty to be structural",
            ));
        }
    }
    if schema["properties"].get("metadata").is_some() {
        let at = properties.key("metadata");
        errors.push(FieldError::forbidden(
            at.field(),
            "must not be specified in a nested context",
        ));
    }
}

/// Fields of value validations must be specified in the structure.
fn complete(
    limits: &Value,
    structure: Option<&Value>,
    at: &Path<'_>,
    said_at: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    for key in ["not", "allOf", "anyOf", "oneOf"] {
        let below = said_at.child(key);
        match &limits[key] {
            nested @ Value::Object(_) => complete_nested(nested, structure, at, &below, errors),
            Value::Array(nested) => {
                for (index, nested) in nested.iter().enumerate() {
                    complete_nested(nested, structure, at, &below.index(index), errors);
                }
            }
            _ => {}
        }
    }
}

fn complete_nested(
    limits: &Value,
    structure: Option<&Value>,
    at: &Path<'_>,
    said_at: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = structure else {
        let why = format!("because it is defined in {said_at}");
        errors.push(FieldError::required(at.field(), why));
        return;
    };
    complete(limits, structure, at, said_at, errors);
    if limits["items"].is_object() {
        complete_nested(
            &limits["items"],
            schema.get("items"),
            &at.child("items"),
            &said_at.child("items"),
            errors,
        );
    }
    let (properties, said_properties) = (at.child("properties"), said_at.child("properties"));
    for (name, field) in fields(limits) {
        complete_nested(
            field,
            schema["properties"].get(name),
            &properties.key(name),
            &said_properties.key(name),
            errors,
        );
    }
}
