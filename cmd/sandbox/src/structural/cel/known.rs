//! The functions that rules may call: what each yields, and what it costs.

use super::check::{joined, no_overload, undeclared};
use super::overloads::traversal;
use super::shape::{REQUEST_LIMIT, Shape, Ty};

const TRUTHS: &str = "startsWith endsWith contains matches isSorted isURL isIP isCIDR isQuantity isInteger isSemver \
                      isGreaterThan isLessThan isLoopback isUnspecified isGlobalUnicast isLinkLocalMulticast \
                      isLinkLocalUnicast containsIP containsCIDR isCanonical hasValue intersects equivalent";
const TEXTS: &str =
    "string charAt format getScheme getHost getHostname getPort getEscapedPath quote escapeKey";
const NUMBERS: &str = "size int indexOf lastIndexOf getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek \
                       getHours getMinutes getSeconds getMilliseconds compareTo sign major minor prefixLength";
const OTHERS: &str = "dyn uint bytes sum min max getQuery url ip cidr quantity asInteger asApproximateFloat add sub semver \
                      patch family masked slice sort flatten distinct first last range or named validate";

fn listed(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// The result of a function, and what it costs itself.
pub(super) fn function<'n>(
    name: &str,
    namespace: Option<&str>,
    method: bool,
    operands: &[&Shape<'n>],
) -> Result<(Shape<'n>, u64), String> {
    let traversed = operands.iter().map(|shape| traversal(shape.size));
    let sizes = operands.iter().map(|shape| shape.size.max(1));
    let cost = match name {
        "size" => 1,
        "distinct" => sizes.fold(1, |cost: u64, size| {
            cost.saturating_mul(size).saturating_mul(size)
        }),
        _ if namespace == Some("sets") => sizes.fold(1, u64::saturating_mul),
        "contains" | "matches" => traversed.fold(1, u64::saturating_mul),
        _ => traversed.fold(1, u64::saturating_add),
    };
    let size = operands
        .iter()
        .map(|shape| shape.size)
        .fold(0, u64::saturating_add);
    let text_only = matches!(
        name,
        "startsWith" | "endsWith" | "matches" | "lowerAscii" | "upperAscii" | "trim"
    );
    if text_only
        && method
        && let Some(target) = operands.first()
        && !matches!(target.ty, Ty::Text | Ty::Dyn)
    {
        return Err(no_overload(name, operands));
    }
    if name == "size" && matches!(operands, [one] if matches!(one.ty, Ty::Int | Ty::Bool | Ty::Double)) {
        return Err(no_overload(name, operands));
    }
    let shape = match (namespace, name) {
        (Some("format" | "lists"), _) if !listed(TEXTS, name) => Shape::new(Ty::Dyn, REQUEST_LIMIT),
        (_, "type") => Shape::plain(Ty::Type),
        (_, "timestamp") => Shape::new(Ty::Timestamp, 32),
        (_, "duration") => Shape::new(Ty::Duration, 32),
        (_, "double") => Shape::plain(Ty::Double),
        (_, "bool") => Shape::plain(Ty::Bool),
        (_, "split" | "findAll") => Shape::new(Ty::List(Box::new(Shape::new(Ty::Text, size))), size),
        (_, "orValue") => match operands {
            [target, other] => match &target.ty {
                Ty::Optional(inner) => joined((**inner).clone(), other),
                _ => return Err(no_overload(name, operands)),
            },
            _ => return Err(no_overload(name, operands)),
        },
        (_, "value") => match operands {
            [target] => match &target.ty {
                Ty::Optional(inner) => (**inner).clone(),
                _ => return Err(no_overload(name, operands)),
            },
            _ => return Err(no_overload(name, operands)),
        },
        (Some("optional"), "of" | "ofNonZeroValue") if operands.len() == 1 => {
            Shape::plain(Ty::Optional(Box::new(operands[0].clone())))
        }
        (Some("optional"), "none") => Shape::plain(Ty::Optional(Box::new(Shape::plain(Ty::Dyn)))),
        _ if listed(TRUTHS, name) => Shape::plain(Ty::Bool),
        // How long a text of another value gets is not known, and so not affordable to go through.
        (_, "lowerAscii" | "upperAscii" | "substring" | "trim" | "find" | "replace") => {
            Shape::new(Ty::Text, size)
        }
        (_, "string") if matches!(operands, [one] if matches!(one.ty, Ty::Text)) => {
            Shape::new(Ty::Text, size)
        }
        (_, "join") => match operands {
            [list, separator @ ..] => {
                let item = match &list.ty {
                    Ty::List(items) => items.size,
                    _ => REQUEST_LIMIT,
                };
                let between = separator.first().map_or(0, |separator| separator.size);
                Shape::new(Ty::Text, list.size.saturating_mul(item.saturating_add(between)))
            }
            [] => return Err(no_overload(name, operands)),
        },
        _ if listed(TEXTS, name) => Shape::new(Ty::Text, u64::MAX),
        _ if listed(NUMBERS, name) => Shape::plain(Ty::Int),
        _ if listed(OTHERS, name) => Shape::new(Ty::Dyn, REQUEST_LIMIT),
        _ => return Err(undeclared(name)),
    };
    Ok((shape, cost))
}
