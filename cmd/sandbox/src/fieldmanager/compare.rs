//! Comparison of two states of an object, and the field set of a configuration, as in structured-merge-diff.

use std::collections::BTreeMap;

use crate::fieldmanager::element;
use crate::fieldmanager::fields::{self, Fields, node};
use crate::fieldmanager::shape::{Keys, Layout, Shape};
use crate::json::{Map, Text, Value};

/// The difference between two states.
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// Fields that only the old state has.
    pub removed: Fields,
    /// Fields that both states have with different values.
    pub modified: Fields,
    /// Fields that only the new state has.
    pub added: Fields,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Same,
    Removed,
    Modified,
    Added,
}

/// Compares two states. At most one of them may be `None`.
pub(super) fn compare(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> Diff {
    let mut diff = Diff::default();
    if old != new {
        place(shape, old, new, &mut diff);
    }
    diff
}

/// Compares two different values. Adds the differences of their children to `diff` and returns the mark of the value itself.
fn place(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>, diff: &mut Diff) -> Mark {
    let mark = match (old, new) {
        (None, _) => Mark::Added,
        // A required field without a value is null on one side only: this is not a difference.
        (Some(Value::Null), None) if shape.is_typed() => Mark::Same,
        (Some(_), None) => Mark::Removed,
        _ => Mark::Same,
    };
    // Null has no layout, so the other value determines it.
    let (was, is) = (old.filter(|v| !v.is_null()), new.filter(|v| !v.is_null()));
    let layout = shape.layout(is.or(was).unwrap_or(&Value::Null));
    // If the layout changed, the old children are removed and the new children are added.
    let former = was.filter(|_| is.is_some()).map(|was| shape.layout(was));
    let former = former.filter(|former| *former != layout);
    let mut leaf = false;
    for layout in former.into_iter().chain([layout]) {
        leaf |= below(shape, &layout, old, new, diff);
    }
    match mark {
        Mark::Same if leaf && new.is_some() => Mark::Modified,
        mark => mark,
    }
}

/// Compares the children of a value. Returns whether the value is atomic.
fn below(
    shape: Shape<'_>,
    layout: &Layout<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    diff: &mut Diff,
) -> bool {
    match layout {
        Layout::Leaf => return true,
        Layout::Object => {
            let (old, new) = (object(old), object(new));
            if old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty) {
                return true;
            }
            let inner = |name| shape.field(name).map_or(Shape::Deduced, |(inner, _)| inner);
            for (name, new) in new.into_iter().flatten() {
                let old = old.and_then(|old| old.get(name));
                child(inner(name), || element::field(name), old, Some(new), diff);
            }
            for (name, old) in old.into_iter().flatten() {
                if new.is_none() && old.is_null() {
                    // The field was removed together with its parent.
                    insert(&mut diff.removed, || element::field(name), true, Map::new());
                } else if new.is_none_or(|new| !new.contains_key(name)) {
                    child(inner(name), || element::field(name), Some(old), None, diff);
                }
            }
        }
        Layout::Items(keys) => {
            let (old, new) = (list(old), list(new));
            if old.is_empty() && new.is_empty() {
                return true;
            }
            items(shape, keys, old, new, diff);
        }
    }
    false
}

/// Compares one child. Most children are equal, so their elements are built only on a difference.
fn child(
    shape: Shape<'_>,
    element: impl Fn() -> Text,
    old: Option<&Value>,
    new: Option<&Value>,
    diff: &mut Diff,
) {
    if old == new {
        return;
    }
    if let (None, Some(new)) = (old, new) {
        diff.added.insert(element(), added(shape, new).into());
        return;
    }
    let mut below = Diff::default();
    let mark = place(shape, old, new, &mut below);
    insert(&mut diff.removed, &element, mark == Mark::Removed, below.removed);
    insert(
        &mut diff.modified,
        &element,
        mark == Mark::Modified,
        below.modified,
    );
    insert(&mut diff.added, &element, mark == Mark::Added, below.added);
}

