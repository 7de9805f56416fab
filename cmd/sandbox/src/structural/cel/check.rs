//! What is known of an expression before it is evaluated: whether its names and types make sense, and its worst cost.
//!
//! Types are inferred as far as the schema and the common functions go; the rest is [`Ty::Dyn`], and shows when it is
//! evaluated. Costs follow the server's: one for a step, a tenth for a byte that is looked at, times the items of lists.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};

use super::super::node::Node;
use super::authorizer::{self, Kind};
use super::eval::type_named;
use super::known::function;
use super::library::NAMESPACES;
use super::overloads::operator;
use super::shape::{REQUEST_LIMIT, Shape, Ty};
use super::value::unescape;

/// An expression that makes sense.
pub struct Checked {
    /// The most that one evaluation can cost.
    pub cost: u64,
    /// Whether it speaks of the old value.
    pub uses_old: bool,
}

/// Checks an expression about values of `node`; `wanted` is `bool` or `string`. The error is the server's text.
pub fn check(
    text: &str,
    node: &Node,
    resource: bool,
    optional_old: bool,
    wanted: &str,
) -> Result<Checked, String> {
    let expression = super::parse(text).map_err(|why| format!("compilation failed: {why}"))?;
    let own = Shape::of(node, resource).ok_or_else(|| {
        "compilation failed: ERROR: <input>:1:1: the schema does not say of what type it is".to_owned()
    })?;
    let old = if optional_old {
        Shape::plain(Ty::Optional(Box::new(own.clone())))
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
        (&found.shape.ty, wanted),
        (Ty::Dyn | Ty::Bool, "bool") | (Ty::Dyn | Ty::Text, "string")
    );
    if !fits {
        return Err(match wanted {
            "bool" => "cel expression must evaluate to a bool".to_owned(),
            _ => "messageExpression must evaluate to a string".to_owned(),
        });
    }
    Ok(Checked {
        cost: found.cost,
        uses_old: mentions(&expression, "oldSelf"),
    })
}

/// What an expression yields that speaks of these variables.
pub(super) fn infer_in<'n>(
    expression: &IdedExpr,
    scope: Vec<(String, Shape<'n>)>,
) -> Result<Shape<'n>, String> {
    let mut checker = Checker { scope };
    checker.infer(expression).map(|found| found.shape)
}

/// Whether an expression speaks of a variable.
pub(super) fn mentions(expr: &IdedExpr, name: &str) -> bool {
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

/// What is known of a part of an expression.
struct Found<'n> {
    shape: Shape<'n>,
    cost: u64,
}

impl<'n> Found<'n> {
    fn new(ty: Ty<'n>, size: u64, cost: u64) -> Self {
        Self {
            shape: Shape::new(ty, size),
            cost,
        }
    }
}

struct Checker<'n> {
    scope: Vec<(String, Shape<'n>)>,
}

