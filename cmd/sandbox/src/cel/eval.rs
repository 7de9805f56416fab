//! The CEL evaluator, with a cost budget.
//!
//! `kube-cel` provides the parser. Its evaluator is not used: it has no budget, copies selected values, and panics on some
//! expressions that parse.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use kube_cel::cel::{Context, IdedExpr};
use regex::Regex;
use thiserror::Error;

use crate::apiextensions::structural::node::Node;
use crate::apiextensions::structural::pattern;
use crate::cel::value::{Val, unescape};
use crate::cel::{functions, library, operate};
use crate::json::{Map, Value};

/// The cost of compiling a pattern, in evaluation steps.
const PATTERN_COST: u64 = 500;

/// The error of an evaluation, in the server's words.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum EvalError {
    #[error("no such overload")]
    Overload,
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("index out of bounds: {0}")]
    OutOfBounds(i64),
    #[error("{0}")]
    Failed(String),
    /// The budget is exceeded: no further rule is evaluated.
    #[error("operation cancelled: actual cost limit exceeded")]
    Budget,
}

pub(crate) type Result<T, E = EvalError> = std::result::Result<T, E>;

/// A variable and its outer scope.
pub(crate) struct Scope<'s, 'a> {
    pub name: &'s str,
    pub value: Val<'a>,
    pub outer: Option<&'s Scope<'s, 'a>>,
}

impl<'s, 'a> Scope<'s, 'a> {
    pub fn new(name: &'s str, value: Val<'a>, outer: Option<&'s Self>) -> Self {
        Self { name, value, outer }
    }

    fn find(&self, name: &str) -> Option<&Val<'a>> {
        let mut at = Some(self);
        while let Some(scope) = at {
            if scope.name == name {
                return Some(&scope.value);
            }
            at = scope.outer;
        }
        None
    }
}

/// The remaining budget of a rule, its compiled patterns, and the function library if a call has needed it.
pub(crate) struct Budget {
    left: u64,
    patterns: BTreeMap<String, Regex>,
    functions: Option<Context<'static>>,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Self {
            left: limit,
            patterns: BTreeMap::new(),
            functions: None,
        }
    }

    /// Returns the function library.
    pub fn functions(&mut self) -> &Context<'static> {
        self.functions.get_or_insert_with(library::functions)
    }

    /// Returns the remaining budget.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether a text matches a pattern. Compiled patterns are cached.
    pub fn matches(&mut self, text: &str, pattern: &str) -> Result<bool> {
        // The server charges a tenth of the text per four characters of the pattern; the call itself has paid for one.
        let (text_cost, pattern_cost) = ((1 + text.len()).div_ceil(10), pattern.len().div_ceil(4));
        let cost = u64::try_from(text_cost.saturating_mul(pattern_cost)).unwrap_or(u64::MAX);
        self.spend(cost.saturating_sub(1))?;
        if let Some(regex) = self.patterns.get(pattern) {
            return Ok(regex.is_match(text));
        }
        self.spend(PATTERN_COST)?;
        let regex = pattern::compile(pattern).map_err(EvalError::Failed)?;
        let matches = regex.is_match(text);
        self.patterns.insert(pattern.to_owned(), regex);
        Ok(matches)
    }

    pub fn spend(&mut self, cost: u64) -> Result<()> {
        match self.left.checked_sub(cost) {
            Some(rest) => {
                self.left = rest;
                Ok(())
            }
            None => Err(EvalError::Budget),
        }
    }
}

/// The cost of a list literal.
const LIST_COST: u64 = 10;
/// The cost of a map literal.
const MAP_COST: u64 = 30;

/// The server's cost of an expression without its operands.
fn cost(expr: &Expr) -> u64 {
    match expr {
        Expr::Literal(_) | Expr::Comprehension(_) => 0,
        Expr::Call(call) => match call.func_name.as_str() {
            operators::CONDITIONAL | operators::LOGICAL_OR | operators::LOGICAL_AND => 0,
            // The cost of a comparison depends on its operands.
            other => u64::from(!is_comparison(other)),
        },
        Expr::List(_) => LIST_COST,
        Expr::Map(_) => MAP_COST,
        Expr::Select(select) => u64::from(!select.test),
        Expr::Ident(_) | Expr::Struct(_) | Expr::Unspecified => 1,
    }
}

