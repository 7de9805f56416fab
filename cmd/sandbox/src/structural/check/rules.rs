//! Rules: their expressions must compile, yield what they are asked for, and be affordable.

use serde_json::Value;

use super::super::cel::{self, REQUEST_LIMIT, min_size};
use super::super::node::Node;
use super::super::path::Path;
use crate::field::FieldError;

/// The most that one rule may cost, for all values that it can be asked about in one object.
const RULE_LIMIT: u64 = 10_000_000;
/// The most that all rules of a schema may cost.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// What is wrong with the rules of a schema that is right otherwise.
pub(super) fn check(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let node = Node::compile(schema);
    let mut costs = Costs::default();
    let spot = Spot {
        times: Some(1),
        resource: true,
        unrelated: None,
    };
    walk(schema, &node, path, &spot, &mut costs, errors);
    if costs.total > SCHEMA_LIMIT {
        costs.rules.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (field, _) in costs.rules.iter().take(4) {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(field.clone(), why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(
            path.field(),
            too_expensive(what, costs.total, SCHEMA_LIMIT),
        ));
    }
}

/// The path of `fieldPath` as errors write it, if it is one of the schema's.
pub(super) fn field_path(schema: &Value, path: &str) -> Option<String> {
    cel::field_path(&Node::compile(schema), path)
}

#[derive(Default)]
struct Costs {
    total: u64,
    /// Those that count.
    rules: Vec<(String, u64)>,
}

impl Costs {
    fn add(&mut self, field: String, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.rules.push((field, cost));
        }
    }
}

struct Spot<'a> {
    /// How many values there can be in one object; none if only the size of a request bounds them.
    times: Option<u64>,
    resource: bool,
    /// The list around it whose items have no identity, so that nothing can be said about what they were.
    unrelated: Option<&'a str>,
}

fn walk(
    schema: &Value,
    node: &Node,
    path: &Path<'_>,
    spot: &Spot<'_>,
    costs: &mut Costs,
    errors: &mut Vec<FieldError>,
) {
    let times = |most: &Value| {
        let most = most.as_i64().map(|most| u64::try_from(most).unwrap_or(0));
        most.zip(spot.times)
            .map(|(most, times)| most.saturating_mul(times))
    };
    if let Some(values) = node.values() {
        let below = Spot {
            times: times(&schema["maxProperties"]),
            resource: values.embedded,
            unrelated: spot.unrelated,
        };
        let at = path.child("additionalProperties");
        walk(
            &schema["additionalProperties"],
            values,
            &at,
            &below,
            costs,
            errors,
        );
    }
    let at = path.child("properties");
    for (name, field) in &node.properties {
        let below = Spot {
            times: spot.times,
            resource: field.embedded,
            unrelated: spot.unrelated,
        };
        walk(
            &schema["properties"][name],
            field,
            &at.key(name),
            &below,
            costs,
            errors,
        );
    }
    if let Some(items) = &node.items {
        let own = path.field();
        let related = schema["x-kubernetes-list-type"] == "map";
        let below = Spot {
            times: times(&schema["maxItems"]),
            resource: items.embedded,
            unrelated: if related { spot.unrelated } else { Some(&own) },
        };
        walk(
            &schema["items"],
            items,
            &path.child("items"),
            &below,
            costs,
            errors,
        );
    }
    let at = path.child("x-kubernetes-validations");
    let rules = schema["x-kubernetes-validations"].as_array();
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        self::rule(rule, node, &at.index(index), spot, costs, errors);
    }
}

fn rule(
    rule: &Value,
    node: &Node,
    path: &Path<'_>,
    spot: &Spot<'_>,
    costs: &mut Costs,
    errors: &mut Vec<FieldError>,
) {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let field = path.child("rule").field();
    let optional_old = rule["optionalOldSelf"] == true;
    let uses_old = match cel::check(text("rule"), node, spot.resource, optional_old, "bool") {
        Ok(checked) => {
            let times = spot.times.unwrap_or(REQUEST_LIMIT / (min_size(node) + 1));
            let cost = checked.cost.saturating_mul(times);
            if cost > RULE_LIMIT {
                let why = too_expensive("estimated rule cost", cost, RULE_LIMIT);
                errors.push(FieldError::forbidden(field.clone(), why));
            }
            costs.add(field.clone(), cost);
            checked.uses_old
        }
        Err(why) => {
            errors.push(FieldError::invalid(field, rule.clone(), why));
            return;
        }
    };
    if !text("messageExpression").is_empty() {
        let at = path.child("messageExpression").field();
        match cel::check(
            text("messageExpression"),
            node,
            spot.resource,
            optional_old,
            "string",
        ) {
            Ok(checked) => {
                if checked.cost > RULE_LIMIT {
                    let why = too_expensive("estimated messageExpression cost", checked.cost, RULE_LIMIT);
                    errors.push(FieldError::forbidden(at.clone(), why));
                }
                costs.add(at, checked.cost);
            }
            Err(why) => {
                let why = why.replacen("compilation failed", "messageExpression compilation failed", 1);
                errors.push(FieldError::invalid(at, rule.clone(), why));
            }
        }
    }
    if let (true, Some(list)) = (uses_old, spot.unrelated) {
        let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
        errors.push(FieldError::invalid(field, text("rule"), why));
    } else if !uses_old && !rule["optionalOldSelf"].is_null() {
        let at = path.child("optionalOldSelf").field();
        let why = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(at, optional_old, why));
    }
}

#[allow(clippy::cast_precision_loss)]
fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let times = cost as f64 / limit as f64;
    let factor = if times > 100.0 {
        "more than 100x".to_owned()
    } else if times < 1.5 {
        format!("{times:.6}x")
    } else {
        format!("{times:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
