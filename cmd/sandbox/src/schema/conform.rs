//! Typed decoding of a body: unknown fields are dropped and reported; nulls and zero values under `omitempty` are dropped
//! silently; times, amounts and bytes take their canonical form; a value of the wrong type is an error.
//!
//! Doing it twice is the same as doing it once. The walk is as deep as the body, which [`super::parse`] bounds.

use thiserror::Error;

use super::path::{Path, Reported};
use super::{Field, Type, TypeRef, scalar};
use crate::field::json_type;
use crate::json::{Map, Value};

/// The body is JSON, and not of this type. The text stands after "cannot be handled as a Pod: ".
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{0}")]
pub struct DecodeError(pub(super) String);

/// Makes `value` what `schema` says. Returns the paths of the unknown fields that were removed; after an error, `value` is
/// half done and must not be used.
pub fn conform(schema: TypeRef, value: &mut Value) -> Result<Vec<String>, DecodeError> {
    walk(schema, value, None, Walk::default())
}

/// The same of a value that was made from `base`, which conforms. The parts that it shares with `base` conform, too.
pub fn conform_changed(
    schema: TypeRef,
    value: &mut Value,
    base: Option<&Value>,
) -> Result<Vec<String>, DecodeError> {
    walk(schema, value, base, Walk::default())
}

/// The same of an object that was merged in the typed form: there a number that is too large for its field loses its upper
/// half, and a whole one may be written with a fraction.
pub fn conform_merged(
    schema: TypeRef,
    value: &mut Value,
    base: Option<&Value>,
) -> Result<Vec<String>, DecodeError> {
    let fits_numbers = true;
    walk(
        schema,
        value,
        base,
        Walk {
            fits_numbers,
            ..Walk::default()
        },
    )
}

/// The state of a walk through a body.
#[derive(Default)]
struct Walk {
    unknown: Reported,
    fits_numbers: bool,
    /// The first value of a wrong type. An unreadable value is reported instead.
    mismatch: Option<DecodeError>,
}

impl Walk {
    fn wrong(&mut self, error: DecodeError) -> Result<(), DecodeError> {
        if self.fits_numbers {
            return Err(error);
        }
        self.mismatch.get_or_insert(error);
        Ok(())
    }
}

fn walk(
    schema: TypeRef,
    value: &mut Value,
    base: Option<&Value>,
    mut walk: Walk,
) -> Result<Vec<String>, DecodeError> {
    object(schema, value, base, &Path::Root, &mut walk)?;
    match walk.mismatch {
        Some(error) => Err(error),
        None => Ok(walk.unknown.into_vec()),
    }
}

fn object(
    schema: TypeRef,
    value: &mut Value,
    base: Option<&Value>,
    path: &Path<'_>,
    walk: &mut Walk,
) -> Result<(), DecodeError> {
    let Value::Object(map) = value else {
        return walk.wrong(mismatch(value, "object", path));
    };
    retain(map, |name, value| {
        let path = path.key(name);
        let base = base.and_then(|base| base.get(name));
        if base.is_some_and(|base| base.is_shared_with(value)) {
            return Ok(true);
        }
        let Some(field) = schema.field(name) else {
            walk.unknown.add(&path);
            return Ok(false);
        };
        if value.is_null() {
            return Ok(false);
        }
        visit(&field.ty, value, base, &path, walk)?;
        Ok(!is_omitted(field, value))
    })
}

fn visit(
    ty: &Type,
    value: &mut Value,
    base: Option<&Value>,
    path: &Path<'_>,
    walk: &mut Walk,
) -> Result<(), DecodeError> {
    match ty {
        Type::Object(_) => match ty.object() {
            Some(schema) => object(schema, value, base, path, walk),
            None => Ok(()),
        },
        Type::Map(inner) => {
            let Value::Object(map) = value else {
                return walk.wrong(mismatch(value, type_name(ty), path));
            };
            retain(map, |key, value| {
                item(inner, value, &path.key(key), walk)?;
                if **inner == Type::Quantity {
                    scalar::round_resource(value);
                }
                Ok(true)
            })
        }
        Type::List(inner) => {
            let Value::Array(items) = value else {
                return walk.wrong(mismatch(value, type_name(ty), path));
            };
            items
                .make_mut()
                .iter_mut()
                .enumerate()
                .try_for_each(|(index, value)| item(inner, value, &path.index(index), walk))
        }
        Type::OneOf(types) => match types.iter().find(|ty| has_shape(ty, value)) {
            Some(ty) => visit(ty, value, base, path, walk),
            None => walk.wrong(mismatch(value, type_name(ty), path)),
        },
        _ => {
            if walk.fits_numbers {
                scalar::fit_number(ty, value);
            }
            let Err(wrong) = scalar::conform(ty, value) else {
                return Ok(());
            };
            let error = match wrong {
                scalar::Wrong::Type { number: true } => mismatch_number(value, type_name(ty), path),
                scalar::Wrong::Type { number: false } => mismatch(value, type_name(ty), path),
                scalar::Wrong::Text(text) => DecodeError(text),
            };
            // These read themselves, and nothing is read after them if they cannot.
            match ty {
                Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString => Err(error),
                _ => walk.wrong(error),
            }
        }
    }
}