fn is_comparison(operator: &str) -> bool {
    matches!(
        operator,
        operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
    )
}

pub(crate) fn eval<'a>(expr: &IdedExpr, scope: &Scope<'_, 'a>, budget: &mut Budget) -> Result<Val<'a>> {
    budget.spend(cost(&expr.expr))?;
    match &expr.expr {
        Expr::Literal(literal) => Ok(literal_value(literal)),
        Expr::Ident(name) => variable(name, scope),
        Expr::Select(select) => {
            let operand = eval(&select.operand, scope, budget)?;
            if select.test {
                return Ok(Val::Bool(has(&operand, &select.field)?));
            }
            if let Val::Optional(inner) = &operand {
                return Ok(Val::Optional(
                    inner
                        .as_ref()
                        .and_then(|inner| field(inner, &select.field).ok().map(Into::into)),
                ));
            }
            field(&operand, &select.field)
        }
        Expr::List(list) => {
            let mut items = Vec::with_capacity(list.elements.len());
            for (index, element) in list.elements.iter().enumerate() {
                let value = eval(element, scope, budget)?;
                match value {
                    Val::Optional(inner) if list.optional_indices.contains(&index) => {
                        items.extend(inner.map(|inner| (*inner).clone()));
                    }
                    value => items.push(value),
                }
            }
            Ok(Val::list(items))
        }
        Expr::Map(map) => {
            let mut entries = Vec::with_capacity(map.entries.len());
            for entry in &map.entries {
                let EntryExpr::MapEntry(entry) = &entry.expr else {
                    return Err(EvalError::Overload);
                };
                let key = eval(&entry.key, scope, budget)?;
                match eval(&entry.value, scope, budget)? {
                    Val::Optional(inner) if entry.optional => {
                        entries.extend(inner.map(|inner| (key, (*inner).clone())));
                    }
                    value => entries.push((key, value)),
                }
            }
            Ok(Val::Map(entries.into()))
        }
        Expr::Comprehension(comprehension) => fold(comprehension, scope, budget),
        Expr::Call(call) => self::call(call, scope, budget),
        Expr::Struct(_) | Expr::Unspecified => Err(EvalError::Overload),
    }
}

fn variable<'a>(name: &str, scope: &Scope<'_, 'a>) -> Result<Val<'a>> {
    match scope.find(name) {
        Some(Val::Failed(error)) => Err(error.clone()),
        Some(value) => Ok(value.clone()),
        None => type_named(name).ok_or_else(|| EvalError::Failed(format!("no such attribute(s): {name}"))),
    }
}

fn literal_value<'a>(literal: &LiteralValue) -> Val<'a> {
    match literal {
        LiteralValue::Boolean(b) => Val::Bool(*b.inner()),
        LiteralValue::Int(n) => Val::Int(*n.inner()),
        LiteralValue::UInt(n) => Val::Uint(*n.inner()),
        LiteralValue::Double(n) => Val::Double(*n.inner()),
        LiteralValue::String(text) => Val::text(text.inner().to_owned()),
        LiteralValue::Bytes(bytes) => Val::Other(kube_cel::cel::Value::Bytes(bytes.inner().to_vec().into())),
        LiteralValue::Null => Val::Null,
    }
}

/// The type names of the language.
pub(crate) fn type_named<'a>(name: &str) -> Option<Val<'a>> {
    const TYPES: &str = "bool int uint double string bytes list map null_type type dyn";
    let mut types = TYPES.split(' ');
    types.any(|ty| ty == name).then(|| Val::Type(name.to_owned()))
}

/// Whether an object has the field; the field of a map is one of its keys.
fn has(operand: &Val<'_>, name: &str) -> Result<bool> {
    match operand {
        Val::Json(Value::Object(map), node) => Ok(present(map, *node, &name_of(*node, name)).is_some()),
        Val::Map(_) => Ok(operate::lookup(operand, &Val::text(name.to_owned()))?.is_some()),
        Val::Optional(None) => Ok(false),
        Val::Optional(Some(inner)) => has(inner, name),
        _ => Err(EvalError::Overload),
    }
}

