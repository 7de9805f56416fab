//! The CEL type checker.
//!
//! Types come from the schema and the declared functions; the others are [`Ty::Dyn`], whose errors show in the evaluation.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};

use crate::apiextensions::structural::node::Node;
use crate::cel::declarations::function;
use crate::cel::declarations::operator;
use crate::cel::eval::type_named;
use crate::cel::library::NAMESPACES;
use crate::cel::types::Ty;
use crate::cel::value::unescape;

/// Checks an expression about values of `node`; `wanted` is `bool` or `string`. Returns whether it mentions `oldSelf`.
pub fn check(
    text: &str,
    node: &Node,
    resource: bool,
    optional_old: bool,
    wanted: &str,
) -> Result<bool, String> {
    let expression = crate::cel::parse(text).map_err(|why| format!("compilation failed: {why}"))?;
    let own = Ty::of(node, resource).ok_or_else(|| {
        "compilation failed: ERROR: <input>:1:1: the schema does not say of what type it is".to_owned()
    })?;
    let old = if optional_old {
        Ty::Optional(Box::new(own.clone()))
    } else {
        own.clone()
    };
    let mut checker = Checker {
        scope: vec![("oldSelf".to_owned(), old), ("self".to_owned(), own)],
    };
    let found = checker
        .infer(&expression)
        .map_err(|why| format!("compilation failed: ERROR: <input>: {why}"))?;
    let fits = matches!(
        (&found, wanted),
        (Ty::Dyn | Ty::Bool, "bool") | (Ty::Dyn | Ty::Text, "string")
    );
    if !fits {
        return Err(match wanted {
            "bool" => "cel expression must evaluate to a bool".to_owned(),
            _ => "messageExpression must evaluate to a string".to_owned(),
        });
    }
    Ok(mentions(&expression, "oldSelf"))
}

/// Returns the type of an expression over these variables.
pub(crate) fn infer_in<'n>(expression: &IdedExpr, scope: Vec<(String, Ty<'n>)>) -> Result<Ty<'n>, String> {
    Checker { scope }.infer(expression)
}

/// Whether an expression mentions a variable.
pub(crate) fn mentions(expr: &IdedExpr, name: &str) -> bool {
    let any = |list: &[IdedExpr]| list.iter().any(|expr| mentions(expr, name));
    match &expr.expr {
        Expr::Ident(ident) => ident == name,
        Expr::Select(select) => mentions(&select.operand, name),
        Expr::List(list) => any(&list.elements),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => mentions(&entry.key, name) || mentions(&entry.value, name),
            EntryExpr::StructField(field) => mentions(&field.value, name),
        }),
        Expr::Call(call) => {
            any(&call.args) || call.target.as_ref().is_some_and(|target| mentions(target, name))
        }
        Expr::Comprehension(c) => [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result]
            .into_iter()
            .any(|expr| mentions(expr, name)),
        Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => false,
    }
}

struct Checker<'n> {
    scope: Vec<(String, Ty<'n>)>,
}

impl<'n> Checker<'n> {
    fn infer(&mut self, expr: &IdedExpr) -> Result<Ty<'n>, String> {
        match &expr.expr {
            Expr::Literal(literal) => Ok(self::literal(literal)),
            Expr::Ident(name) => match self.find(name) {
                Some(ty) => Ok(ty),
                None if type_named(name).is_some() => Ok(Ty::Type),
                None => Err(undeclared(name)),
            },
            Expr::Select(select) => {
                let operand = self.infer(&select.operand)?;
                let ty = selected(&operand, &select.field)?;
                Ok(if select.test { Ty::Bool } else { ty })
            }
            Expr::List(list) => {
                let mut below: Option<Ty<'n>> = None;
                for element in &list.elements {
                    let found = self.infer(element)?;
                    below = Some(match below {
                        None => found,
                        Some(one) => joined(one, &found),
                    });
                }
                Ok(Ty::List(Box::new(below.unwrap_or(Ty::Dyn))))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err("a message cannot be made here".to_owned());
                    };
                    self.infer(&entry.key)?;
                    self.infer(&entry.value)?;
                }
                Ok(Ty::Map(Box::new(Ty::Dyn)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(call),
            Expr::Struct(message) => Err(undeclared(&message.type_name)),
            Expr::Unspecified => Err("Syntax error: nothing to evaluate".to_owned()),
        }
    }

