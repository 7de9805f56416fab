//! Scalars: check of the type, and conversion to the canonical form.

use std::borrow::Cow;

use base64::alphabet::STANDARD;
use base64::engine::{Engine, GeneralPurpose, GeneralPurposeConfig};

use super::{Type, time};
use crate::json::Value;
use crate::quantity::{NoQuantity, Quantity};

/// As lenient about the unused bits at the end as the server is.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Why a value is not of its type.
pub(super) enum Wrong {
    /// It has another JSON type; `number`: it is a number, and not one of this sort.
    Type {
        /// Whether to show the number.
        number: bool,
    },
    /// Its text cannot be read; the server's words.
    Text(String),
}

const OTHER_TYPE: Wrong = Wrong::Type { number: false };
const OTHER_NUMBER: Wrong = Wrong::Type { number: true };

/// Checks one scalar and brings it to its canonical form.
pub(super) fn conform(ty: &Type, value: &mut Value) -> Result<(), Wrong> {
    match ty {
        Type::String if !value.is_string() => Err(OTHER_TYPE),
        Type::Boolean if !value.is_boolean() => Err(OTHER_TYPE),
        Type::Number if !value.is_number() => Err(OTHER_TYPE),
        Type::Int32 => int32(value),
        Type::Int64 => int64(value),
        Type::IntOrString if !value.is_string() => int32(value),
        Type::Quantity => quantity(value),
        Type::Time => canonical(value, |text| time::canonical(text, time::Precision::Seconds)),
        Type::MicroTime => canonical(value, |text| time::canonical(text, time::Precision::Micros)),
        Type::Bytes => canonical(value, bytes),
        _ => Ok(()),
    }
}

/// Makes a number one of its sort, as a conversion between sorts of numbers does.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn fit_number(ty: &Type, value: &mut Value) {
    if !matches!(ty, Type::Int32 | Type::Int64) {
        return;
    }
    if let Some(float) = value
        .as_f64()
        .filter(|float| value.is_f64() && float.fract() == 0.0)
    {
        *value = (float as i64).into();
    }
    if let (Type::Int32, Some(number)) = (ty, value.as_i64()) {
        *value = (number as i32).into();
    }
}

fn int32(value: &Value) -> Result<(), Wrong> {
    if value.is_number() && value.as_i64().and_then(|n| i32::try_from(n).ok()).is_none() {
        return Err(OTHER_NUMBER);
    }
    int64(value)
}

fn int64(value: &Value) -> Result<(), Wrong> {
    match value {
        Value::Number(number) if number.is_i64() => Ok(()),
        Value::Number(_) => Err(OTHER_NUMBER),
        _ => Err(OTHER_TYPE),
    }
}

/// A number is read from its text, an invalid amount fails as text does. An amount that is too large for us is
/// left as it is.
fn quantity(value: &mut Value) -> Result<(), Wrong> {
    let text = match &*value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    *value = match Quantity::parse(&text) {
        Ok(quantity) => quantity.text().into(),
        Err(NoQuantity::TooLarge) => text.into(),
        Err(wrong @ NoQuantity::Unreadable(_)) => return Err(Wrong::Text(wrong.to_string())),
    };
    Ok(())
}

/// Amounts of named resources, such as CPU, are rounded to thousandths.
pub(super) fn round_resource(value: &mut Value) {
    if let Some(quantity) = Quantity::read(value) {
        *value = quantity.round_to_milli().text().into();
    }
}

fn canonical(
    value: &mut Value,
    read: impl FnOnce(&str) -> Result<Cow<'_, str>, String>,
) -> Result<(), Wrong> {
    let Value::String(text) = value else {
        return Err(OTHER_TYPE);
    };
    if let Cow::Owned(other) = read(text).map_err(Wrong::Text)? {
        *text = other.into();
    }
    Ok(())
}

/// Line breaks inside are allowed, and dropped.
fn bytes(text: &str) -> Result<Cow<'_, str>, String> {
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = BASE64
        .decode(&joined)
        .map_err(|error| format!("invalid base64: {error}"))?;
    Ok(BASE64.encode(bytes).into())
}
