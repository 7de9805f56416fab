//! Validation of defaults against their own schema.

use crate::apiextensions::structural::node::Node;
use crate::apiextensions::structural::path::Path;
use crate::apiextensions::structural::{embedded, prune, validate};
use crate::cel;
use crate::field::{FieldError, Report};
use crate::json::Value;

/// Validates the defaults of a schema.
pub(crate) fn check(node: &Node, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(node, path, true, false, &mut errors);
    errors
}

fn walk(node: &Node, path: &Path<'_>, resource: bool, in_meta: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        one(node, default, &path.child("default"), in_meta, errors);
    }
    if let Some(items) = &node.items {
        walk(
            items,
            &path.child("items"),
            items.embedded,
            in_meta && !items.embedded,
            errors,
        );
    }
    let properties = path.child("properties");
    for (name, field) in &node.properties {
        let meta = in_meta || (resource && ["metadata", "apiVersion", "kind"].contains(&name.as_str()));
        let at = properties.key(name);
        walk(field, &at, field.embedded, meta && !field.embedded, errors);
    }
}

fn one(node: &Node, default: &Value, path: &Path<'_>, in_meta: bool, errors: &mut Vec<FieldError>) {
    let mut coerced = default.clone();
    if !in_meta {
        let mut pruned = default.clone();
        prune::prune(node, &mut pruned, node.embedded);
        if pruned != *default {
            errors.invalid(path.field(), default.clone(), "must not have unknown fields");
        }
        if let Err(error) = embedded::coerce(node, &mut coerced, path, &mut Vec::new()) {
            errors.push(error);
            return;
        }
        let before = errors.len();
        embedded::validate(node, &coerced, path, errors);
        if errors.len() > before {
            return;
        }
    }
    let wrong = validate::validate(node, &coerced, None, &path.field());
    if !wrong.is_empty() {
        errors.extend(wrong);
        return;
    }
    errors.extend(cel::validate_at(node, &coerced, path));
}
