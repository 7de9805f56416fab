//! Declarations of the CEL type checker: result types of operators and functions.

use kube_cel::cel::common::ast::operators;

use crate::cel::check::{joined, no_overload, undeclared};
use crate::cel::types::Ty;

const TRUTHS: &str = "startsWith endsWith contains matches isSorted isURL isIP isCIDR isQuantity isInteger isSemver \
                      isGreaterThan isLessThan isLoopback isUnspecified isGlobalUnicast isLinkLocalMulticast \
                      isLinkLocalUnicast containsIP containsCIDR isCanonical hasValue intersects equivalent";
const TEXTS: &str = "string charAt format getScheme getHost getHostname getPort getEscapedPath quote escapeKey lowerAscii upperAscii \
                     substring trim find replace join";
const NUMBERS: &str = "size int indexOf lastIndexOf getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek \
                       getHours getMinutes getSeconds getMilliseconds compareTo sign major minor prefixLength";
const OTHERS: &str = "dyn uint bytes sum min max getQuery url ip cidr quantity asInteger asApproximateFloat add sub semver \
                      patch family masked slice sort flatten distinct first last range or named validate";

fn listed(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// Returns the type of the result, or the reason why the function cannot be called.
pub(crate) fn function<'n>(
    name: &str,
    namespace: Option<&str>,
    method: bool,
    operands: &[&Ty<'n>],
) -> Result<Ty<'n>, String> {
    let text_only = matches!(
        name,
        "startsWith" | "endsWith" | "matches" | "lowerAscii" | "upperAscii" | "trim"
    );
    if text_only
        && method
        && let Some(target) = operands.first()
        && !matches!(target, Ty::Text | Ty::Dyn)
    {
        return Err(no_overload(name, operands));
    }
    if name == "size" && matches!(operands, [one] if matches!(one, Ty::Int | Ty::Bool | Ty::Double)) {
        return Err(no_overload(name, operands));
    }
    Ok(match (namespace, name) {
        (Some("format" | "lists"), _) if !listed(TEXTS, name) => Ty::Dyn,
        (_, "type") => Ty::Type,
        (_, "timestamp") => Ty::Timestamp,
        (_, "duration") => Ty::Duration,
        (_, "double") => Ty::Double,
        (_, "bool") => Ty::Bool,
        (_, "split" | "findAll") => Ty::List(Box::new(Ty::Text)),
        (_, "orValue") => match operands {
            [Ty::Optional(inner), other] => joined((**inner).clone(), other),
            _ => return Err(no_overload(name, operands)),
        },
        (_, "value") => match operands {
            [Ty::Optional(inner)] => (**inner).clone(),
            _ => return Err(no_overload(name, operands)),
        },
        (Some("optional"), "of" | "ofNonZeroValue") if operands.len() == 1 => {
            Ty::Optional(Box::new(operands[0].clone()))
        }
        (Some("optional"), "none") => Ty::Optional(Box::new(Ty::Dyn)),
        _ if listed(TRUTHS, name) => Ty::Bool,
        _ if listed(TEXTS, name) => Ty::Text,
        _ if listed(NUMBERS, name) => Ty::Int,
        _ if listed(OTHERS, name) => Ty::Dyn,
        _ => return Err(undeclared(name)),
    })
}

/// Returns the type of the result, or the reason why the operator cannot be applied.
pub(crate) fn operator<'n>(name: &str, operands: &[&Ty<'n>]) -> Result<Ty<'n>, String> {
    let refuse = || no_overload(name, operands);
    let is_bool = |ty: &Ty<'_>| matches!(ty, Ty::Bool | Ty::Dyn);
    let not_bool = |ty: &Ty<'_>| Err(format!("expected type 'bool' but found '{}'", ty.name()));
    match (name, operands) {
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [wrong, _] | [_, wrong]) if !is_bool(wrong) => {
            not_bool(wrong)
        }
        (operators::CONDITIONAL, [wrong, _, _]) if !is_bool(wrong) => not_bool(wrong),
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, _]) => Ok(Ty::Bool),
        (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [a]) if is_bool(a) => Ok(Ty::Bool),
        (operators::CONDITIONAL, [_, yes, no]) => Ok(joined((*yes).clone(), no)),
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) if a.fits(b) => Ok(Ty::Bool),
        (operators::IN, [item, container]) => match container {
            Ty::List(items) if items.fits(item) => Ok(Ty::Bool),
            Ty::Map(_) | Ty::Dyn | Ty::Object(..) => Ok(Ty::Bool),
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
            let fit = (number(a) && number(b)) || a.fits(b);
            if fit && ordered(a) && ordered(b) {
                Ok(Ty::Bool)
            } else {
                Err(refuse())
            }
        }
        (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT, [container, _]) => {
            let below = match container {
                Ty::List(below) | Ty::Map(below) => (**below).clone(),
                Ty::Dyn | Ty::Object(..) | Ty::Optional(_) => Ty::Dyn,
                _ => return Err(refuse()),
            };
            if name == operators::INDEX {
                Ok(below)
            } else {
                Ok(Ty::Optional(Box::new(below)))
            }
        }
        (operators::NEGATE, [a]) if matches!(a, Ty::Int | Ty::Double | Ty::Dyn) => Ok((*a).clone()),
        (operators::ADD, [a, b]) => match (a, b) {
            (Ty::Timestamp, Ty::Duration) | (Ty::Duration, Ty::Timestamp) => Ok(Ty::Timestamp),
            (Ty::Dyn, other) => Ok((*other).clone()),
            (Ty::Int | Ty::Uint | Ty::Double | Ty::Text | Ty::Bytes | Ty::Duration | Ty::List(_), other)
                if a.fits(other) =>
            {
                Ok((*a).clone())
            }
            _ => Err(refuse()),
        },
        (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [a, b]) => {
            match (a, b) {
                (Ty::Timestamp, Ty::Timestamp) => Ok(Ty::Duration),
                (Ty::Timestamp, Ty::Duration) => Ok(Ty::Timestamp),
                (Ty::Int | Ty::Uint | Ty::Double | Ty::Duration | Ty::Dyn, other) if a.fits(other) => {
                    Ok((*a).clone())
                }
                _ => Err(refuse()),
            }
        }
        _ => Err(refuse()),
    }
}
