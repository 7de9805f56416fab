//! List and map types of the built-in kinds (`x-kubernetes-list-type`, `x-kubernetes-map-type`).
//!
//! A list without a list type is atomic. Strategic merge patch has a separate table, with one merge key per list and
//! without sets.

use crate::schema::Field;

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

/// Returns the list type of a field.
pub(super) fn of(field: &'static Field) -> Topology {
    match field.merge_type {
        "set" => Topology::Set,
        "map" => Topology::Keyed(&field.map_keys),
        _ => Topology::Atomic,
    }
}
