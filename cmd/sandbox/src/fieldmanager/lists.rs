//! List and map types of the built-in kinds (`x-kubernetes-list-type`, `x-kubernetes-map-type`).
//!
//! A list without a list type is atomic. Strategic merge patch has a separate table, with one merge key per list and
//! without sets.

use crate::generated;

/// The list type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topology {
    /// The list is one value.
    Atomic,
    /// The value of an item identifies it.
    Set,
    /// These fields identify an item, sorted by name.
    Keyed(&'static [&'static str]),
}

/// Returns the list type of a field; `short_name` is the short name of the type that has the field.
pub(super) fn of(short_name: &str, field: &str) -> Topology {
    match generated::field(short_name, field) {
        Some(field) if field.merge_type == "set" => Topology::Set,
        Some(field) if field.merge_type == "map" => Topology::Keyed(&field.map_keys),
        _ => Topology::Atomic,
    }
}

/// Reports whether objects of a type are atomic.
pub(super) fn is_atomic_type(short_name: &str) -> bool {
    generated::types().get(short_name).is_some_and(|ty| ty.atomic)
}

/// Reports whether a map field is atomic; `short_name` is the short name of the type that has the field.
pub(super) fn is_atomic_map(short_name: &str, field: &str) -> bool {
    generated::field(short_name, field).is_some_and(|field| field.merge_type == "atomic")
}

/// Returns the default of a key field if it is not the zero value of its type.
pub(super) fn key_default(short_name: &str, field: &str) -> Option<&'static str> {
    let default = generated::field(short_name, field)?.default?;
    Some(default.trim_matches('"'))
}