fn name_of<'n>(node: Option<&Node>, name: &'n str) -> std::borrow::Cow<'n, str> {
    // Keys of maps are data, and not escaped.
    match node {
        Some(node) if node.additional.is_some() => name.into(),
        _ => unescape(name),
    }
}

/// Filters present values. A null field is absent; a null entry of a map is present.
fn present<'a>(map: &'a Map, node: Option<&Node>, name: &str) -> Option<&'a Value> {
    let is_map = node.is_some_and(|node| node.additional.is_some());
    map.get(name).filter(|value| is_map || !value.is_null())
}

/// Returns a field of an object.
fn field<'a>(operand: &Val<'a>, name: &str) -> Result<Val<'a>> {
    match operand {
        Val::Json(Value::Object(map), node) => {
            let name = name_of(*node, name);
            match present(map, *node, &name) {
                Some(value) => Ok(Val::of(value, node.and_then(|node| node.below(&name)))),
                None => Err(EvalError::NoSuchKey(name.into_owned())),
            }
        }
        Val::Map(_) => operate::lookup(operand, &Val::text(name.to_owned()))?
            .ok_or_else(|| EvalError::NoSuchKey(name.to_owned())),
        _ => Err(EvalError::Overload),
    }
}

fn fold<'a>(
    comprehension: &ComprehensionExpr,
    scope: &Scope<'_, 'a>,
    budget: &mut Budget,
) -> Result<Val<'a>> {
    let range = eval(&comprehension.iter_range, scope, budget)?;
    let items = match (range.items(), range.entries()) {
        (Some(items), _) => items,
        (None, Some(entries)) => entries.into_iter().map(|(key, _)| key).collect(),
        (None, None) => return Err(EvalError::Overload),
    };
    let mut accu = Scope::new(
        &comprehension.accu_var,
        eval(&comprehension.accu_init, scope, budget)?,
        Some(scope),
    );
    let grown = growth(comprehension);
    let mut list = Vec::new();
    for item in items {
        // An error does not end the loop: a later item may absorb it.
        if grown.is_none() && matches!(eval(&comprehension.loop_cond, &accu, budget)?, Val::Bool(false)) {
            break;
        }
        let inner = Scope::new(&comprehension.iter_var, item, Some(&accu));
        if let Some((condition, element)) = grown {
            let wanted = match condition {
                Some(condition) => match eval(condition, &inner, budget)? {
                    Val::Bool(wanted) => wanted,
                    _ => return Err(EvalError::Overload),
                },
                None => true,
            };
            // The accumulated list, a list with one item, and their sum.
            if wanted {
                budget.spend(LIST_COST + 2)?;
                list.push(eval(element, &inner, budget)?);
            }
            continue;
        }
        accu.value = match eval(&comprehension.loop_step, &inner, budget) {
            Ok(value) => value,
            Err(EvalError::Budget) => return Err(EvalError::Budget),
            Err(error) => Val::Failed(error),
        };
    }
    if grown.is_some() {
        accu.value = Val::list(list);
    }
    eval(&comprehension.result, &accu, budget)
}

/// A comprehension that only appends to a list: its condition and its item. Appending in place is linear.
fn growth(comprehension: &ComprehensionExpr) -> Option<(Option<&IdedExpr>, &IdedExpr)> {
    let is_accu =
        |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if *name == comprehension.accu_var);
    let appended = |expr: &'_ IdedExpr| -> bool {
        matches!(&expr.expr, Expr::Call(call) if call.func_name == operators::ADD && call.args.len() == 2
            && is_accu(&call.args[0]) && matches!(&call.args[1].expr, Expr::List(list) if list.elements.len() == 1))
    };
    let Expr::Call(step) = &comprehension.loop_step.expr else {
        return None;
    };
    let (condition, append) = if appended(&comprehension.loop_step) {
        (None, step)
    } else if step.func_name == operators::CONDITIONAL
        && step.args.len() == 3
        && appended(&step.args[1])
        && is_accu(&step.args[2])
    {
        match &step.args[1].expr {
            Expr::Call(append) => (Some(&step.args[0]), append),
            _ => return None,
        }
    } else {
        return None;
    };
    match &append.args[1].expr {
        Expr::List(list) => Some((condition, &list.elements[0])),
        _ => None,
    }
}

