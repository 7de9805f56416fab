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

use crate::generated::short_name;

pub use conform::{DecodeError, conform, conform_merged};
pub use parse::{Parsed, parse};

/// The schema of a built-in kind; `None` for anything else, custom resources first of all.
#[must_use]
pub fn builtin(api_version: &str, kind: &str) -> Option<TypeRef> {
    kinds::schema().kind(api_version, kind)
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
    /// The published name, such as `io.k8s.api.core.v1.PodSpec`.
    name: &'static str,
    fields: BTreeMap<&'static str, Field>,
}

/// One field of an object type.
#[derive(Debug)]
pub struct Field {
    /// The type of its value.
    pub ty: Type,
    /// The API always shows this field, even when it is empty.
    pub required: bool,
    /// The field is optional, and its zero value (`0`, `false`, `""`) still differs from leaving it out.
    pub keeps_zero: bool,
    /// The server writes the field even if it is not set: as null, or with its zero value.
    pub shown: bool,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// An object of the type with this short name.
    Object(&'static str),
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

/// The compiled schema of all built-in kinds.
#[derive(Debug)]
struct Schema {
    /// By short name.
    definitions: BTreeMap<&'static str, Definition>,
    /// From group, version and kind to the short name of a definition.
    kinds: BTreeMap<(&'static str, &'static str, &'static str), &'static str>,
}

// === impl TypeRef ===

impl TypeRef {
    /// The full name of the type, such as `io.k8s.api.core.v1.PodSpec`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The name without what all types of a group share, such as `core.v1.PodSpec`. It is unique too.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        short_name(self.0.name)
    }

    /// One field by its JSON name.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.0.fields.get(name)
    }

    /// All fields, by name.
    pub fn fields(self) -> impl Iterator<Item = (&'static str, &'static Field)> {
        self.0.fields.iter().map(|(name, field)| (*name, field))
    }
}

// === impl Type ===

impl Type {
    /// The definition behind an object type.
    #[must_use]
    pub fn object(&self) -> Option<TypeRef> {
        match self {
            Self::Object(name) => kinds::schema().definition(name),
            _ => None,
        }
    }
}

// === impl Schema ===

impl Schema {
    fn kind(&'static self, api_version: &str, kind: &str) -> Option<TypeRef> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.definition(self.kinds.get(&(group, version, kind))?)
    }

    fn definition(&'static self, name: &str) -> Option<TypeRef> {
        self.definitions.get(name).map(TypeRef)
    }
}
