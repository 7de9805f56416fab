//! The structure of a schema: types and fields are specified once, outside of the value validations.

use crate::apiextensions::structural::check::{Relation, each_child, is_set};
use crate::apiextensions::structural::path::Path;
use crate::apiextensions::structural::pattern;
use crate::field::{FieldError, Report};
use crate::json::{Map, Value, json};

/// Keywords that value validations must not have, and their required values.
const NOT_IN_VALUES: [(&str, &str); 13] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-validations", "empty"),
];

/// Reports violations of the structural rules, in the order of the server's messages.
pub(crate) fn check(schema: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    place(schema, None, path, &mut errors);
    complete(schema, schema, false, path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

/// Validates a schema of the structure. The root has no relation.
fn place(schema: &Value, relation: Option<Relation<'_>>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let flag = |key: &str| schema[key] == true;
    let ty = schema["type"].as_str().unwrap_or_default();
    let root = relation.is_none();
    let embedded = flag("x-kubernetes-embedded-resource");
    let int_or_string = flag("x-kubernetes-int-or-string");
    let preserve = flag("x-kubernetes-preserve-unknown-fields");
    let additional = !schema["additionalProperties"].is_null();
    each_child(schema, path, |relation, child, at| {
        if relation != Relation::Nested {
            place(child, Some(relation), at, errors);
        }
    });
    if ty == "array" && !schema["items"].is_object() {
        errors.required(path.at("items"), "must be specified");
    }
    if additional && root {
        errors.forbidden(path.at("additionalProperties"), "must not be used at the root");
    }
    for (key, set) in [
        ("x-kubernetes-preserve-unknown-fields", preserve),
        ("x-kubernetes-embedded-resource", embedded),
    ] {
        if int_or_string && set {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.invalid(path.at(key), true, why);
        }
    }
    values(schema, path, errors);
    if embedded && ty != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        if ty.is_empty() {
            errors.required(path.at("type"), why);
        } else {
            errors.invalid(path.at("type"), ty, why);
        }
    } else if ty.is_empty() && !int_or_string && !preserve {
        let why = match relation {
            None => "must not be empty at the root",
            Some(Relation::Items) => "must not be empty for specified array items",
            Some(_) => "must not be empty for specified object fields",
        };
        errors.required(path.at("type"), why);
    }
    if embedded && additional {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(path.at("additionalProperties"), why);
    }
    if root && !ty.is_empty() && ty != "object" {
        errors.invalid(path.at("type"), ty, "must be object at the root");
    }
    metadata(schema, root, embedded, &path.child("properties"), errors);
    if embedded && !preserve && schema["properties"].as_object().is_none_or(Map::is_empty) {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errors.required(path.at("properties"), why);
    }
}

/// Kind, apiVersion and metadata belong to the server; a schema may only restrict names.
fn metadata(schema: &Value, root: bool, embedded: bool, properties: &Path<'_>, errors: &mut Vec<FieldError>) {
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
        if (root || embedded) && ty != wanted {
            errors.invalid(at.at("type"), ty, format!("must be {wanted}"));
        }
        let is_name = |name: &str| name == "name" || name == "generateName";
        let mut rest = field.as_object().into_iter().flatten();
        let only_names = rest.all(|(key, value)| match (key.as_str(), value) {
            ("type" | "default", _) => true,
            ("properties", Value::Object(fields)) => fields.keys().all(|name| is_name(name)),
            (_, value) => !is_set(value),
        });
        if name == "metadata" && root && !only_names {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.forbidden(at.field(), why);
        }
    }
}

/// Validates the value validations of a schema, which must not specify structure.
fn values(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let int_or_string = [json!({"type": "integer"}), json!({"type": "string"})];
    let has_pair = schema["anyOf"]
        .as_array()
        .is_some_and(|any| *any == int_or_string);
    each_child(schema, path, |relation, nested, at| {
        if relation == Relation::Nested && !(has_pair && int_or_string.contains(nested)) {
            limits(nested, at, errors);
        }
    });
    if let Some(text) = schema["pattern"].as_str().filter(|text| !text.is_empty())
        && let Err(why) = pattern::compile(text)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(path.at("pattern"), text, why);
    }
}

fn limits(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    values(schema, path, errors);
    each_child(schema, path, |relation, child, at| {
        if matches!(relation, Relation::Items | Relation::Property(_)) {
            limits(child, at, errors);
        }
    });
    for (key, required) in NOT_IN_VALUES {
        if is_set(&schema[key]) {
            errors.forbidden(path.at(key), format!("must be {required} to be structural"));
        }
    }
    if schema["properties"].get("metadata").is_some() {
        let at = path.child("properties");
        errors.forbidden(
            at.key("metadata").field(),
            "must not be specified in a nested context",
        );
    }
}

/// Reports fields of value validations (`limits`, at `limits_at`) that the structure does not specify.
fn complete(
    limits: &Value,
    structure: &Value,
    nested: bool,
    at: &Path<'_>,
    limits_at: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let properties = at.child("properties");
    each_child(limits, limits_at, |relation, child, below| {
        let (part, at) = match relation {
            Relation::Nested => (Some(structure), *at),
            Relation::Items if nested => (structure.get("items"), at.child("items")),
            Relation::Property(name) if nested => (structure["properties"].get(name), properties.key(name)),
            _ => return,
        };
        match part {
            Some(part) => complete(child, part, true, &at, below, errors),
            None => errors.required(at.field(), format!("because it is defined in {below}")),
        }
    });
}
