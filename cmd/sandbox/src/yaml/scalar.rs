//! Scalars of a YAML body.

use saphyr_parser::Tag;

use crate::json::{Number, Value};

/// Parses a scalar. Only an untagged plain scalar may be another type than string.
pub(super) fn read(text: &str, quoted: bool, tag: Option<&Tag>) -> Result<Value, String> {
    match tag
        .filter(|tag| tag.is_yaml_core_schema())
        .map(|tag| tag.suffix.as_str())
    {
        Some("str" | "binary") => return Ok(text.into()),
        Some("int" | "float" | "bool" | "null") => {}
        _ if quoted => return Ok(text.into()),
        _ => {}
    }
    if let Some(word) = word(text) {
        return Ok(word);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Ok(text.into());
    }
    let digits = text.replace('_', "");
    if let Some(number) = integer(&digits) {
        return Ok(number.into());
    }
    match digits.to_ascii_lowercase().as_str() {
        ".inf" | "+.inf" | "-.inf" | ".nan" => Err(format!("json: unsupported value: {text}")),
        _ => Ok(float(&digits).map_or_else(|| text.into(), Value::Number)),
    }
}

/// Returns a key as a string.
pub(super) fn key(value: &Value, text: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null if !text.is_empty() => Ok("null".to_owned()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err("yaml: invalid map key: keys must be texts".to_owned())
        }
    }
}

fn word(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => true.into(),
        "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => false.into(),
        _ => return None,
    })
}

fn integer(digits: &str) -> Option<Number> {
    let (negative, rest) = match digits.as_bytes().first()? {
        b'-' => (true, &digits[1..]),
        b'+' => (false, &digits[1..]),
        _ => (false, digits),
    };
    let lower = rest.to_ascii_lowercase();
    let (radix, rest) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if rest.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(rest, radix).ok()?;
    if negative {
        let size = i128::from(size);
        return i64::try_from(-size).ok().map(Number::from);
    }
    Some(size.into())
}

/// Parses a float. An integral one becomes an integer.
fn float(digits: &str) -> Option<Number> {
    let shape = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    if !digits.chars().all(shape) || !digits.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let number: f64 = digits.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the range")]
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}
