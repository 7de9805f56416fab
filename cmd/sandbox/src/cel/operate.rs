//! CEL operators: arithmetic, order, equality, and indexing.

use std::cmp::Ordering;

use kube_cel::cel::common::ast::operators;

use crate::apiextensions::structural::lists;
use crate::apiextensions::structural::node::List;
use crate::cel::eval::{Budget, EvalError, Result};
use crate::cel::library;
use crate::cel::value::Val;
use crate::json::Value;

/// Applies a binary operator.
pub(crate) fn binary<'a>(operator: &str, a: &Val<'a>, b: &Val<'a>, budget: &mut Budget) -> Result<Val<'a>> {
    match operator {
        operators::EQUALS => return Ok(Val::Bool(equal(a, b, budget)?)),
        operators::NOT_EQUALS => return Ok(Val::Bool(!equal(a, b, budget)?)),
        operators::IN => return contains(b, a, budget).map(Val::Bool),
        operators::INDEX => return index(a, b),
        operators::OPT_INDEX | operators::OPT_SELECT => {
            let a = match a {
                Val::Optional(None) => return Ok(Val::Optional(None)),
                Val::Optional(Some(inner)) => inner,
                other => other,
            };
            return Ok(Val::Optional(index(a, b).ok().map(Into::into)));
        }
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            budget.spend(a.weight().min(b.weight()))?;
            let order = compare(a, b).ok_or(EvalError::Overload)?;
            return Ok(Val::Bool(match operator {
                operators::LESS => order == Ordering::Less,
                operators::LESS_EQUALS => order != Ordering::Greater,
                operators::GREATER => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }));
        }
        _ => {}
    }
    arithmetic(operator, a, b, budget)
}

fn arithmetic<'a>(operator: &str, a: &Val<'a>, b: &Val<'a>, budget: &mut Budget) -> Result<Val<'a>> {
    if let (Val::Text(a), Val::Text(b)) = (a, b) {
        budget.spend(u64::try_from((a.len() + b.len()) / 10).unwrap_or(u64::MAX))?;
    }
    let (Some(one), Some(other)) = (library::scalar(a), library::scalar(b)) else {
        if operator == operators::ADD {
            return concatenated(a, b, budget);
        }
        return Err(EvalError::Overload);
    };
    library::result(match operator {
        operators::ADD => one + other,
        operators::SUBSTRACT => one - other,
        operators::MULTIPLY => one * other,
        operators::DIVIDE => one / other,
        operators::MODULO => one % other,
        _ => return Err(EvalError::Overload),
    })
}

/// Concatenates lists by their type: a set keeps unique items, a map list replaces items of the same key.
fn concatenated<'a>(a: &Val<'a>, b: &Val<'a>, budget: &mut Budget) -> Result<Val<'a>> {
    let (Some(mut items), Some(more)) = (a.items(), b.items()) else {
        return Err(EvalError::Overload);
    };
    budget.spend(a.weight().saturating_add(b.weight()))?;
    let list = match a {
        Val::Json(_, Some(node)) => &node.list,
        _ => &List::Atomic,
    };
    for item in more {
        let present = match list {
            List::Atomic => None,
            List::Set => position(&items, |one, budget| equal(one, &item, budget), budget)?,
            List::Map(keys) => {
                let key = |value: &Val<'a>| match value {
                    Val::Json(value, _) => lists::key_of(keys, value),
                    _ => Value::Null,
                };
                let wanted = key(&item);
                position(
                    &items,
                    |one, budget| {
                        budget.spend(1)?;
                        Ok(key(one) == wanted)
                    },
                    budget,
                )?
            }
        };
        match present {
            Some(at) => items[at] = item,
            None => items.push(item),
        }
    }
    Ok(Val::list(items))
}

