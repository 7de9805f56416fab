//! Result types of the functions that rules may call.

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