    fn find(&self, name: &str) -> Option<Ty<'n>> {
        let found = self.scope.iter().rev().find(|(one, _)| one == name);
        found.map(|(_, ty)| ty.clone())
    }

    /// Infers the type of an expression with one more variable.
    fn within(&mut self, name: &str, ty: Ty<'n>, expr: &IdedExpr) -> Result<Ty<'n>, String> {
        self.scope.push((name.to_owned(), ty));
        let found = self.infer(expr);
        self.scope.pop();
        found
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> Result<Ty<'n>, String> {
        let item = match self.infer(&c.iter_range)? {
            Ty::List(items) => *items,
            Ty::Map(_) => Ty::Text,
            Ty::Dyn | Ty::Object(..) => Ty::Dyn,
            other => {
                return Err(format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.name()
                ));
            }
        };
        let mut accu = self.infer(&c.accu_init)?;
        self.within(&c.accu_var, accu.clone(), &c.loop_cond)?;
        self.scope.push((c.accu_var.clone(), accu.clone()));
        let step = self.within(&c.iter_var, item, &c.loop_step);
        self.scope.pop();
        if let list @ Ty::List(_) = step? {
            accu = list;
        }
        self.within(&c.accu_var, accu, &c.result)
    }

    fn call(&mut self, call: &CallExpr) -> Result<Ty<'n>, String> {
        let name = call.func_name.as_str();
        if let ("optMap" | "optFlatMap", Some(target), [variable, body]) =
            (name, &call.target, call.args.as_slice())
        {
            let target = self.infer(target)?;
            let (Ty::Optional(inner), Expr::Ident(variable)) = (&target, &variable.expr) else {
                return Err(no_overload(name, &[&target]));
            };
            let body = self.within(variable, (**inner).clone(), body)?;
            return Ok(match name {
                "optFlatMap" => body,
                _ => Ty::Optional(Box::new(body)),
            });
        }
        let namespace = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(ident)) if self.find(ident).is_none() => Some(ident.as_str()),
            _ => None,
        };
        if let Some(namespace) = namespace
            && !NAMESPACES.contains(&namespace)
            && namespace != "optional"
        {
            return Err(undeclared(namespace));
        }
        let target = match (&call.target, namespace) {
            (Some(target), None) => Some(self.infer(target)?),
            _ => None,
        };
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.infer(arg)?);
        }
        let operands: Vec<&Ty<'n>> = target.iter().chain(&args).collect();
        if namespace.is_none() && name.starts_with(['_', '@', '!', '-']) {
            operator(name, &operands)
        } else {
            function(name, namespace, target.is_some(), &operands)
        }
    }
}

fn literal<'n>(literal: &LiteralValue) -> Ty<'n> {
    match literal {
        LiteralValue::Boolean(_) => Ty::Bool,
        LiteralValue::Int(_) => Ty::Int,
        LiteralValue::UInt(_) => Ty::Uint,
        LiteralValue::Double(_) => Ty::Double,
        LiteralValue::Null => Ty::Null,
        LiteralValue::Bytes(_) => Ty::Bytes,
        LiteralValue::String(_) => Ty::Text,
    }
}

pub(crate) fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

pub(crate) fn no_overload(name: &str, operands: &[&Ty<'_>]) -> String {
    let types: Vec<String> = operands.iter().map(|ty| ty.name()).collect();
    format!(
        "found no matching overload for '{name}' applied to '({})'",
        types.join(", ")
    )
}

/// The common type of two expressions.
pub(crate) fn joined<'n>(one: Ty<'n>, other: &Ty<'n>) -> Ty<'n> {
    if std::mem::discriminant(&one) == std::mem::discriminant(other) {
        one
    } else {
        Ty::Dyn
    }
}

fn selected<'n>(operand: &Ty<'n>, field: &str) -> Result<Ty<'n>, String> {
    let undefined = || format!("undefined field '{field}'");
    match operand {
        Ty::Dyn => Ok(Ty::Dyn),
        Ty::Map(values) => Ok((**values).clone()),
        Ty::Object(node, resource) => Ty::field(node, *resource, &unescape(field)).ok_or_else(undefined),
        Ty::Metadata if matches!(field, "name" | "generateName") => Ok(Ty::Text),
        Ty::Metadata => Err(undefined()),
        Ty::Optional(inner) => Ok(Ty::Optional(Box::new(selected(inner, field)?))),
        other => Err(format!(
            "type '{}' does not support field selection",
            other.name()
        )),
    }
}
