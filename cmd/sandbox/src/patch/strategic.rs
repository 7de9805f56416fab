//! Strategic merge patch: a merge patch that merges lists by their merge keys and supports directives.
//!
//! - `$patch: replace` in an object replaces the object with its other fields; `$patch: delete` empties it.
//! - `$retainKeys` removes the fields of the object that are not in the given list.
//! - `$setElementOrder/f` gives the order of list `f`; `$deleteFromPrimitiveList/f` gives the items to delete from it.
//! - [`super::lists`] describes the directives in items of a merging list.
//!
//! Any other key that starts with `$` is an unknown field, which the schema check reports. Status codes match the API
//! server, which answers most of these errors with 500.

use std::collections::BTreeSet;

use super::lists::{self, merge_list};
use super::merge::prune;
use super::merge_keys::{Rule, rule};
use super::{PatchError, json_type, read_object};
use crate::json::{List, Map, Text, Value};
use crate::schema::{ParseError, Type, TypeRef};

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// The schema of the current object.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// An object type.
    Struct(TypeRef),
    /// A map. Its values are data and cannot be merged into.
    Map,
    /// Free-form JSON.
    Opaque,
}

pub(super) fn apply(
    current: &Value,
    patch: Result<Value, &ParseError>,
    schema: TypeRef,
) -> Result<Value, PatchError> {
    let patch = read_object(patch, "")?.unwrap_or_default();
    let current = match current {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    merge_object(current, patch, Shape::Struct(schema)).map(Value::Object)
}

/// Merges `patch` into `original` recursively. The parser bounds the depth of the patch.
pub(super) fn merge_object(mut original: Map, mut patch: Map, shape: Shape) -> Result<Map, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(&patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_order(&mut original, &mut patch, shape)?;
    for (key, new) in patch {
        match list_to_delete_from(&key)? {
            Some(field) => delete_from_list(&mut original, field, new, shape)?,
            None => set(&mut original, key, new, shape)?,
        }
    }
    Ok(original)
}

/// Merges one field of the patch.
fn set(original: &mut Map, key: Text, new: Value, shape: Shape) -> Result<(), PatchError> {
    let merged = match (original.remove(&key), new) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(new)) => {
            let (ty, rule) = shape.field(&key)?;
            Some(Value::Object(if rule.replaces() {
                new
            } else {
                merge_object(old, new, Shape::of(ty))?
            }))
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let (item, rule) = shape.list(&key)?;
            Some(Value::Array(if rule.merges() {
                merge_list(old, new, item, rule.key)?
            } else {
                new
            }))
        }
        (_, mut new) => {
            prune(&mut new);
            without_directives(new)
        }
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// Applies `$retainKeys`. Fails if the patch sets a field that is not in the list.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), PatchError> {
    let bad = || PatchError::NotDecodable("invalid patch format of retainKeys".to_owned());
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = keys.as_array().ok_or_else(bad)?;
    let retained = |key: &str| keys.iter().any(|retained| retained.as_str() == Some(key));
    let free = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
    if patch
        .iter()
        .any(|(key, value)| !value.is_null() && !free(key) && !retained(key))
    {
        return Err(bad());
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// Applies `$setElementOrder/f`: merges list `f`, then sorts it.
fn set_element_order(original: &mut Map, patch: &mut Map, shape: Shape) -> Result<(), PatchError> {
    let directives: Vec<Text> = patch
        .keys()
        .filter(|key| key.starts_with(ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = into_list(patch.remove(&directive).unwrap_or_default())?;
        let field = directive
            .strip_prefix(ELEMENT_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(|| PatchError::NotDecodable(lists::BAD_ELEMENT_ORDER.to_owned()))?;
        let old = original.get(field).cloned().map(into_list).transpose()?;
        let new = patch.get(field).cloned().map(into_list).transpose()?;
        let (item, rule) = shape.list(field)?;
        lists::check_order(new.as_deref().unwrap_or_default(), &order, rule.key)?;
        let server_order = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) if rule.merges() => merge_list(old, new, item, rule.key)?,
            (Some(_), Some(new)) => new,
        };
        let ordered = lists::in_order(merged, &order, &server_order, rule.key)?;
        original.insert(field.to_owned(), Value::Array(ordered));
        patch.remove(field);
    }
    Ok(())
}

/// Returns the field that a `$deleteFromPrimitiveList` directive names.
fn list_to_delete_from(key: &str) -> Result<Option<&str>, PatchError> {
    match key
        .strip_prefix(DELETE_FROM_LIST)
        .map(|rest| rest.strip_prefix('/'))
    {
        None => Ok(None),
        Some(Some(field)) => Ok(Some(field)),
        Some(None) => Err(PatchError::NotDecodable(
            "invalid patch format of primitive list".to_owned(),
        )),
    }
}

/// Deletes items from a list, regardless of the patch strategy of the field. A missing list is not an error.
fn delete_from_list(original: &mut Map, field: &str, gone: Value, shape: Shape) -> Result<(), PatchError> {
    match (original.get_mut(field), gone) {
        (_, Value::Null) => {
            original.remove(field);
        }
        (Some(Value::Array(items)), Value::Array(gone)) => {
            shape.list(field)?;
            lists::same_type(items, &gone)?;
            let gone: BTreeSet<String> = gone.iter().map(Value::to_string).collect();
            items.retain(|item| !gone.contains(&item.to_string()));
        }
        _ => {}
    }
    Ok(())
}

/// Removes directives from a new value. Objects with `$patch` are removed entirely.
fn without_directives(mut value: Value) -> Option<Value> {
    let keep = |value: &mut Value| match without_directives(value.take()) {
        Some(kept) => {
            *value = kept;
            true
        }
        None => false,
    };
    match &mut value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return None,
        Value::Object(map) => map.retain(|_, value| keep(value)),
        Value::Array(items) => items.retain(keep),
        _ => {}
    }
    Some(value)
}

fn into_list(value: Value) -> Result<List, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(wrong_type("list", &other)),
    }
}