/// Items of lists and maps cannot be left out, so that a null becomes the zero value of its type.
fn item(ty: &Type, value: &mut Value, path: &Path<'_>, walk: &mut Walk) -> Result<(), DecodeError> {
    if value.is_null() {
        *value = zero(ty);
        return Ok(());
    }
    visit(ty, value, None, path, walk)
}

fn zero(ty: &Type) -> Value {
    match ty {
        Type::Object(_) => Value::Object(Map::new()),
        Type::String | Type::Bytes => "".into(),
        Type::Quantity => "0".into(),
        Type::Int32 | Type::Int64 | Type::Number | Type::IntOrString => 0.into(),
        Type::Boolean => false.into(),
        Type::Map(_) | Type::List(_) | Type::Time | Type::MicroTime | Type::OneOf(_) | Type::Any => {
            Value::Null
        }
    }
}

/// Whether a field at this value is left out. An empty object type stays: `emptyDir: {}` says something.
fn is_omitted(field: &Field, value: &Value) -> bool {
    if field.required {
        return false;
    }
    match (&field.ty, value) {
        (Type::List(_), Value::Array(items)) => items.is_empty(),
        (Type::Map(_), Value::Object(map)) => map.is_empty(),
        (Type::Bytes, Value::String(text)) => text.is_empty(),
        (Type::String, Value::String(text)) => text.is_empty() && !field.keeps_zero,
        (Type::Boolean, Value::Bool(set)) => !set && !field.keeps_zero,
        (Type::Int32 | Type::Int64 | Type::Number, Value::Number(number)) => {
            number.as_f64() == Some(0.0) && !field.keeps_zero
        }
        _ => false,
    }
}

fn has_shape(ty: &Type, value: &Value) -> bool {
    match ty {
        Type::Object(_) | Type::Map(_) => value.is_object(),
        Type::List(_) => value.is_array(),
        Type::Boolean => value.is_boolean(),
        _ => true,
    }
}

/// `Map::retain` for a predicate that may fail; stops asking after the first error.
fn retain<E>(map: &mut Map, mut keep: impl FnMut(&str, &mut Value) -> Result<bool, E>) -> Result<(), E> {
    let mut result = Ok(());
    map.retain(|key, value| match &result {
        Err(_) => true,
        Ok(()) => keep(key, value).unwrap_or_else(|error| {
            result = Err(error);
            true
        }),
    });
    result
}

fn type_name(ty: &Type) -> &'static str {
    match ty {
        Type::Object(_) | Type::Map(_) => "object",
        Type::List(_) => "array",
        Type::String | Type::Time | Type::MicroTime | Type::Bytes => "string",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::IntOrString => "int32 or string",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::Quantity => "quantity",
        Type::OneOf(_) => "another type",
        Type::Any => "any value",
    }
}

fn mismatch(value: &Value, expected: &str, path: &Path<'_>) -> DecodeError {
    DecodeError(format!("{path}: expected {expected}, found {}", json_type(value)))
}

/// Shows a number that is out of range or not whole.
fn mismatch_number(value: &Value, expected: &str, path: &Path<'_>) -> DecodeError {
    DecodeError(format!("{path}: expected {expected}, found number {value}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{kinds, testing};
    use super::conform;

    proptest! {
        #[test]
        fn conforming_twice_is_conforming_once(which in 0usize..40, bytes in prop::collection::vec(any::<u8>(), 1..400)) {
            let schema = kinds::schema();
            let index = schema.kinds.values().nth(which % schema.kinds.len()).expect("a kind");
            let schema = schema.at(*index).expect("a kind");
            let mut value = testing::object(schema, &bytes);
            conform(schema, &mut value).expect("built to the type");
            let mut again = value.clone();
            prop_assert_eq!(conform(schema, &mut again), Ok(vec![]));
            prop_assert_eq!(again, value);
        }
    }
}
