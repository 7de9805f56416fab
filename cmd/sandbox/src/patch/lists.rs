//! Merging lists of a strategic merge patch: by merge key for lists of objects, as sets for lists of scalars.
//!
//! A patch item with `$patch: delete` deletes the list item with the same key. An item with `$patch: replace` replaces the
//! whole list with the other items of the patch. Patch items keep the order of the patch, and items that only the server
//! has keep the order of the server. Between the two, the server's order decides if it contains both items; otherwise the
//! patch item comes first.

use std::collections::{BTreeMap, BTreeSet};

use super::PatchError;
use super::strategic::{DIRECTIVE, Shape, merge_object, unknown_directive, wrong_type};
use crate::field::json_type;
use crate::json::{List, Value};

pub(super) const BAD_ELEMENT_ORDER: &str = "invalid patch format of setElementOrder list";

/// Merges the items of a patch into a list. `key` is empty for lists of scalars.
pub(super) fn merge_list(original: List, patch: List, item: Shape, key: &str) -> Result<List, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    same_type(&original, &patch)?;
    if !original.iter().chain(&patch).all(Value::is_object) {
        let mut merged = original.clone();
        let mut known: BTreeSet<String> = original.iter().map(Value::to_string).collect();
        merged.extend(patch.iter().filter(|new| known.insert(new.to_string())).cloned());
        return in_order(merged, &patch, &original, "");
    }
    if key.is_empty() {
        return Err(PatchError::Internal(
            "cannot merge lists without merge key for struct".to_owned(),
        ));
    }
    let (original, patch) = apply_directives(original, patch, key)?;
    let merged = merge_items(original.clone(), &patch, item, key)?;
    in_order(merged, &patch, &original, key)
}

/// Applies the items with directives. Returns the list and the remaining patch items.
fn apply_directives(mut original: List, patch: List, key: &str) -> Result<(List, List), PatchError> {
    let mut plain = List::new();
    let mut gone = BTreeSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                gone.insert(id_of(&item, key)?);
            }
            Some("replace") => replace = true,
            Some("merge") => {
                let reason = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Internal(reason.to_owned()));
            }
            _ => {
                return Err(item
                    .as_object()
                    .map_or_else(|| wrong_type("object", &item), unknown_directive));
            }
        }
    }
    original.retain(|item| !id_of(item, key).is_ok_and(|id| gone.contains(&id)));
    Ok(if replace {
        (plain, List::new())
    } else {
        (original, plain)
    })
}

/// Merges each object of the patch into the first item with the same key, or appends it. Like the API server, it keeps
/// the directives of appended items, which are then unknown fields.
fn merge_items(mut merged: List, patch: &[Value], item: Shape, key: &str) -> Result<List, PatchError> {
    let mut places = places(&merged, key);
    for new in patch {
        let id = id_of(new, key)?;
        if let (Some(old), Value::Object(new)) =
            (places.get(&id).and_then(|at| merged.make_mut().get_mut(*at)), new)
        {
            if let Value::Object(map) = old.take() {
                *old = Value::Object(merge_object(map, new.clone(), item)?);
            }
        } else {
            places.insert(id, merged.len());
            merged.push(new.clone());
        }
    }
    Ok(merged)
}

/// Sorts a merged list: by `patch_order` for the items in it, by `server_order` for the others.
pub(super) fn in_order(
    merged: List,
    patch_order: &[Value],
    server_order: &[Value],
    key: &str,
) -> Result<List, PatchError> {
    for item in patch_order {
        id_of(item, key)?;
    }
    let (by_patch, by_server) = (places(patch_order, key), places(server_order, key));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for item in merged {
        let id = id_of(&item, key)?;
        let at_server = by_server.get(&id).copied();
        match by_patch.get(&id) {
            Some(at_patch) => ours.push((*at_patch, at_server, item)),
            None => theirs.push((at_server, item)),
        }
    }
    ours.sort_by_key(|(at_patch, ..)| *at_patch);
    // Items in neither order come last.
    theirs.sort_by_key(|(at_server, _)| at_server.unwrap_or(usize::MAX));

    let mut ordered = List::with_capacity(ours.len() + theirs.len());
    let mut theirs = theirs.into_iter().peekable();
    for (_, at, item) in ours {
        let is_before = |next: Option<usize>| next.zip(at).is_some_and(|(next, at)| next < at);
        while let Some((_, next)) = theirs.next_if(|(next, _)| is_before(*next)) {
            ordered.push(next);
        }
        ordered.push(item);
    }
    ordered.extend(theirs.map(|(_, item)| item));
    Ok(ordered)
}

/// Maps each item to its index; duplicates map to the first one.
fn places(items: &[Value], key: &str) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Ok(id) = id_of(item, key) {
            places.entry(id).or_insert(at);
        }
    }
    places
}

/// Checks that the patch items occur in the `$setElementOrder` list in the same order; items with directives are exempt.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut plain = patch
        .iter()
        .filter(|item| item.get(DIRECTIVE).is_none())
        .peekable();
    for ordered in order {
        let Some(next) = plain.peek() else {
            return Ok(());
        };
        if id_of(next, key)? == id_of(ordered, key)? {
            plain.next();
        }
    }
    if plain.peek().is_none() {
        return Ok(());
    }
    Err(PatchError::Internal(format!(
        "The order in patch list: {} doesn't match $setElementOrder list: {}",
        Value::from(patch),
        Value::from(order)
    )))
}

/// Checks that all items of a merging list have one type, and that none of them is a list.
pub(super) fn same_type(original: &[Value], patch: &[Value]) -> Result<(), PatchError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Ok(());
    };
    if first.is_array() {
        return Err(PatchError::NotApplicable(
            "lists of lists are not supported".to_owned(),
        ));
    }
    if items.any(|item| json_type(item) != json_type(first)) {
        return Err(PatchError::Internal(format!(
            "list element types are not identical: {} {}",
            Value::from(original),
            Value::from(patch)
        )));
    }
    Ok(())
}

/// Returns the identity of an item as JSON, for lookups: the value of its merge key, or the item itself if `key` is
/// empty.
fn id_of(item: &Value, key: &str) -> Result<String, PatchError> {
    if key.is_empty() {
        return Ok(item.to_string());
    }
    let object = item.as_object().ok_or_else(|| wrong_type("object", item))?;
    object.get(key).map(Value::to_string).ok_or_else(|| {
        PatchError::Internal(format!("map: {item} does not contain declared merge key: {key}"))
    })
}