pub(super) fn wrong_type(expected: &str, found: &Value) -> PatchError {
    let found = json_type(found);
    PatchError::Internal(format!("expected {expected}, found {found}"))
}

pub(super) fn unknown_directive(patch: &Map) -> PatchError {
    let directive = patch.get(DIRECTIVE).unwrap_or(&Value::Null);
    PatchError::Internal(format!("unknown patch type: {directive}"))
}

// === impl Shape ===

impl Shape {
    fn of(ty: &Type) -> Self {
        match ty {
            Type::Map(_) => Self::Map,
            _ => ty.object().map_or(Self::Opaque, Self::Struct),
        }
    }

    /// Returns the type and the rule of a field.
    fn field(self, key: &str) -> Result<(&'static Type, Rule), PatchError> {
        let name = match self {
            Self::Struct(ty) => match ty.field(key) {
                Some(field) => return Ok((&field.ty, rule(field))),
                None => ty.name().rsplit('.').next().unwrap_or_default(),
            },
            Self::Map => {
                let reason = "merging an object in json but data type is not struct, instead is: map";
                return Err(PatchError::Internal(reason.to_owned()));
            }
            Self::Opaque => "RawExtension",
        };
        Err(PatchError::Internal(format!(
            "unable to find api field in struct {name} for the json field {key:?}"
        )))
    }

    /// Returns the shape of the items and the rule of a field. Fails if the field is not a list.
    fn list(self, key: &str) -> Result<(Self, Rule), PatchError> {
        match self.field(key)? {
            (Type::List(item), rule) => Ok((Self::of(item), rule)),
            _ => Err(PatchError::Internal(
                "expected slice or array type, but got: struct".to_owned(),
            )),
        }
    }
}
