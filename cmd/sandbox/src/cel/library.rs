//! The Kubernetes CEL libraries, as `kube-cel` provides them.
//!
//! A call becomes an expression of its own, whose arguments are variables. The library evaluates one call at a time, so that
//! the evaluator can charge its cost first.

use std::sync::Arc;

use base64::Engine as _;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use crate::cel::eval::EvalError;
use crate::cel::value::Val;

/// Returns all functions. An evaluation keeps the result.
pub(crate) fn functions() -> Context<'static> {
    Context::default().with_all()
}

/// Qualifiers of functions with a qualified name.
pub(crate) const NAMESPACES: [&str; 7] = ["sets", "ip", "cidr", "format", "lists", "strings", "jsonpatch"];

/// Calls a function or an operator. `namespace` is the qualifier, `target` the receiver.
pub(crate) fn call<'a>(
    functions: &Context<'static>,
    name: &str,
    namespace: Option<&str>,
    target: Option<&Val<'a>>,
    args: &[Val<'a>],
) -> Result<Val<'a>, EvalError> {
    let ident = |name: &str| IdedExpr {
        id: 0,
        expr: Expr::Ident(name.to_owned()),
    };
    let mut context = functions.new_inner_scope();
    let mut names = Vec::with_capacity(args.len());
    for (index, arg) in args.iter().enumerate() {
        let name = format!("a{index}");
        context.add_variable_from_value(name.clone(), to_library(arg)?);
        names.push(ident(&name));
    }
    if let Some(target) = target {
        context.add_variable_from_value("target", to_library(target)?);
    }
    let before = namespace.or(target.map(|_| "target"));
    let expression = IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: before.map(|name| Box::new(ident(name))),
            args: names,
        }),
    };
    result(Value::resolve(&expression, &context))
}

/// Returns the result of the library.
pub(crate) fn result<'a>(result: Result<Value, ExecutionError>) -> Result<Val<'a>, EvalError> {
    result.map(from_library).map_err(|error| match error {
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..) => EvalError::Overload,
        ExecutionError::FunctionError { message, .. } => EvalError::Failed(message),
        ExecutionError::DivisionByZero(_) => EvalError::Failed("division by zero".to_owned()),
        ExecutionError::RemainderByZero(_) => EvalError::Failed("modulus by zero".to_owned()),
        other => EvalError::Failed(other.to_string()),
    })
}

/// Returns a value that is not a collection.
pub(crate) fn scalar(value: &Val<'_>) -> Option<Value> {
    match value {
        Val::List(_) | Val::Map(_) | Val::Json(..) => None,
        other => to_library(other).ok(),
    }
}

fn to_library(value: &Val<'_>) -> Result<Value, EvalError> {
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(b) => Value::Bool(*b),
        Val::Int(n) => Value::Int(*n),
        Val::Uint(n) => Value::UInt(*n),
        Val::Double(n) => Value::Float(*n),
        Val::Text(text) => Value::String(Arc::new(text.to_string())),
        Val::Other(value) => value.clone(),
        Val::Type(_) | Val::Optional(_) | Val::Failed(_) => {
            return Err(EvalError::Overload);
        }
        Val::List(_) | Val::Map(_) | Val::Json(..) => {
            if let Some(items) = value.items() {
                let items: Result<Vec<Value>, EvalError> = items.iter().map(to_library).collect();
                Value::List(Arc::new(items?))
            } else {
                let entry = |(key, value): (Val<'_>, Val<'_>)| {
                    let key = match key {
                        Val::Bool(b) => Key::Bool(b),
                        Val::Int(n) => Key::Int(n),
                        Val::Uint(n) => Key::Uint(n),
                        Val::Text(text) => Key::String(Arc::new(text.into_owned())),
                        _ => return Err(EvalError::Overload),
                    };
                    Ok((key, to_library(&value)?))
                };
                let entries = value.entries().unwrap_or_default();
                let map: Result<_, EvalError> = entries.into_iter().map(entry).collect();
                Value::Map(Map { map: Arc::new(map?) })
            }
        }
    })
}

fn from_library<'a>(value: Value) -> Val<'a> {
    match value {
        Value::Null => Val::Null,
        Value::Bool(b) => Val::Bool(b),
        Value::Int(n) => Val::Int(n),
        Value::UInt(n) => Val::Uint(n),
        Value::Float(n) => Val::Double(n),
        Value::String(text) => Val::text(text.to_string()),
        Value::List(items) => Val::list(items.iter().cloned().map(from_library).collect()),
        other => Val::Other(other),
    }
}

/// Parses a timestamp or a duration; an invalid one stays a string, which schema validation rejects.
pub(crate) fn parsed<'a>(function: &str, text: &str) -> Val<'a> {
    let text = Val::text(text.to_owned());
    // Both functions belong to the standard library.
    let functions = Context::default();
    call(&functions, function, None, None, std::slice::from_ref(&text)).unwrap_or(text)
}

/// Decodes base64.
pub(crate) fn bytes<'a>(text: &str) -> Val<'a> {
    match base64::engine::general_purpose::STANDARD.decode(text) {
        Ok(bytes) => Val::Other(Value::Bytes(Arc::new(bytes))),
        Err(_) => Val::text(text.to_owned()),
    }
}
