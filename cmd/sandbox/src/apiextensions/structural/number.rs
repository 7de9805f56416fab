//! Numbers: ranges, multiples, and equality.

use crate::apiextensions::structural::node::{Node, Type};
use crate::apiextensions::structural::validate::{Found, Place};
use crate::json::{Number, Value};

/// Whether an integral number was written with a fraction.
pub(crate) fn is_whole(number: &Number) -> bool {
    number
        .as_f64()
        .is_some_and(|n| n.is_finite() && n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_991.0)
}

/// Whether two values are equal; numbers by their value.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.as_f64() == b.as_f64() && (a.is_f64() != b.is_f64()))
        }
        _ => one == other,
    }
}

/// Validates a number.
pub(crate) fn check(node: &Node, number: &Number, place: &Place<'_>, found: &mut Found) {
    let limits = &node.limits;
    let value = number.as_f64().unwrap_or_default();
    let whole = number.as_i64();
    let shown = Value::Number(number.clone());
    if !in_range(node, value, whole) {
        found.add(place.whole(range_text(node, "Checked", place)));
    }
    if let Some(factor) = limits.multiple_of {
        boundary(node, factor, "MultipleOf", place, found);
        let quotient = if factor < 1.0 {
            1.0 / factor * value
        } else {
            value / factor
        };
        if factor > 0.0 && (quotient - quotient.round()).abs() > f64::EPSILON * quotient.abs().max(1.0) {
            found.add(place.invalid(
                shown.clone(),
                &format!("should be a multiple of {}", text(factor, whole)),
            ));
        }
    }
    let bounds = [
        (
            "Minimum",
            "greater than",
            limits.minimum,
            limits.exclusive_minimum,
        ),
        ("Maximum", "less than", limits.maximum, limits.exclusive_maximum),
    ];
    for (name, than, bound, exclusive) in bounds {
        let Some(bound) = bound else {
            continue;
        };
        boundary(node, bound, &format!("{name} boundary"), place, found);
        let beyond = if name == "Minimum" {
            value < bound
        } else {
            value > bound
        };
        #[allow(clippy::float_cmp, reason = "a bound is exact")]
        if beyond || (exclusive && value == bound) {
            let or_equal = if exclusive { "" } else { " or equal to" };
            let why = format!("should be {than}{or_equal} {}", text(bound, whole));
            found.add(place.invalid(shown.clone(), &why));
        }
    }
}

/// Reports a limit that is out of the type's range.
fn boundary(node: &Node, bound: f64, what: &str, place: &Place<'_>, found: &mut Found) {
    if !in_range(node, bound, None) {
        found.add(place.whole(range_text(node, what, place)));
    }
}

fn in_range(node: &Node, value: f64, whole: Option<i64>) -> bool {
    if node.int_or_string {
        return true;
    }
    let format = node.limits.format.as_ref().map(|format| format.name.as_str());
    match (node.ty, format) {
        (Some(Type::Integer), Some("int32")) => match whole {
            Some(whole) => i32::try_from(whole).is_ok(),
            None => value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value),
        },
        (Some(Type::Integer), _) => whole.is_some() || (value.fract() == 0.0 && value.abs() < 9.3e18),
        (Some(Type::Number), Some("float")) => value.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

fn range_text(node: &Node, what: &str, place: &Place<'_>) -> String {
    let ty = node.ty.map_or("", Type::name);
    let format = match &node.limits.format {
        Some(format) => format!("with format {}", format.name),
        None => "(default format)".to_owned(),
    };
    format!("{what} value must be of type {ty} {format} in {}", place.name())
}

/// Returns a limit as the server prints it: beside an integer as an integer.
#[allow(clippy::cast_possible_truncation)]
fn text(limit: f64, whole: Option<i64>) -> String {
    if whole.is_some() && limit.abs() < 9.2e18 {
        return (limit as i64).to_string();
    }
    if limit != 0.0 && (limit.abs() >= 1e21 || limit.abs() < 1e-4) {
        let text = format!("{limit:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |e| ("-", e));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    limit.to_string()
}