impl<'n> Checker<'n> {
    fn infer(&mut self, expr: &IdedExpr) -> Result<Found<'n>, String> {
        match &expr.expr {
            Expr::Literal(literal) => Ok(self::literal(literal)),
            Expr::Ident(name) => match self.find(name) {
                Some(shape) => Ok(Found { shape, cost: 1 }),
                None if type_named(name).is_some() => Ok(Found::new(Ty::Type, 1, 1)),
                None => Err(undeclared(name)),
            },
            Expr::Select(select) => {
                let operand = self.infer(&select.operand)?;
                // A variable with a dot in its name.
                if matches!(&select.operand.expr, Expr::Ident(_))
                    && matches!(operand.shape.ty, Ty::Authority(Kind::Authorizer))
                    && select.field == "requestResource"
                    && !select.test
                {
                    return Ok(Found::new(Ty::Authority(Kind::Resource), 1, 1));
                }
                let shape = selected(&operand.shape, &select.field)?;
                let cost = operand.cost.saturating_add(u64::from(!select.test));
                let shape = if select.test {
                    Shape::plain(Ty::Bool)
                } else {
                    shape
                };
                Ok(Found { shape, cost })
            }
            Expr::List(list) => {
                let mut cost = 10_u64;
                let mut below: Option<Shape<'n>> = None;
                for element in &list.elements {
                    let found = self.infer(element)?;
                    cost = cost.saturating_add(found.cost);
                    below = Some(match below {
                        None => found.shape,
                        Some(one) => joined(one, &found.shape),
                    });
                }
                let size = u64::try_from(list.elements.len()).unwrap_or(u64::MAX);
                let below = below.unwrap_or(Shape::plain(Ty::Dyn));
                Ok(Found::new(Ty::List(Box::new(below)), size, cost))
            }
            Expr::Map(map) => {
                let mut cost = 30_u64;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err("a message cannot be made here".to_owned());
                    };
                    cost = cost.saturating_add(self.infer(&entry.key)?.cost);
                    cost = cost.saturating_add(self.infer(&entry.value)?.cost);
                }
                let size = u64::try_from(map.entries.len()).unwrap_or(u64::MAX);
                Ok(Found::new(
                    Ty::Map(Box::new(Shape::new(Ty::Dyn, REQUEST_LIMIT))),
                    size,
                    cost,
                ))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(call),
            Expr::Struct(message) => Err(undeclared(&message.type_name)),
            Expr::Unspecified => Err("Syntax error: nothing to evaluate".to_owned()),
        }
    }

    fn find(&self, name: &str) -> Option<Shape<'n>> {
        let found = self.scope.iter().rev().find(|(one, _)| one == name);
        found.map(|(_, shape)| shape.clone())
    }

    /// What an expression is with one more variable.
    fn within(&mut self, name: &str, shape: Shape<'n>, expr: &IdedExpr) -> Result<Found<'n>, String> {
        self.scope.push((name.to_owned(), shape));
        let found = self.infer(expr);
        self.scope.pop();
        found
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> Result<Found<'n>, String> {
        let range = self.infer(&c.iter_range)?;
        let start = self.infer(&c.accu_init)?;
        let item = match &range.shape.ty {
            Ty::List(items) => (**items).clone(),
            Ty::Map(_) => Shape::new(Ty::Text, REQUEST_LIMIT),
            Ty::Dyn | Ty::Object(..) => Shape::new(Ty::Dyn, REQUEST_LIMIT),
            other => {
                return Err(format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.name()
                ));
            }
        };
        let mut accu = start.shape.clone();
        self.scope.push((c.accu_var.clone(), accu.clone()));
        let outcome = (|| {
            let condition = self.infer(&c.loop_cond)?;
            let step = self.within(&c.iter_var, item, &c.loop_step)?;
            Ok::<_, String>((condition, step))
        })();
        self.scope.pop();
        let (condition, step) = outcome?;
        if let Ty::List(items) = &step.shape.ty {
            accu = Shape::new(Ty::List(items.clone()), range.shape.size);
        }
        let result = self.within(&c.accu_var, accu, &c.result)?;
        let each = condition.cost.saturating_add(step.cost);
        let cost = [
            range.cost,
            start.cost,
            result.cost,
            range.shape.size.saturating_mul(each),
        ]
        .into_iter()
        .fold(0, u64::saturating_add);
        Ok(Found {
            shape: result.shape,
            cost,
        })
    }

    fn call(&mut self, call: &CallExpr) -> Result<Found<'n>, String> {
        let name = call.func_name.as_str();
        if let ("optMap" | "optFlatMap", Some(target), [variable, body]) =
            (name, &call.target, call.args.as_slice())
        {
            let target = self.infer(target)?;
            let (Ty::Optional(inner), Expr::Ident(variable)) = (&target.shape.ty, &variable.expr) else {
                return Err(no_overload(name, &[&target.shape]));
            };
            let body = self.within(variable, (**inner).clone(), body)?;
            let shape = match body.shape {
                shape if name == "optFlatMap" => shape,
                shape => Shape::plain(Ty::Optional(Box::new(shape))),
            };
            let cost = target.cost.saturating_add(body.cost).saturating_add(1);
            return Ok(Found { shape, cost });
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
        let costs = target.iter().chain(&args).map(|found| found.cost);
        let sum = costs.fold(0, u64::saturating_add);
        let operands: Vec<&Shape<'n>> = target.iter().chain(&args).map(|found| &found.shape).collect();
        let asked = operands.first().and_then(|first| match first.ty {
            Ty::Authority(kind) if target.is_some() => Some(kind),
            _ => None,
        });
        let (shape, own) = if let Some(kind) = asked {
            authorizer::function(kind, name, &operands)?
        } else if namespace.is_none() && (name.starts_with(['_', '@', '!', '-'])) {
            operator(name, &operands)?
        } else {
            function(name, namespace, target.is_some(), &operands)?
        };
        Ok(Found {
            shape,
            cost: sum.saturating_add(own),
        })
    }
}

fn literal<'n>(literal: &LiteralValue) -> Found<'n> {
    let (ty, size) = match literal {
        LiteralValue::Boolean(_) => (Ty::Bool, 1),
        LiteralValue::Int(_) => (Ty::Int, 1),
        LiteralValue::UInt(_) => (Ty::Uint, 1),
        LiteralValue::Double(_) => (Ty::Double, 1),
        LiteralValue::Null => (Ty::Null, 1),
        LiteralValue::Bytes(bytes) => (Ty::Bytes, bytes.inner().len()),
        LiteralValue::String(text) => (Ty::Text, text.inner().len()),
    };
    Found::new(ty, u64::try_from(size).unwrap_or(u64::MAX), 0)
}

pub(super) fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

pub(super) fn no_overload(name: &str, operands: &[&Shape<'_>]) -> String {
    let types: Vec<String> = operands.iter().map(|shape| shape.ty.name()).collect();
    format!(
        "found no matching overload for '{name}' applied to '({})'",
        types.join(", ")
    )
}

/// One shape for either of two.
pub(super) fn joined<'n>(one: Shape<'n>, other: &Shape<'n>) -> Shape<'n> {
    let size = one.size.max(other.size);
    let ty = if std::mem::discriminant(&one.ty) == std::mem::discriminant(&other.ty) {
        one.ty
    } else {
        Ty::Dyn
    };
    Shape::new(ty, size)
}

fn selected<'n>(operand: &Shape<'n>, field: &str) -> Result<Shape<'n>, String> {
    let undefined = || format!("undefined field '{field}'");
    match &operand.ty {
        Ty::Dyn => Ok(Shape::new(Ty::Dyn, REQUEST_LIMIT)),
        Ty::Map(values) => Ok((**values).clone()),
        Ty::Object(node, resource) => Shape::field(node, *resource, &unescape(field)).ok_or_else(undefined),
        Ty::Metadata if matches!(field, "name" | "generateName") => Ok(Shape::new(Ty::Text, 256)),
        Ty::Metadata => Err(undefined()),
        Ty::Authority(kind) => Err(format!("unexpected failed resolution of '{}'", kind.name())),
        Ty::Optional(inner) => Ok(Shape::plain(Ty::Optional(Box::new(selected(inner, field)?)))),
        other => Err(format!(
            "type '{}' does not support field selection",
            other.name()
        )),
    }
}
