//! Validation of the keywords of a schema. Mirrors `ValidateCustomResourceDefinitionOpenAPISchema`.

use serde_json::{Value, json};

use crate::apiextensions::structural::path::Path;
use crate::field::FieldError;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
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
    let keywords = [
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    let set = |key: &&str| !schema[*key].is_null() && schema[*key] != "" && schema[*key] != json!({});
    if let Some(key) = keywords.iter().find(|key| set(key)) {
        let name = if *key == "$schema" { "schema" } else { key };
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema["items"].is_array() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    below(schema).find_map(unsupported)
}

/// Returns the child schemas.
fn below(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["allOf", "anyOf", "oneOf"]
        .into_iter()
        .flat_map(|key| schema[key].as_array().into_iter().flatten());
    let single = ["items", "not", "additionalProperties"]
        .into_iter()
        .map(|key| &schema[key])
        .filter(|schema| schema.is_object());
    let fields = schema["properties"].as_object().into_iter().flatten();
    lists.chain(single).chain(fields.map(|(_, schema)| schema))
}

fn walk(schema: &Value, path: &Path<'_>, spot: Spot<'_>, errors: &mut Vec<FieldError>) {
    keywords(schema, path, spot, errors);
    if schema["uniqueItems"] == true {
        errors.push(FieldError::forbidden(
            path.child("uniqueItems").field(),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    let inner = Spot { root: false, ..spot };
    let additional = &schema["additionalProperties"];
    let properties = schema["properties"].as_object();
    if !additional.is_null() {
        let at = path.child("additionalProperties");
        if properties.is_some_and(|p| !p.is_empty()) && *additional != true {
            let why = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(at.field(), why));
        }
        if additional.is_object() {
            let forbidden = "inside additionalProperties applying to object metadata";
            let no_default = if spot.in_meta {
                Some(forbidden)
            } else {
                spot.no_default
            };
            walk(additional, &at, Spot { no_default, ..inner }, errors);
        }
    }
    let self_is_root = spot.root;
    let at = path.child("properties");
    for (name, field) in properties.into_iter().flatten() {
        let mut spot = inner;
        let reason = format!("in top-level {name}");
        if META.contains(&name.as_str()) {
            spot.in_meta |= self_is_root || schema["x-kubernetes-embedded-resource"] == true;
            if self_is_root {
                spot.no_default = Some(&reason);
            }
        }
        walk(field, &at.key(name), spot, errors);
    }
    if schema["not"].is_object() {
        walk(&schema["not"], &path.child("not"), inner, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        let at = path.child(key);
        for (index, nested) in schema[key].as_array().into_iter().flatten().enumerate() {
            walk(nested, &at.index(index), inner, errors);
        }
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &path.child("items"), inner, errors);
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let field = path.child("x-kubernetes-preserve-unknown-fields").field();
        errors.push(FieldError::invalid(field, false, "must be true or undefined"));
    }
    topology(schema, path, errors);
    rules(schema, path, errors);
}

fn keywords(schema: &Value, path: &Path<'_>, spot: Spot<'_>, errors: &mut Vec<FieldError>) {
    let ty = schema["type"].as_str().unwrap_or_default();
    if !ty.is_empty() && !TYPES.contains(&ty) {
        errors.push(FieldError::not_supported(path.child("type").field(), ty, &TYPES));
    }
    if let (false, Some(reason)) = (schema["default"].is_null(), spot.no_default) {
        let why = format!("must not be set {reason}");
        errors.push(FieldError::forbidden(path.child("default").field(), why));
    }
    for key in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if !schema[key].is_null() && schema[key] != "" && schema[key] != json!({}) {
            let why = format!("{key} is not supported");
            errors.push(FieldError::forbidden(path.child(key).field(), why));
        }
    }
    if ty == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(path.child("type").field(), why));
    }
    if schema["items"].is_array() {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(path.child("items").field(), why));
    }
    if spot.in_meta && schema["x-kubernetes-embedded-resource"] == true {
        let field = path.child("x-kubernetes-embedded-resource").field();
        errors.push(FieldError::forbidden(
            field,
            "must not be used inside of resource meta",
        ));
    }
}

/// Reports a keyword that requires another type.
fn needs_type(schema: &Value, wanted: &str, keyword: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let field = path.child("type").field();
    let why = format!("must be {wanted} if {keyword} is specified");
    match schema["type"].as_str().unwrap_or_default() {
        ty if ty == wanted => {}
        "" => errors.push(FieldError::required(field, why)),
        ty => errors.push(FieldError::invalid(field, ty, why)),
    }
}

