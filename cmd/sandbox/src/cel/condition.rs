//! Match conditions of admission webhooks: expressions over the request and its objects. The variable `authorizer` is not
//! declared, so that an expression that uses it is rejected.

use kube_cel::cel::IdedExpr;

use crate::apiextensions::structural::node::Node;
use crate::cel::check::infer_in;
use crate::cel::eval::{Budget, EvalError, Scope};
use crate::cel::types::Ty;
use crate::cel::value::Val;
use crate::cel::{CALL_LIMIT, eval, parse};
use crate::json::{Value, json};

/// The cost budget of all conditions of one webhook.
const CONDITIONS_LIMIT: u64 = 2_500_000;

#[derive(Debug)]
pub struct Condition {
    expression: IdedExpr,
    text: String,
}

/// The result of match conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchResult {
    /// All conditions are true.
    Matches,
    /// A condition is false.
    DoesNotMatch,
    /// No condition is false, and at least one failed.
    Error(String),
}

impl Condition {
    /// Compiles a condition. Returns `None` if it does not parse, which [`check_condition`] reports.
    pub fn of(condition: &Value) -> Option<Self> {
        let text = condition["expression"].as_str().unwrap_or_default().trim();
        Some(Self {
            expression: parse(text).ok()?,
            text: text.to_owned(),
        })
    }
}

/// Returns the error of an expression that is not a match condition.
pub fn check_condition(text: &str) -> Result<(), String> {
    let expression = parse(text).map_err(|why| format!("compilation failed: {why}"))?;
    let failed = |why: &str| format!("compilation failed: ERROR: <input>:1:1: {why}");
    let node = Node::compile(&request_schema());
    let request = Ty::of(&node, false).unwrap_or(Ty::Dyn);
    let scope = vec![
        ("object".to_owned(), Ty::Dyn),
        ("oldObject".to_owned(), Ty::Dyn),
        ("request".to_owned(), request),
    ];
    let found = infer_in(&expression, scope).map_err(|why| failed(&why))?;
    match found {
        Ty::Bool => Ok(()),
        other => Err(format!("must evaluate to bool but got {}", other.name())),
    }
}

/// The type of the variable `request`.
fn request_schema() -> Value {
    let text = || json!({"type": "string"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let kind = || object(json!({"group": text(), "version": text(), "kind": text()}));
    let resource = || object(json!({"group": text(), "version": text(), "resource": text()}));
    let texts = || json!({"type": "array", "items": text()});
    object(json!({
        "kind": kind(),
        "resource": resource(),
        "subResource": text(),
        "requestKind": kind(),
        "requestResource": resource(),
        "requestSubResource": text(),
        "name": text(),
        "namespace": text(),
        "operation": text(),
        "userInfo": object(json!({
            "username": text(),
            "uid": text(),
            "groups": texts(),
            "extra": {"type": "object", "additionalProperties": texts()},
        })),
        "dryRun": {"type": "boolean"},
        // The options depend on the operation, so that their type is unknown.
        "options": {"x-kubernetes-int-or-string": true},
    }))
}

/// Evaluates conditions about a request and its objects.
pub fn conditions(
    conditions: &[Condition],
    object: Option<&Value>,
    old: Option<&Value>,
    request: &Value,
) -> MatchResult {
    let mut left = CONDITIONS_LIMIT;
    let mut errors = Vec::new();
    for condition in conditions {
        let limit = CALL_LIMIT.min(left);
        let mut budget = Budget::new(limit);
        let outcome = evaluate(&condition.expression, object, old, request, &mut budget);
        left -= limit - budget.left();
        match outcome {
            Ok(Val::Bool(true)) => {}
            Ok(Val::Bool(false)) => return MatchResult::DoesNotMatch,
            Ok(_) => errors.push(failure(condition, &EvalError::Overload)),
            Err(error) => errors.push(failure(condition, &error)),
        }
    }
    match errors.as_slice() {
        [] => MatchResult::Matches,
        [one] => MatchResult::Error(one.clone()),
        several => MatchResult::Error(format!("[{}]", several.join(", "))),
    }
}

fn failure(condition: &Condition, error: &EvalError) -> String {
    format!("expression '{}' resulted in error: {error}", condition.text)
}

fn evaluate<'a>(
    expression: &IdedExpr,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    request: &'a Value,
    budget: &mut Budget,
) -> eval::Result<Val<'a>> {
    let of = |value: Option<&'a Value>| value.map_or(Val::Null, |value| Val::of(value, None));
    let request = Scope::new("request", of(Some(request)), None);
    let old = Scope::new("oldObject", of(old), Some(&request));
    let object = Scope::new("object", of(object), Some(&old));
    eval::eval(expression, &object, budget)
}
