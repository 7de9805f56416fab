//! Validation of the keywords of a schema. Mirrors `ValidateCustomResourceDefinitionOpenAPISchema`.

use crate::apiextensions::structural::check::{Relation, each_child, is_set};
use crate::apiextensions::structural::node::Node;
use crate::apiextensions::structural::path::Path;
use crate::cel;
use crate::field::{FieldError, Report};
use crate::json::Value;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];
const UNSUPPORTED: [&str; 6] = [
    "id",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
];
const META: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// The position of a schema in a resource.
#[derive(Clone, Copy)]
struct Spot<'a> {
    root: bool,
    /// The reason why defaults are forbidden, if they are.
    no_default: Option<&'a str>,
    in_meta: bool,
}

/// Validates the keywords of a schema.
pub(crate) fn check(schema: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spot = Spot {
        root: true,
        no_default: None,
        in_meta: false,
    };
    walk(schema, path, spot, &mut errors);
    errors
}

/// Reports a keyword that a structural schema must not have.
pub(crate) fn unsupported(schema: &Value) -> Option<String> {
    let keywords = UNSUPPORTED.iter().chain(&["$schema"]);
    if let Some(key) = keywords.into_iter().find(|key| is_set(&schema[**key])) {
        let name = key.trim_start_matches(if *key == "$schema" { "$" } else { "" });
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema["items"].is_array() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let mut found = None;
    each_child(schema, &Path::Root, |_, child, _| {
        found = found.take().or_else(|| unsupported(child));
    });
    found
}

fn walk(schema: &Value, path: &Path<'_>, spot: Spot<'_>, errors: &mut Vec<FieldError>) {
    keywords(schema, path, spot, errors);
    let additional = &schema["additionalProperties"];
    let has_properties = schema["properties"].as_object().is_some_and(|p| !p.is_empty());
    if has_properties && !additional.is_null() && *additional != true {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(path.at("additionalProperties"), why);
    }
    each_child(schema, path, |relation, child, at| {
        let reason;
        let mut below = Spot { root: false, ..spot };
        match relation {
            Relation::AdditionalProperties if spot.in_meta => {
                below.no_default = Some("inside additionalProperties applying to object metadata");
            }
            Relation::Property(name) if META.contains(&name) => {
                below.in_meta |= spot.root || schema["x-kubernetes-embedded-resource"] == true;
                reason = format!("in top-level {name}");
                if spot.root {
                    below.no_default = Some(&reason);
                }
            }
            _ => {}
        }
        walk(child, at, below, errors);
    });
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let field = path.at("x-kubernetes-preserve-unknown-fields");
        errors.invalid(field, false, "must be true or undefined");
    }
    topology(schema, path, errors);
    rules(schema, path, errors);
}

fn keywords(schema: &Value, path: &Path<'_>, spot: Spot<'_>, errors: &mut Vec<FieldError>) {
    let ty = schema["type"].as_str().unwrap_or_default();
    if !ty.is_empty() && !TYPES.contains(&ty) {
        errors.not_supported(path.at("type"), ty, &TYPES);
    }
    if let (false, Some(reason)) = (schema["default"].is_null(), spot.no_default) {
        errors.forbidden(path.at("default"), format!("must not be set {reason}"));
    }
    for key in UNSUPPORTED.iter().filter(|key| is_set(&schema[**key])) {
        errors.forbidden(path.at(key), format!("{key} is not supported"));
    }
    for (wrong, key, why) in [
        (
            ty == "null",
            "type",
            "type cannot be set to null, use nullable as an alternative",
        ),
        (
            schema["items"].is_array(),
            "items",
            "items must be a schema object and not an array",
        ),
        (
            spot.in_meta && schema["x-kubernetes-embedded-resource"] == true,
            "x-kubernetes-embedded-resource",
            "must not be used inside of resource meta",
        ),
        (
            schema["uniqueItems"] == true,
            "uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
    ] {
        if wrong {
            errors.forbidden(path.at(key), why);
        }
    }
}

/// Reports a keyword that requires another type.
fn needs_type(schema: &Value, wanted: &str, keyword: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let field = path.at("type");
    let why = format!("must be {wanted} if {keyword} is specified");
    match schema["type"].as_str().unwrap_or_default() {
        ty if ty == wanted => {}
        "" => errors.required(field, why),
        ty => errors.invalid(field, ty, why),
    }
}

/// Validates list and map types.
fn topology(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = &schema["items"];
    if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
        needs_type(schema, "object", "x-kubernetes-map-type", path, errors);
        if !["atomic", "granular"].contains(&map_type) {
            let field = path.at("x-kubernetes-map-type");
            errors.not_supported(field, map_type, &["atomic", "granular"]);
        }
    }
    let list_type = schema["x-kubernetes-list-type"].as_str();
    let list_path = path.child("x-kubernetes-list-type");
    let items_path = path.child("items");
    if let Some(list_type) = list_type {
        needs_type(schema, "array", "x-kubernetes-list-type", path, errors);
        if list_type == "set" && schema["type"] == "array" {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let nested = items["x-kubernetes-list-type"].as_str();
            if items["type"] == "array" && nested.is_some_and(|nested| nested != "atomic") {
                let field = items_path.at("x-kubernetes-list-type");
                errors.invalid(field, nested, why);
            } else if items["type"] == "object" && items["x-kubernetes-map-type"] != "atomic" {
                let field = items_path.at("x-kubernetes-map-type");
                errors.invalid(field, nested, why);
            }
        }
        if !["atomic", "set", "map"].contains(&list_type) {
            errors.not_supported(list_path.field(), list_type, &["atomic", "set", "map"]);
        }
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let keys: &[Value] = keys.unwrap_or_default();
    if !keys.is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(list_path.field(), why),
            Some(other) => FieldError::invalid(list_path.field(), other, why),
        });
    }
    if let Some(list_type @ ("set" | "map")) = list_type
        && items["nullable"] == true
    {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(items_path.at("nullable"), why);
    }
    if list_type == Some("map") {
        map_list(items, keys, path, errors);
    }
}

