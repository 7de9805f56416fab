//! List and map types of the built-in kinds (`x-kubernetes-list-type`, `x-kubernetes-map-type`).
//!
//! A list without a list type is atomic. Strategic merge patch has its own table: it uses one key for each list, and
//! no sets.

use crate::generated;

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topology {
    /// Not at all.
    Atomic,
    /// By what they are.
    Set,
    /// By these fields, in the order of their names.
    Keyed(&'static [&'static str]),
}

/// The topology of a list, by the short name of the type that has it.
pub(super) fn of(short_name: &str, field: &str) -> Topology {
    match generated::field(short_name, field) {
        Some(field) if field.merge_type == "set" => Topology::Set,
        Some(field) if field.merge_type == "map" => Topology::Keyed(&field.map_keys),
        _ => Topology::Atomic,
    }
}

/// Whether an object of a type is one value.
pub(super) fn is_atomic_type(short_name: &str) -> bool {
    generated::types().get(short_name).is_some_and(|ty| ty.atomic)
}

/// Whether a map is one value, by the type that has it.
pub(super) fn is_atomic_map(short_name: &str, field: &str) -> bool {
    generated::field(short_name, field).is_some_and(|field| field.merge_type == "atomic")
}

/// The default of a key, if it is not the zero value of its type.
pub(super) fn key_default(short_name: &str, field: &str) -> Option<&'static str> {
    let default = generated::field(short_name, field)?.default?;
    Some(default.trim_matches('"'))
}
