//! Fields that the server writes even if they are not set: Go structs and fields without `omitempty`.
//!
//! [`crate::schema::conform`] drops zero values; this adds those that an encoded object always has. Comparison of JSON
//! then means comparison of objects: no change, no new generation, no new resource version.
//!
//! Only the status is filled: elsewhere validation refuses an object without such a field. A null list outside of status,
//! such as the rules of an empty role, is not written.

use crate::json::{Map, Value, json};
use crate::registry::json::set_default;
use crate::resource::Resource;
use crate::schema::Type;

/// Adds the fields that an object of this kind always has. The parts that it shares with `base` have them.
pub(crate) fn complete(res: &Resource, obj: &mut Value, base: Option<&Value>) {
    let kind = res.schema;
    let field = |name: &str| kind.and_then(|kind| kind.field(name));
    if field("spec").is_some() {
        set_default(obj, "spec", json!({}));
    }
    if res.status {
        set_default(obj, "status", json!({}));
    }
    if base.is_some_and(|base| base["status"].is_shared_with(&obj["status"])) {
        return;
    }
    if let (Some(status), Some(field)) = (obj.get_mut("status"), field("status")) {
        fill(&field.ty, status);
    }
}

fn fill(ty: &Type, value: &mut Value) {
    match (ty, value) {
        (Type::List(inner), Value::Array(items)) => {
            items.make_mut().iter_mut().for_each(|item| fill(inner, item));
        }
        (Type::Map(inner), Value::Object(map)) => map.values_mut().for_each(|value| fill(inner, value)),
        (Type::Object(_), Value::Object(map)) => {
            let Some(ty) = ty.object() else { return };
            for (name, field) in ty.fields().filter(|(_, field)| field.shown) {
                map.get_or_insert_with(name, || zero(&field.ty));
            }
            for (name, value) in map {
                if let Some(field) = ty.field(name) {
                    fill(&field.ty, value);
                }
            }
        }
        _ => {}
    }
}

/// The JSON form of the zero value of a Go type.
fn zero(ty: &Type) -> Value {
    match ty {
        Type::String | Type::Bytes => "".into(),
        Type::Int32 | Type::Int64 | Type::IntOrString => 0.into(),
        Type::Boolean => false.into(),
        Type::Quantity => "0".into(),
        Type::Object(_) => Map::new().into(),
        _ => Value::Null,
    }
}
