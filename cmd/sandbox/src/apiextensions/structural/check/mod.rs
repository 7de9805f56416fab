//! Validation of the schemas of a CRD: a schema must be structural.
//!
//! In a structural schema the fields are known without their values: `properties`, `additionalProperties` and `items`
//! specify types, and `allOf`, `anyOf`, `oneOf` and `not` only add value validations. Errors have the order of the server,
//! or the order of names where the server's is random.

mod defaults;
mod props;
mod rules;
mod structure;

use crate::apiextensions::structural::node::Node;
use crate::apiextensions::structural::path::Path;
use crate::field::{FieldError, Report};
use crate::json::{Value, json};

/// Keywords on the root of a schema with a status subresource, where status is validated on its own.
const AT_ROOT: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength \
                       Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
                       XPreserveUnknownFields XValidations";

/// Validates the schema at `path`; `status` says whether there is a status subresource.
pub fn check(schema: &Value, path: &str, status: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if status {
        root_fields(schema, path, &mut errors);
    }
    if schema["nullable"] == true {
        errors.forbidden(format!("{path}.nullable"), "nullable cannot be true at the root");
    }
    let place = Path::Prefix(path);
    let unsupported = props::unsupported(schema);
    let mut rules_make_sense = false;
    if unsupported.is_none() {
        let structural = structure::check(schema, &place);
        if structural.is_empty() {
            let node = Node::compile(schema);
            let wrong = defaults::check(&node, &place);
            rules_make_sense = wrong.is_empty();
            errors.extend(wrong);
        }
        errors.extend(structural);
    }
    let wrong = props::check(schema, &place);
    rules_make_sense &= wrong.is_empty();
    errors.extend(wrong);
    if rules_make_sense {
        rules::check(schema, &place, &mut errors);
    }
    if let (true, Some(why)) = (errors.is_empty(), unsupported) {
        errors.invalid(path, "", why);
    }
    errors
}

fn root_fields(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let ty = schema["type"].as_str().unwrap_or_default();
    if !ty.is_empty() && ty != "object" {
        errors.invalid(
            format!("{path}.type"),
            ty,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled");
        return;
    }
    let go_name = |key: &str| match key {
        "x-kubernetes-preserve-unknown-fields" => "XPreserveUnknownFields".to_owned(),
        "x-kubernetes-validations" => "XValidations".to_owned(),
        key => {
            let mut chars = key.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars).collect()
        }
    };
    let odd = schema
        .as_object()
        .into_iter()
        .flatten()
        .any(|(key, value)| is_set(value) && !AT_ROOT.split(' ').any(|allowed| allowed == go_name(key)));
    if odd {
        errors.invalid(
            path,
            schema.clone(),
            format!(
                "only [{AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
            ),
        );
    }
}

/// Whether a keyword has another value than its zero value.
fn is_set(value: &Value) -> bool {
    !value.is_null() && *value != false && *value != "" && *value != json!([]) && *value != json!({})
}

/// The relation of a schema to its parent.
#[derive(Clone, Copy, PartialEq)]
enum Relation<'s> {
    Items,
    Property(&'s str),
    AdditionalProperties,
    /// An operand of `not`, `allOf`, `anyOf` or `oneOf`: only value validations.
    Nested,
}

/// Calls `visit` with every child schema.
fn each_child<'s>(
    schema: &'s Value,
    path: &Path<'_>,
    mut visit: impl FnMut(Relation<'s>, &'s Value, &Path<'_>),
) {
    for (key, relation) in [
        ("additionalProperties", Relation::AdditionalProperties),
        ("not", Relation::Nested),
        ("items", Relation::Items),
    ] {
        if schema[key].is_object() {
            visit(relation, &schema[key], &path.child(key));
        }
    }
    let properties = path.child("properties");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        visit(Relation::Property(name), field, &properties.key(name));
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        let at = path.child(key);
        for (index, nested) in schema[key].as_array().into_iter().flatten().enumerate() {
            visit(Relation::Nested, nested, &at.index(index));
        }
    }
}
