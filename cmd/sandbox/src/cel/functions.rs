//! Functions of the CEL standard library that work on values in place. The others go through [`library`].

use kube_cel::cel::common::ast::operators;

use crate::cel::eval::{Budget, EvalError, Result};
use crate::cel::value::Val;
use crate::cel::{library, operate};
use crate::json::Value as Json;

/// Calls a function on values.
pub(crate) fn call<'a>(
    name: &str,
    namespace: Option<&str>,
    target: Option<&Val<'a>>,
    args: &[Val<'a>],
    budget: &mut Budget,
) -> Result<Val<'a>> {
    match (namespace, target, name, args) {
        (None, None, operators::LOGICAL_NOT, [Val::Bool(b)]) => Ok(Val::Bool(!b)),
        (None, None, operators::NEGATE, [Val::Int(n)]) => {
            let negated = n.checked_neg();
            negated
                .map(Val::Int)
                .ok_or_else(|| EvalError::Failed("integer overflow".to_owned()))
        }
        (None, None, operators::NEGATE, [Val::Double(n)]) => Ok(Val::Double(-n)),
        (None, None, operator, [a, b]) if is_operator(operator) => operate::binary(operator, a, b, budget),
        (None, None, "size", [value]) | (None, Some(value), "size", []) => match value.size() {
            Some(size) => Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => Err(EvalError::Overload),
        },
        (None, None, "type", [value]) => Ok(Val::Type(value.type_name())),
        (None, None, "dyn", [value]) => Ok(value.clone()),
        (None, None, "int" | "double" | "string" | "bool" | "uint", [value]) => convert(name, value, budget),
        (None, Some(Val::Optional(value)), _, _) => optional(name, value.as_deref(), args),
        (Some("optional"), None, "none", []) => Ok(Val::Optional(None)),
        (Some("optional"), None, "of", [value]) => Ok(Val::Optional(Some(value.clone().into()))),
        (Some("optional"), None, "ofNonZeroValue", [value]) => {
            let zero = match value {
                Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) => true,
                Val::Double(n) => *n == 0.0,
                other => other.size() == Some(0),
            };
            Ok(Val::Optional((!zero).then(|| value.clone().into())))
        }
        (None, Some(Val::Text(text)), _, [Val::Text(arg)])
            if matches!(name, "startsWith" | "endsWith" | "contains") =>
        {
            budget.spend(u64::try_from(text.len() / 10).unwrap_or(u64::MAX))?;
            Ok(Val::Bool(match name {
                "startsWith" => text.starts_with(&**arg),
                "endsWith" => text.ends_with(&**arg),
                _ => text.contains(&**arg),
            }))
        }
        (None, Some(Val::Text(text)), "matches", [Val::Text(arg)])
        | (None, None, "matches", [Val::Text(text), Val::Text(arg)]) => {
            budget.matches(text, arg).map(Val::Bool)
        }
        _ => {
            let weights = target.into_iter().chain(args).map(deep_weight);
            let cost = match (namespace, name) {
                // These compare each with each.
                (Some("sets"), _) => weights.fold(1, u64::saturating_mul),
                (_, "distinct") => weights.fold(1, |cost: u64, weight| {
                    cost.saturating_mul(weight).saturating_mul(weight)
                }),
                _ => weights.fold(1, u64::saturating_add),
            };
            budget.spend(cost)?;
            library::call(budget.functions(), name, namespace, target, args)
        }
    }
}

fn is_operator(name: &str) -> bool {
    name.starts_with('_') || name == operators::IN
}

/// The cost of copying a value for the library.
fn deep_weight(value: &Val<'_>) -> u64 {
    match value {
        Val::Json(json, _) => u64::try_from(json_size(json)).unwrap_or(u64::MAX),
        Val::List(items) => items
            .iter()
            .fold(1, |sum: u64, item| sum.saturating_add(deep_weight(item))),
        other => other.weight(),
    }
}

fn json_size(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(json_size).sum::<usize>(),
        Json::Object(map) => 1 + map.values().map(json_size).sum::<usize>(),
        Json::String(text) => 1 + text.len() / 10,
        _ => 1,
    }
}

fn optional<'a>(name: &str, value: Option<&Val<'a>>, args: &[Val<'a>]) -> Result<Val<'a>> {
    match (name, value, args) {
        ("hasValue", value, []) => Ok(Val::Bool(value.is_some())),
        ("value", Some(value), []) => Ok(value.clone()),
        ("value", None, []) => Err(EvalError::Failed("optional.none() dereference".to_owned())),
        ("orValue", value, [other]) => Ok(value.unwrap_or(other).clone()),
        ("or", Some(value), [_]) => Ok(Val::Optional(Some(value.clone().into()))),
        ("or", None, [other]) => Ok(other.clone()),
        _ => Err(EvalError::Overload),
    }
}

/// Converts between scalar types. The library has all conversions but those of booleans.
fn convert<'a>(name: &str, value: &Val<'a>, budget: &mut Budget) -> Result<Val<'a>> {
    match (name, value) {
        ("bool", Val::Bool(_)) => Ok(value.clone()),
        ("bool", Val::Text(text)) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Val::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Val::Bool(false)),
            text => Err(EvalError::Failed(format!(
                "type conversion error from 'string' to 'bool': {text:?}"
            ))),
        },
        ("string", Val::Bool(b)) => Ok(Val::text(b.to_string())),
        ("bool", _) => Err(EvalError::Overload),
        _ => library::call(budget.functions(), name, None, None, std::slice::from_ref(value)),
    }
}
