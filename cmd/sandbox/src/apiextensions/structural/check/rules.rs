//! Type checks of the rules of a schema.

use crate::apiextensions::structural::node::Node;
use crate::apiextensions::structural::path::Path;
use crate::cel;
use crate::field::{FieldError, Report};
use crate::json::Value;

/// Type-checks the rules of a schema without other errors.
pub(crate) fn check(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let spot = Spot {
        resource: true,
        unrelated: None,
    };
    walk(schema, &Node::compile(schema), path, &spot, errors);
}

struct Spot<'a> {
    resource: bool,
    /// The outer list whose items are not correlatable, so that `oldSelf` is not available.
    unrelated: Option<&'a str>,
}

fn walk(schema: &Value, node: &Node, path: &Path<'_>, spot: &Spot<'_>, errors: &mut Vec<FieldError>) {
    let below = |node: &Node| Spot {
        resource: node.embedded,
        ..*spot
    };
    if let Some(values) = node.values() {
        let at = path.child("additionalProperties");
        let spot = below(values);
        walk(&schema["additionalProperties"], values, &at, &spot, errors);
    }
    let at = path.child("properties");
    for (name, field) in &node.properties {
        let spot = below(field);
        walk(&schema["properties"][name], field, &at.key(name), &spot, errors);
    }
    if let Some(items) = &node.items {
        let own = path.field();
        let related = schema["x-kubernetes-list-type"] == "map";
        let spot = Spot {
            resource: items.embedded,
            unrelated: if related { spot.unrelated } else { Some(&own) },
        };
        walk(&schema["items"], items, &path.child("items"), &spot, errors);
    }
    let at = path.child("x-kubernetes-validations");
    let rules = schema["x-kubernetes-validations"].as_array();
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        self::rule(rule, node, &at.index(index), spot, errors);
    }
}

fn rule(rule: &Value, node: &Node, path: &Path<'_>, spot: &Spot<'_>, errors: &mut Vec<FieldError>) {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let field = path.at("rule");
    let optional_old = rule["optionalOldSelf"] == true;
    let uses_old = match cel::check(text("rule"), node, spot.resource, optional_old, "bool") {
        Ok(uses_old) => uses_old,
        Err(why) => {
            errors.invalid(field, rule.clone(), why);
            return;
        }
    };
    if !text("messageExpression").is_empty() {
        let at = path.at("messageExpression");
        if let Err(why) = cel::check(
            text("messageExpression"),
            node,
            spot.resource,
            optional_old,
            "string",
        ) {
            let why = why.replacen("compilation failed", "messageExpression compilation failed", 1);
            errors.invalid(at, rule.clone(), why);
        }
    }
    if let (true, Some(list)) = (uses_old, spot.unrelated) {
        let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
        errors.invalid(field, text("rule"), why);
    } else if !uses_old && !rule["optionalOldSelf"].is_null() {
        let at = path.at("optionalOldSelf");
        let why = "may not be set if oldSelf is not used in rule";
        errors.invalid(at, optional_old, why);
    }
}