/// Returns the node of a new value and its children.
fn added(shape: Shape<'_>, value: &Value) -> Fields {
    match shape.layout(value) {
        Layout::Leaf => Fields::new(),
        Layout::Object => {
            let below = object(Some(value)).into_iter().flatten().map(|(name, value)| {
                let (inner, _) = shape.field(name).unwrap_or((Shape::Deduced, false));
                (element::field(name), added(inner, value).into())
            });
            fields::member(below)
        }
        Layout::Items(keys) => {
            let below = indexed(shape, &keys, list(Some(value)))
                .into_iter()
                .map(|(element, items)| {
                    let below = match items.as_slice() {
                        [item] => added(shape.item(), item),
                        _ => Fields::new(),
                    };
                    (element, below.into())
                });
            fields::member(below)
        }
    }
}

fn insert(set: &mut Fields, element: impl Fn() -> Text, member: bool, below: Fields) {
    if let Some(node) = node(member, below) {
        set.insert(element(), node);
    }
}

/// Compares list items. Duplicate items are compared as one value.
fn items(shape: Shape<'_>, keys: &Keys<'_>, old: &[Value], new: &[Value], diff: &mut Diff) {
    let (old, new) = (indexed(shape, keys, old), indexed(shape, keys, new));
    let inner = shape.item();
    let gone = old.iter().filter(|(element, _)| !new.contains_key(*element));
    for (element, before) in old.iter().filter(|(e, _)| new.contains_key(*e)).chain(gone) {
        let after = new.get(element).map_or(&[][..], Vec::as_slice);
        let element = || element.clone();
        match (before.as_slice(), after) {
            (&[old], []) => child(inner, element, Some(old), None, diff),
            (&[old], &[new]) => child(inner, element, Some(old), Some(new), diff),
            (&[old], _) => {
                child(inner, element, Some(old), None, diff);
                insert(&mut diff.added, element, true, Map::new());
            }
            (_, []) => insert(&mut diff.removed, element, true, Map::new()),
            (_, &[new]) => {
                child(inner, element, None, Some(new), diff);
                insert(&mut diff.removed, element, true, Map::new());
            }
            (before, after) if before != after => insert(&mut diff.modified, element, true, Map::new()),
            _ => {}
        }
    }
    for (element, after) in new.iter().filter(|(element, _)| !old.contains_key(*element)) {
        let element = || element.clone();
        match after.as_slice() {
            &[new] => child(inner, element, None, Some(new), diff),
            _ => insert(&mut diff.added, element, true, Map::new()),
        }
    }
}

/// Indexes items by their elements. Items without an element are omitted.
fn indexed<'v>(shape: Shape<'_>, keys: &Keys<'_>, items: &'v [Value]) -> BTreeMap<Text, Vec<&'v Value>> {
    let mut indexed: BTreeMap<Text, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = shape.element(keys, item) {
            indexed.entry(element).or_default().push(item);
        }
    }
    indexed
}

/// Returns the field set of a configuration.
pub(super) fn fields_of(shape: Shape<'_>, value: &Value) -> Fields {
    let mut set = Map::new();
    collect(shape, value, &mut set);
    set
}

/// Collects the fields of the children. Returns whether the value itself is a field of the set.
fn collect(shape: Shape<'_>, value: &Value, set: &mut Fields) -> bool {
    match shape.layout(value) {
        Layout::Leaf => true,
        Layout::Object => {
            for (name, value) in object(Some(value)).into_iter().flatten() {
                let (inner, named) = shape.field(name).unwrap_or((Shape::Deduced, false));
                let mut below = Map::new();
                let leaf = collect(inner, value, &mut below);
                let bare = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                insert(set, || element::field(name), leaf || bare || !named, below);
            }
            false
        }
        Layout::Items(keys) => {
            let inner = shape.item();
            for (element, items) in indexed(shape, &keys, list(Some(value))) {
                let mut below = Map::new();
                if let &[item] = items.as_slice() {
                    collect(inner, item, &mut below);
                }
                insert(set, || element.clone(), true, below);
            }
            false
        }
    }
}

pub(super) fn object(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_object)
}

pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).unwrap_or_default()
}