/// Validates list and map types.
fn topology(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = &schema["items"];
    if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
        needs_type(schema, "object", "x-kubernetes-map-type", path, errors);
        if !["atomic", "granular"].contains(&map_type) {
            let field = path.child("x-kubernetes-map-type").field();
            errors.push(FieldError::not_supported(
                field,
                map_type,
                &["atomic", "granular"],
            ));
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
                let field = items_path.child("x-kubernetes-list-type").field();
                errors.push(FieldError::invalid(field, nested, why));
            } else if items["type"] == "object" && items["x-kubernetes-map-type"] != "atomic" {
                let field = items_path.child("x-kubernetes-map-type").field();
                errors.push(FieldError::invalid(field, nested, why));
            }
        }
        if !["atomic", "set", "map"].contains(&list_type) {
            errors.push(FieldError::not_supported(
                list_path.field(),
                list_type,
                &["atomic", "set", "map"],
            ));
        }
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let keys: &[Value] = keys.map_or(&[], Vec::as_slice);
    if !keys.is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(list_path.field(), why),
            Some(other) => FieldError::invalid(list_path.field(), other, why),
        });
    }
    if list_type == Some("map") {
        map_list(schema, keys, path, errors);
    }
    if let Some(list_type @ ("set" | "map")) = list_type
        && items["nullable"] == true
    {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(items_path.child("nullable").field(), why));
    }
    if list_type == Some("map") {
        map_keys(items, keys, &items_path, errors);
    }
}

fn map_list(schema: &Value, keys: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = &schema["items"];
    let keys_field = path.child("x-kubernetes-list-map-keys").field();
    let items_path = path.child("items");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(keys_field.clone(), why));
    }
    if items.is_null() {
        let why = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(items_path.field(), why));
        return;
    }
    if items["type"] != "object" {
        let ty = items["type"].as_str().unwrap_or_default();
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(items_path.child("type").field(), ty, why));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items["properties"].get(name) {
            Some(field) if field["type"] == "array" || field["type"] == "object" => {
                let at = items_path.child("properties");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(
                    at.key(name).child("type").field(),
                    "object",
                    why,
                ));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(
                keys_field.clone(),
                keys.to_vec(),
                "entries must all be names of item properties",
            )),
        }
        if keys[..index].contains(key) {
            let why = "must not contain duplicate entries";
            errors.push(FieldError::invalid(keys_field.clone(), keys.to_vec(), why));
        }
    }
}

/// Keys of a map list are required or have a default.
fn map_keys(items: &Value, keys: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let at = path.child("properties");
    let required = items["required"].as_array();
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let Some(field) = items["properties"].get(name) else {
            continue;
        };
        if !required.is_some_and(|required| required.contains(key)) && field["default"].is_null() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(at.key(name).child("default").field(), why));
        }
        if field["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(at.key(name).child("nullable").field(), why));
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
            errors.push(FieldError::required(
                at.child("rule").field(),
                "rule is not specified",
            ));
        } else if !message.is_empty() && message.trim().is_empty() {
            let field = at.child("message").field();
            errors.push(FieldError::invalid(
                field,
                message,
                "must be non-empty if specified",
            ));
        } else if lines(message) {
            let field = at.child("message").field();
            errors.push(FieldError::invalid(
                field,
                message,
                "must not contain line breaks",
            ));
        } else if lines(expression) && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at.child("message").field(), why));
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at.child("messageExpression").field(), why));
        }
        if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(
                at.child("reason").field(),
                reason,
                &REASONS,
            ));
        }
        let field_path = text("fieldPath");
        let field = at.child("fieldPath").field();
        if !field_path.is_empty() && field_path.trim().is_empty() {
            let why = "must be non-empty if specified";
            errors.push(FieldError::invalid(field.clone(), field_path, why));
        }
        if field_path.contains(['\n', '\r']) {
            let why = "must not contain line breaks";
            errors.push(FieldError::invalid(field.clone(), field_path, why));
        }
        if !field_path.is_empty()
            && crate::apiextensions::structural::check::rules::field_path(schema, field_path).is_none()
        {
            errors.push(FieldError::invalid(field, field_path, "must be a valid path"));
        }
    }
}