fn position<'a>(
    items: &[Val<'a>],
    mut matches: impl FnMut(&Val<'a>, &mut Budget) -> Result<bool>,
    budget: &mut Budget,
) -> Result<Option<usize>> {
    for (index, item) in items.iter().enumerate() {
        if matches(item, budget)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Compares scalars; numbers of any type by their value.
fn compare(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    library::scalar(a)?.partial_cmp(&library::scalar(b)?)
}

/// Whether two values are equal. The order of sets and map lists is ignored.
pub(crate) fn equal(a: &Val<'_>, b: &Val<'_>, budget: &mut Budget) -> Result<bool> {
    budget.spend(1)?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) | (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Optional(Some(a)), Val::Optional(Some(b))) => equal(a, b, budget)?,
        (Val::Text(x), Val::Text(y)) => {
            budget.spend(a.weight().min(b.weight()).saturating_sub(1))?;
            x == y
        }
        (Val::Other(a), Val::Other(b)) => a == b,
        _ => {
            if let Some(order) = compare(a, b) {
                return Ok(order == Ordering::Equal);
            }
            if let (Some(x), Some(y)) = (a.items(), b.items()) {
                return same_items(a, &x, &y, budget);
            }
            let (Some(x), Some(_)) = (a.entries(), b.entries()) else {
                return Ok(false);
            };
            if a.size() != b.size() {
                return Ok(false);
            }
            for (key, value) in &x {
                match lookup(b, key)? {
                    Some(other) if equal(value, &other, budget)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
    })
}

fn same_items(list: &Val<'_>, x: &[Val<'_>], y: &[Val<'_>], budget: &mut Budget) -> Result<bool> {
    if x.len() != y.len() {
        return Ok(false);
    }
    let any_order = matches!(list, Val::Json(_, Some(node)) if node.list != List::Atomic);
    for (index, item) in x.iter().enumerate() {
        let found = equal(item, &y[index], budget)?
            || (any_order && position(y, |one, budget| equal(one, item, budget), budget)?.is_some());
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains(container: &Val<'_>, item: &Val<'_>, budget: &mut Budget) -> Result<bool> {
    if let Some(items) = container.items() {
        // The server charges the same for every list of this length; comparing objects costs more here.
        if item.items().is_none() && item.entries().is_none() {
            budget.spend(u64::try_from(items.len()).unwrap_or(u64::MAX).saturating_sub(1))?;
            let mut free = Budget::new(u64::MAX);
            let found = position(&items, |one, budget| equal(one, item, budget), &mut free)?;
            return Ok(found.is_some());
        }
        return Ok(position(&items, |one, budget| equal(one, item, budget), budget)?.is_some());
    }
    if container.entries().is_some() {
        return Ok(lookup(container, item)?.is_some());
    }
    Err(EvalError::Overload)
}

/// Returns the value of a key.
pub(crate) fn lookup<'a>(map: &Val<'a>, key: &Val<'_>) -> Result<Option<Val<'a>>> {
    match (map, key) {
        (Val::Json(Value::Object(map), node), Val::Text(key)) => Ok(map
            .get(key)
            .map(|value| Val::of(value, node.and_then(|node| node.below(key))))),
        (Val::Json(Value::Object(_), _), _) => Ok(None),
        (Val::Map(entries), key) => {
            let mut budget = Budget::new(u64::MAX);
            for (one, value) in entries.iter() {
                if equal(one, key, &mut budget)? {
                    return Ok(Some(value.clone()));
                }
            }
            Ok(None)
        }
        _ => Err(EvalError::Overload),
    }
}

fn index<'a>(operand: &Val<'a>, key: &Val<'a>) -> Result<Val<'a>> {
    let at = |key: &Val<'_>| match key {
        Val::Int(n) => Ok(*n),
        Val::Uint(n) => i64::try_from(*n).map_err(|_| EvalError::Overload),
        #[allow(clippy::cast_possible_truncation)]
        Val::Double(n) if n.fract() == 0.0 => Ok(*n as i64),
        _ => Err(EvalError::Overload),
    };
    match operand {
        Val::List(items) => {
            let at = at(key)?;
            let found = usize::try_from(at).ok().and_then(|at| items.get(at));
            found.cloned().ok_or(EvalError::OutOfBounds(at))
        }
        Val::Json(Value::Array(items), node) => {
            let at = at(key)?;
            let found = usize::try_from(at).ok().and_then(|at| items.get(at));
            let below = node.and_then(|node| node.items.as_deref());
            found
                .map(|item| Val::of(item, below))
                .ok_or(EvalError::OutOfBounds(at))
        }
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => Ok(Val::Optional(index(inner, key).ok().map(Into::into))),
        _ => lookup(operand, key)?.ok_or_else(|| {
            EvalError::NoSuchKey(match key {
                Val::Text(text) => text.to_string(),
                Val::Int(n) => n.to_string(),
                other => other.type_name(),
            })
        }),
    }
}
