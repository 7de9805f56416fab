//! JSON merge patch (RFC 7386): objects merge, null deletes, any other value replaces.
//!
//! Like the API server, it deviates from the RFC in one case: a list or scalar that is new, or that replaces another list
//! or scalar, also loses the nulls inside its objects. One that replaces an object keeps them.

use super::{PatchError, read_object};
use crate::json::{Map, Value};
use crate::schema::ParseError;

pub(super) fn apply(current: &Value, patch: Result<Value, &ParseError>) -> Result<Value, PatchError> {
    let Some(patch) = read_object(patch, "error decoding patch: ")? else {
        return Err(PatchError::NotDecodable("Invalid JSON Patch".to_owned()));
    };
    let mut patched = match current {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    merge(&mut patched, patch);
    Ok(Value::Object(patched))
}

/// Merges recursively. The parser bounds the depth of the patch.
fn merge(target: &mut Map, patch: Map) {
    for (key, new) in patch {
        match (target.get_mut(&key), new) {
            (_, Value::Null) => {
                target.remove(&key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(old @ Value::Object(_)), new) => *old = new,
            (_, mut new) => {
                prune(&mut new);
                target.insert(key, new);
            }
        }
    }
}

/// Removes nulls from objects at any depth. List items keep their indexes.
pub(super) fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            prune(value);
            !value.is_null()
        }),
        Value::Array(items) => items.make_mut().iter_mut().for_each(prune),
        _ => {}
    }
}
