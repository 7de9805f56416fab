//! The Go types of the built-in kinds: decoding of a body as the scheme of a real API server does it.
//!
//! [`builtin`] finds a kind, [`parse`] reads bytes, [`conform`] brings a value to the form of its type or explains the
//! mismatch. The functions are pure. The types are compiled from the generated data on first use. Defaulting and
//! validation belong to [`crate::registry`].

mod conform;
mod kinds;
mod parse;
mod path;
mod scalar;
mod time;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::generated;
use crate::json::Lookup;

pub use conform::{DecodeError, conform, conform_changed, conform_merged};
pub use parse::{ParseError, Parsed, parse};
pub(crate) use path::Path;

/// The schema of a built-in kind; `None` for anything else, custom resources first of all.
#[must_use]
pub fn builtin(api_version: &str, kind: &str) -> Option<TypeRef> {
    kinds::schema().kind(api_version, kind)
}

/// Returns the schema of a kind by its group and version.
#[must_use]
pub fn find(group: &str, version: &str, kind: &str) -> Option<TypeRef> {
    kinds::schema().find(group, version, kind)
}

/// Returns the types of all objects, in the order of their indexes.
pub fn types() -> impl Iterator<Item = TypeRef> {
    kinds::schema().definitions.iter().map(TypeRef)
}

/// The schema of `metadata`, which every object has, custom resources too.
#[must_use]
pub fn object_meta() -> Option<TypeRef> {
    kinds::schema().definition("meta.v1.ObjectMeta")
}

/// The schema of the body of a DELETE. Clients send it under many an `apiVersion`, so it is not looked up by one.
#[must_use]
pub fn delete_options() -> Option<TypeRef> {
    kinds::schema().definition("meta.v1.DeleteOptions")
}

/// An object type of the schema; cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct TypeRef(&'static Definition);

/// One object type.
#[derive(Debug)]
struct Definition {
    data: &'static generated::Type,
    short_name: &'static str,
    index: usize,
    /// Sorted by name.
    fields: Vec<Field>,
    by_name: Lookup<usize>,
}

/// One field of an object type: the generated facts, with a compiled type.
#[derive(Debug)]
pub struct Field {
    /// The type of its value.
    pub ty: Type,
    data: &'static generated::Field,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// An object of another type.
    Object(DefinitionIndex),
    /// An object whose keys are data.
    Map(Box<Type>),
    /// A list.
    List(Box<Type>),
    /// A string.
    String,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A 32-bit integer or a string, such as a port or a percentage.
    IntOrString,
    /// An amount such as `500m` or `1Gi`; a plain number is taken too.
    Quantity,
    /// A time in whole seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// Bytes in base64.
    Bytes,
    /// The first of these types that fits the shape of the value.
    OneOf(Vec<Type>),
    /// Anything; left alone.
    Any,
}

/// A reference to a definition. Types may contain themselves, so that a type names its parts by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionIndex(usize);

/// The compiled schema of all built-in kinds.
#[derive(Debug)]
struct Schema {
    /// Sorted by short name.
    definitions: Vec<Definition>,
    /// The definitions of the kinds, by group, version and kind.
    kinds: BTreeMap<(&'static str, &'static str, &'static str), DefinitionIndex>,
}

// === impl TypeRef ===

impl TypeRef {
    /// The full name of the type, such as `io.k8s.api.core.v1.PodSpec`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.data.name
    }

    /// The name without what all types of a group share, such as `core.v1.PodSpec`. It is unique too.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        self.0.short_name
    }

    /// The position of the type in [`types`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0.index
    }

    /// Reports whether server-side apply treats an object of the type as one value.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        self.0.data.atomic
    }

    /// One field by its JSON name.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.0.fields.get(*self.0.by_name.get(name)?)
    }

    /// All fields, by name.
    pub fn fields(self) -> impl Iterator<Item = (&'static str, &'static Field)> {
        self.0.fields.iter().map(|field| (field.name, field))
    }
}

impl Deref for Field {
    type Target = generated::Field;

    fn deref(&self) -> &generated::Field {
        self.data
    }
}

// === impl Type ===

impl Type {
    /// The definition behind an object type.
    #[must_use]
    pub fn object(&self) -> Option<TypeRef> {
        match self {
            Self::Object(index) => kinds::schema().at(*index),
            _ => None,
        }
    }
}

// === impl Schema ===

impl Schema {
    fn kind(&'static self, api_version: &str, kind: &str) -> Option<TypeRef> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.find(group, version, kind)
    }

    fn find(&'static self, group: &str, version: &str, kind: &str) -> Option<TypeRef> {
        self.at(*self.kinds.get(&(group, version, kind))?)
    }

    fn at(&'static self, index: DefinitionIndex) -> Option<TypeRef> {
        self.definitions.get(index.0).map(TypeRef)
    }

    fn definition(&'static self, short_name: &str) -> Option<TypeRef> {
        let by_name = |definition: &Definition| definition.short_name.cmp(short_name);
        self.at(DefinitionIndex(self.definitions.binary_search_by(by_name).ok()?))
    }
}
