//! What operators give for what they are applied to, and what they cost, before anything is evaluated.

use kube_cel::cel::common::ast::operators;

use super::check::{joined, no_overload};
use super::shape::{REQUEST_LIMIT, Shape, Ty};

/// A tenth for each byte.
pub(super) fn traversal(size: u64) -> u64 {
    size / 10 + 1
}

/// The result of an operator, and what it costs itself.
pub(super) fn operator<'n>(name: &str, operands: &[&Shape<'n>]) -> Result<(Shape<'n>, u64), String> {
    let refuse = || no_overload(name, operands);
    let is_bool = |shape: &Shape<'_>| matches!(shape.ty, Ty::Bool | Ty::Dyn);
    let not_bool = |shape: &Shape<'_>| Err(format!("expected type 'bool' but found '{}'", shape.ty.name()));
    let truth = |cost: u64| Ok((Shape::plain(Ty::Bool), cost));
    match (name, operands) {
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [wrong, _] | [_, wrong]) if !is_bool(wrong) => {
            not_bool(wrong)
        }
        (operators::CONDITIONAL, [wrong, _, _]) if !is_bool(wrong) => not_bool(wrong),
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, _]) => truth(0),
        (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [a]) if is_bool(a) => truth(1),
        (operators::CONDITIONAL, [_, yes, no]) => Ok((joined((*yes).clone(), no), 0)),
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) if a.ty.fits(&b.ty) => {
            truth(traversal(a.size.min(b.size)))
        }
        (operators::IN, [item, container]) => match &container.ty {
            Ty::List(items) if items.ty.fits(&item.ty) => truth(container.size.max(1)),
            Ty::Map(_) | Ty::Dyn | Ty::Object(..) => truth(1),
            _ => Err(refuse()),
        },
        (
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
            [a, b],
        ) => {
            let number = |ty: &Ty<'_>| matches!(ty, Ty::Int | Ty::Uint | Ty::Double);
            let ordered = |ty: &Ty<'_>| {
                !matches!(
                    ty,
                    Ty::List(_) | Ty::Map(_) | Ty::Object(..) | Ty::Metadata | Ty::Null | Ty::Type
                )
            };
            let fit = (number(&a.ty) && number(&b.ty)) || a.ty.fits(&b.ty);
            if fit && ordered(&a.ty) && ordered(&b.ty) {
                truth(traversal(a.size.min(b.size)))
            } else {
                Err(refuse())
            }
        }
        (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT, [container, _]) => {
            let below = match &container.ty {
                Ty::List(below) | Ty::Map(below) => (**below).clone(),
                Ty::Dyn | Ty::Object(..) | Ty::Optional(_) => Shape::new(Ty::Dyn, REQUEST_LIMIT),
                _ => return Err(refuse()),
            };
            if name == operators::INDEX {
                Ok((below, 1))
            } else {
                Ok((Shape::plain(Ty::Optional(Box::new(below))), 1))
            }
        }
        (operators::NEGATE, [a]) if matches!(a.ty, Ty::Int | Ty::Double | Ty::Dyn) => Ok(((*a).clone(), 1)),
        (operators::ADD, [a, b]) => {
            let size = a.size.saturating_add(b.size);
            match (&a.ty, &b.ty) {
                (Ty::Timestamp, Ty::Duration) | (Ty::Duration, Ty::Timestamp) => {
                    Ok((Shape::plain(Ty::Timestamp), 1))
                }
                (
                    Ty::Int
                    | Ty::Uint
                    | Ty::Double
                    | Ty::Text
                    | Ty::Bytes
                    | Ty::Duration
                    | Ty::List(_)
                    | Ty::Dyn,
                    other,
                ) if a.ty.fits(other) => {
                    let ty = if matches!(a.ty, Ty::Dyn) {
                        b.ty.clone()
                    } else {
                        a.ty.clone()
                    };
                    let cost = if matches!(ty, Ty::List(_)) {
                        1
                    } else {
                        traversal(size)
                    };
                    Ok((Shape::new(ty, size), cost))
                }
                _ => Err(refuse()),
            }
        }
        (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [a, b]) => {
            match (&a.ty, &b.ty) {
                (Ty::Timestamp, Ty::Timestamp) => Ok((Shape::plain(Ty::Duration), 1)),
                (Ty::Timestamp, Ty::Duration) => Ok((Shape::plain(Ty::Timestamp), 1)),
                (Ty::Int | Ty::Uint | Ty::Double | Ty::Duration | Ty::Dyn, other) if a.ty.fits(other) => {
                    Ok(((*a).clone(), 1))
                }
                _ => Err(refuse()),
            }
        }
        _ => Err(refuse()),
    }
}
