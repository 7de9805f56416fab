//! Field sets, in the stored form `fieldsV1`: `{"f:spec": {"f:replicas": {}}}`.
//!
//! A node without members is a field of the set. A node with members is the parent of other fields, and also a field of the
//! set if `.` is one of its members. Sets stay JSON in memory: most writes change few fields of large sets, and the other
//! fields are neither decoded nor encoded. Every operation iterates over the smaller set.

use crate::json::{Map, Text, Value};

/// A set of fields, relative to one path.
pub(super) type Fields = Map;

/// The member that marks the node itself as a field of the set.
const SELF: &str = ".";

/// Returns the node of a path, or `None` if the set contains neither the path nor any of its children.
pub(super) fn node(member: bool, mut below: Fields) -> Option<Value> {
    if below.is_empty() {
        return member.then(|| Value::Object(Map::new()));
    }
    if member {
        below.insert(SELF, Value::Object(Map::new()));
    }
    Some(Value::Object(below))
}

/// Returns the node of a field of the set from its children.
pub(super) fn member(children: impl Iterator<Item = (Text, Value)>) -> Fields {
    let mut children = children.peekable();
    if children.peek().is_none() {
        return Map::new();
    }
    let itself = (Text::from(SELF), Value::Object(Map::new()));
    std::iter::once(itself).chain(children).collect()
}

/// Reports whether the path of a node is in the set.
pub(super) fn is_member(node: &Value) -> bool {
    node.as_object()
        .is_none_or(|below| below.is_empty() || below.contains_key(SELF))
}

/// Splits a node into its membership and its children.
fn open(node: &mut Value) -> (bool, Fields) {
    let member = is_member(node);
    let mut below = node.as_object_mut().map(std::mem::take).unwrap_or_default();
    below.remove(SELF);
    (member, below)
}

/// Returns the children of a node, or `None` for a leaf.
fn below(node: &Value) -> Option<&Fields> {
    node.as_object().filter(|below| nodes(below).next().is_some())
}

/// Returns the nodes of a set without the `.` member.
pub(super) fn nodes(set: &Fields) -> impl Iterator<Item = (&Text, &Value)> {
    set.iter().filter(|(element, _)| *element != SELF)
}

/// Adds the fields of `other`. Nodes that are in only one set are moved, not copied.
pub(super) fn add(set: &mut Fields, other: Fields) {
    for (element, mut theirs) in other {
        if element == SELF {
            continue;
        }
        let Some(ours) = set.get_mut(&element) else {
            set.insert(element, theirs);
            continue;
        };
        let (member, mut merged) = open(ours);
        let (also, below) = open(&mut theirs);
        add(&mut merged, below);
        if let Some(merged) = node(member || also, merged) {
            *ours = merged;
        }
    }
}

/// Removes the fields of `other`. Children of these fields stay in the set.
pub(super) fn subtract(set: &mut Fields, other: &Fields) {
    for (element, theirs) in nodes(other) {
        let Some(ours) = set.get_mut(element) else {
            continue;
        };
        let (member, mut rest) = open(ours);
        if let Some(theirs) = below(theirs) {
            subtract(&mut rest, theirs);
        }
        match node(member && !is_member(theirs), rest) {
            Some(rest) => *ours = rest,
            None => {
                set.remove(element);
            }
        }
    }
}

/// Removes the fields of `other` and all their children.
pub(super) fn subtract_trees(set: &mut Fields, other: &Fields) {
    for (element, theirs) in nodes(other) {
        if is_member(theirs) {
            set.remove(element);
            continue;
        }
        let Some(ours) = set.get_mut(element) else {
            continue;
        };
        let (member, mut rest) = open(ours);
        if let Some(theirs) = below(theirs) {
            subtract_trees(&mut rest, theirs);
        }
        match node(member, rest) {
            Some(rest) => *ours = rest,
            None => {
                set.remove(element);
            }
        }
    }
}

/// Returns the intersection of two sets.
pub(super) fn common(one: &Fields, other: &Fields) -> Fields {
    let mut both = Map::new();
    for (element, theirs) in nodes(other) {
        let Some(ours) = one.get(element) else { continue };
        let rest = match (below(ours), below(theirs)) {
            (Some(ours), Some(theirs)) => common(ours, theirs),
            _ => Map::new(),
        };
        if let Some(common) = node(is_member(ours) && is_member(theirs), rest) {
            both.insert(element.clone(), common);
        }
    }
    both
}

/// Reports whether a path is in the set.
pub(super) fn contains<T: AsRef<str>>(set: &Fields, path: &[T]) -> bool {
    let Some((last, way)) = path.split_last() else {
        return false;
    };
    let mut here = set;
    for element in way {
        let Some(Value::Object(next)) = here.get(element.as_ref()) else {
            return false;
        };
        here = next;
    }
    here.get(last.as_ref()).is_some_and(is_member)
}

/// Returns the set that contains one path.
pub(super) fn one(path: &[&str]) -> Fields {
    let mut set = Map::new();
    let mut leaf = Value::Object(Map::new());
    for element in path.iter().rev() {
        set = Map::new();
        set.insert(*element, leaf);
        leaf = Value::Object(set.clone());
    }
    set
}

/// Returns the number of levels of a set.
pub(super) fn depth(set: &Fields) -> usize {
    let below = nodes(set).filter_map(|(_, node)| node.as_object().map(depth));
    below.max().map_or(0, |deepest| deepest + 1)
}

/// Returns all paths of the set, parents before children.
pub(super) fn paths(set: &Fields) -> Vec<Vec<Text>> {
    let mut all = Vec::new();
    walk(set, &mut Vec::new(), &mut all);
    all
}

fn walk(set: &Fields, at: &mut Vec<Text>, all: &mut Vec<Vec<Text>>) {
    let mut sorted: Vec<(&Text, &Value)> = nodes(set).collect();
    sorted.sort_by_cached_key(|(element, _)| crate::fieldmanager::element::Order::of(element));
    for (element, _) in sorted.iter().filter(|(_, node)| is_member(node)) {
        let mut path = at.clone();
        path.push((*element).clone());
        all.push(path);
    }
    for (element, node) in sorted {
        if let Value::Object(below) = node {
            at.push(element.clone());
            walk(below, at, all);
            at.pop();
        }
    }
}

/// Returns the set with all elements in canonical form, without elements of unknown types.
pub(super) fn canonical(set: &Fields) -> Result<Fields, String> {
    let mut clean = Map::new();
    for (element, node) in set {
        let Some(node) = node.as_object() else {
            return Err(format!("expected an object at {element:?}"));
        };
        if element == SELF {
            clean.insert(SELF, Value::Object(Map::new()));
        } else if let Some(element) = crate::fieldmanager::element::canonical(element)? {
            clean.insert(element, Value::Object(canonical(node)?));
        }
    }
    Ok(clean)
}