fn call<'a>(call: &CallExpr, scope: &Scope<'_, 'a>, budget: &mut Budget) -> Result<Val<'a>> {
    let name = call.func_name.as_str();
    match (name, call.args.as_slice()) {
        (operators::CONDITIONAL, [condition, yes, no]) => match eval(condition, scope, budget)? {
            Val::Bool(true) => branch(yes, scope, budget),
            Val::Bool(false) => branch(no, scope, budget),
            _ => Err(EvalError::Overload),
        },
        (operators::LOGICAL_OR, [one, other]) => either(true, one, other, scope, budget),
        (operators::LOGICAL_AND, [one, other]) => either(false, one, other, scope, budget),
        (operators::NOT_STRICTLY_FALSE, [operand]) => match eval(operand, scope, budget) {
            Ok(Val::Bool(false)) => Ok(Val::Bool(false)),
            Err(EvalError::Budget) => Err(EvalError::Budget),
            _ => Ok(Val::Bool(true)),
        },
        ("optMap" | "optFlatMap", [variable, body]) => {
            let target = call.target.as_ref().ok_or(EvalError::Overload)?;
            let (Val::Optional(inner), Expr::Ident(variable)) =
                (eval(target, scope, budget)?, &variable.expr)
            else {
                return Err(EvalError::Overload);
            };
            let Some(inner) = inner else {
                return Ok(Val::Optional(None));
            };
            let inner = Scope::new(variable, (*inner).clone(), Some(scope));
            match (name, eval(body, &inner, budget)?) {
                ("optFlatMap", value @ Val::Optional(_)) => Ok(value),
                ("optFlatMap", _) => Err(EvalError::Overload),
                (_, value) => Ok(Val::Optional(Some(value.into()))),
            }
        }
        _ => {
            let namespace = match call.target.as_deref().map(|target| &target.expr) {
                Some(Expr::Ident(name)) if scope.find(name).is_none() => Some(name.as_str()),
                _ => None,
            };
            let target = match (&call.target, namespace) {
                (Some(target), None) => Some(eval(target, scope, budget)?),
                _ => None,
            };
            let mut args = Vec::with_capacity(call.args.len());
            for arg in &call.args {
                args.push(eval(arg, scope, budget)?);
            }
            functions::call(name, namespace, target.as_ref(), &args, budget)
        }
    }
}

/// Evaluates a branch of a condition; a plain variable costs nothing.
fn branch<'a>(expr: &IdedExpr, scope: &Scope<'_, 'a>, budget: &mut Budget) -> Result<Val<'a>> {
    match &expr.expr {
        Expr::Ident(name) => variable(name, scope),
        _ => eval(expr, scope, budget),
    }
}

/// `||` and `&&`: one operand may decide the result although the other failed.
fn either<'a>(
    decides: bool,
    one: &IdedExpr,
    other: &IdedExpr,
    scope: &Scope<'_, 'a>,
    budget: &mut Budget,
) -> Result<Val<'a>> {
    let side = |expr: &IdedExpr, budget: &mut Budget| match eval(expr, scope, budget) {
        Ok(Val::Bool(b)) => Ok(b),
        Ok(_) => Err(EvalError::Overload),
        Err(error) => Err(error),
    };
    let left = side(one, budget);
    if left == Ok(decides) || left == Err(EvalError::Budget) {
        return left.map(Val::Bool);
    }
    match (left, side(other, budget)) {
        (_, Ok(right)) if right == decides => Ok(Val::Bool(decides)),
        (_, Err(EvalError::Budget)) => Err(EvalError::Budget),
        (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        (Ok(_), Ok(_)) => Ok(Val::Bool(!decides)),
    }
}