/// Validates a map list: its keys are scalar fields of the items, and required or have a default.
fn map_list(items: &Value, keys: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let keys_field = path.at("x-kubernetes-list-map-keys");
    let items_path = path.child("items");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.required(keys_field.clone(), why);
    }
    if items.is_null() {
        let why = "must have a schema if x-kubernetes-list-type is map";
        errors.required(items_path.field(), why);
    } else if items["type"] != "object" {
        let ty = items["type"].as_str().unwrap_or_default();
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(items_path.at("type"), ty, why);
    }
    let of_key = "this property is in x-kubernetes-list-map-keys, so it";
    let required = items["required"].as_array();
    let properties = items_path.child("properties");
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        if keys[..index].contains(key) {
            let why = "must not contain duplicate entries";
            errors.invalid(keys_field.clone(), keys.to_vec(), why);
        }
        let Some(field) = items["properties"].get(name) else {
            if items["type"] == "object" {
                let why = "entries must all be names of item properties";
                errors.invalid(keys_field.clone(), keys.to_vec(), why);
            }
            continue;
        };
        let at = properties.key(name);
        if items["type"] == "object" && (field["type"] == "array" || field["type"] == "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.invalid(at.at("type"), "object", why);
        }
        if !required.is_some_and(|required| required.contains(key)) && field["default"].is_null() {
            let why = format!("{of_key} must have a default or be a required property");
            errors.required(at.at("default"), why);
        }
        if field["nullable"] == true {
            errors.forbidden(at.at("nullable"), format!("{of_key} cannot be nullable"));
        }
    }
}

/// Validates the fields of a rule other than its expressions.
fn rules(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let at = path.child("x-kubernetes-validations");
    let rules = schema["x-kubernetes-validations"].as_array();
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let at = at.index(index);
        let text = |key: &str| rule[key].as_str().unwrap_or_default();
        let lines = |text: &str| text.trim().contains(['\n', '\r']);
        let (expression, message) = (text("rule").trim(), text("message"));
        if expression.is_empty() {
            errors.required(at.at("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            let field = at.at("message");
            errors.invalid(field, message, "must be non-empty if specified");
        } else if lines(message) {
            let field = at.at("message");
            errors.invalid(field, message, "must not contain line breaks");
        } else if lines(expression) && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.required(at.at("message"), why);
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.required(at.at("messageExpression"), why);
        }
        if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
            errors.not_supported(at.at("reason"), reason, &REASONS);
        }
        let field_path = text("fieldPath");
        let field = at.at("fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            let why = "must be non-empty if specified";
            errors.invalid(field.clone(), field_path, why);
        }
        if field_path.contains(['\n', '\r']) {
            let why = "must not contain line breaks";
            errors.invalid(field.clone(), field_path, why);
        }
        if !field_path.is_empty() && cel::field_path(&Node::compile(schema), field_path).is_none() {
            errors.invalid(field, field_path, "must be a valid path");
        }
    }
}
