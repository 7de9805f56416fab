//! Random objects for property tests.

use super::{Type, TypeRef};
use crate::json::{Map, Value, json};

/// An object of roughly the given type, made from random bytes: mostly right, with nulls, zeros and unknown fields.
pub(crate) fn object(schema: TypeRef, bytes: &[u8]) -> Value {
    fields_of(schema, &mut bytes.iter().copied(), 12)
}

fn fields_of(schema: TypeRef, bytes: &mut dyn Iterator<Item = u8>, depth: usize) -> Value {
    let fields: Vec<_> = schema.fields().collect();
    let count = bytes.next().unwrap_or(0) % 4;
    let mut map = Map::new();
    for _ in 0..=count {
        let pick = usize::from(bytes.next().unwrap_or(0)) % (fields.len() + 1);
        match fields.get(pick) {
            Some((name, field)) => map.insert((*name).to_owned(), build(&field.ty, bytes, depth - 1)),
            None => map.insert(format!("unknown{pick}"), json!({"x": null})),
        };
    }
    Value::Object(map)
}

fn build(ty: &Type, bytes: &mut dyn Iterator<Item = u8>, depth: usize) -> Value {
    let Some(byte) = bytes.next() else {
        return Value::Null;
    };
    if byte < 16 || depth == 0 {
        return Value::Null;
    }
    let few = usize::from(byte % 4);
    match ty {
        Type::Object(_) => fields_of(ty.object().expect("resolved"), bytes, depth),
        Type::Map(inner) => (0..few)
            .map(|n| (n.to_string(), build(inner, bytes, depth - 1)))
            .collect::<Map>()
            .into(),
        Type::List(inner) => (0..few).map(|_| build(inner, bytes, depth - 1)).collect(),
        Type::String => ["", "a"][few % 2].into(),
        Type::Int32 | Type::Int64 | Type::IntOrString => few.into(),
        Type::Number => json!(0.5 * f64::from(byte % 4)),
        Type::Boolean => (few == 1).into(),
        Type::Quantity => [json!("1000m"), json!(1.5), json!("0"), json!("1.5Gi")][few].clone(),
        Type::Time => ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5+01:00"][few % 2].into(),
        Type::MicroTime => "2020-01-01T00:00:00.123456+01:00".into(),
        Type::Bytes => ["", "YQ==", "Y\nQ=="][few % 3].into(),
        Type::OneOf(types) => types.get(few).map_or(Value::Null, |ty| build(ty, bytes, depth)),
        Type::Any => json!({"x": [null, {}]}),
    }
}
