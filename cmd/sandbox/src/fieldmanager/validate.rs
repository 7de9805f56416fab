//! Validation of a configuration before the merge: unknown fields, values of the wrong type, and list items without
//! unique keys.

use std::collections::BTreeSet;

use crate::field::json_type;
use crate::fieldmanager::element;
use crate::fieldmanager::lists::Topology;
use crate::fieldmanager::shape::{Keys, Layout, Shape};
use crate::json::{Text, Value};
use crate::schema::Type;

/// The treatment of duplicate items in keyed lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeated {
    Wrong,
    Fine,
}

/// Returns all errors in one message, or `None` if the configuration is valid.
pub(super) fn check(shape: Shape<'_>, config: &Value, repeated: Repeated) -> Option<String> {
    let mut errors = Vec::new();
    place(shape, config, "", repeated, &mut errors);
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("errors:\n  {}", several.join("\n  "))),
    }
}

fn place(shape: Shape<'_>, value: &Value, path: &str, repeated: Repeated, errors: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let mut wrong = |what: String| {
        let colon = if path.is_empty() { "" } else { ": " };
        errors.push(format!("{path}{colon}{what}"));
    };
    match expected(shape) {
        Some(expected) if !has_type(expected, value) => {
            wrong(format!("expected {expected}, got {}", json_type(value)));
        }
        _ => match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let path = format!("{path}.{name}");
                    match shape.field(name) {
                        Some((inner, _)) => place(inner, value, &path, repeated, errors),
                        None => errors.push(format!("{path}: field not declared in schema")),
                    }
                }
            }
            Value::Array(_) => items(shape, value, path, repeated, errors),
            _ => {}
        },
    }
}

fn items(shape: Shape<'_>, value: &Value, path: &str, repeated: Repeated, errors: &mut Vec<String>) {
    let list = value.as_array().unwrap_or_default();
    let inner = shape.item();
    let Layout::Items(keys) = shape.layout(value) else {
        for (at, item) in list.iter().enumerate() {
            place(inner, item, &format!("{path}[{at}]"), repeated, errors);
        }
        return;
    };
    let mut seen = BTreeSet::new();
    for (at, item) in list.iter().enumerate() {
        match element_of(shape, &keys, item) {
            Ok(element) => {
                let shown = element::shown(std::slice::from_ref(&element));
                if !seen.insert(element) && repeated == Repeated::Wrong {
                    errors.push(format!("{path}: duplicate entries for key {shown}"));
                }
                place(inner, item, &format!("{path}{shown}"), repeated, errors);
            }
            Err(why) => {
                errors.push(format!("{path}: element {at}: {why}"));
                return;
            }
        }
    }
}

fn element_of(shape: Shape<'_>, keys: &Keys<'_>, item: &Value) -> Result<Text, String> {
    shape.element(keys, item)
}

/// Returns the type that the schema expects, or `None` if it accepts any type.
fn expected(shape: Shape<'_>) -> Option<&'static str> {
    match shape {
        Shape::Object(_) | Shape::Map(..) | Shape::CustomObject(..) => Some("map"),
        Shape::List(_, Topology::Atomic | Topology::Set | Topology::Keyed(_)) => Some("list"),
        Shape::Scalar(ty) => match ty {
            Type::String | Type::Time | Type::MicroTime | Type::Bytes => Some("string"),
            Type::Int32 | Type::Int64 | Type::Number => Some("number"),
            Type::Boolean => Some("boolean"),
            Type::IntOrString | Type::Quantity => Some("scalar"),
            _ => None,
        },
        Shape::Custom(schema, _) => match schema["type"].as_str() {
            Some("object") => Some("map"),
            Some("array") => Some("list"),
            Some("string") => Some("string"),
            Some("integer" | "number") => Some("number"),
            Some("boolean") => Some("boolean"),
            _ => None,
        },
        Shape::Deduced => None,
    }
}

fn has_type(expected: &str, value: &Value) -> bool {
    match expected {
        "map" => value.is_object(),
        "list" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => !value.is_object() && !value.is_array(),
    }
}
