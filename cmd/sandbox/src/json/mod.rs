//! JSON values that share their parts.
//!
//! A clone shares lists, objects and long strings with the original. A change copies the objects and lists on the way to it,
//! and nothing else. Two values that share a part compare it in constant time. An update therefore costs as much as its
//! change: the stored version, the next version and the intermediate steps of a request have most parts in common.
//!
//! The interface is that of `serde_json::Value`, as far as the crate uses it.

mod convert;
mod encode;
mod index;
mod macros;
mod map;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::de::DeserializeOwned;

pub(crate) use convert::ToJson;
pub(crate) use encode::{encode, key as encode_key};
pub(crate) use macros::json;
pub use map::Map;
pub(crate) use map::{Lookup, element, key};
pub use serde_json::Number;

/// An immutable string. A short one is stored in place; a clone shares a long one.
pub type Text = ecow::EcoString;

/// A list. A clone shares it.
pub type List = ecow::EcoVec<Value>;

/// A JSON value.
#[derive(Clone, Default)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// A list.
    Array(List),
    /// An object, sorted by key.
    Object(Map),
}

macro_rules! number {
    ($is:ident, $as:ident, $ty:ty) => {
        /// Reports whether the value is a number of this type.
        #[must_use]
        pub fn $is(&self) -> bool {
            matches!(self, Self::Number(number) if number.$is())
        }

        /// Returns the number, if it has this type.
        #[must_use]
        pub fn $as(&self) -> Option<$ty> {
            match self {
                Self::Number(number) => number.$as(),
                _ => None,
            }
        }
    };
}

macro_rules! variant {
    ($is:ident, $as:ident, $variant:ident, $ty:ty) => {
        /// Reports whether the value has this type.
        #[must_use]
        pub fn $is(&self) -> bool {
            matches!(self, Self::$variant(_))
        }

        /// Returns the content, if the value has this type.
        #[must_use]
        pub fn $as(&self) -> Option<&$ty> {
            match self {
                Self::$variant(content) => Some(content),
                _ => None,
            }
        }
    };
}

impl Value {
    number!(is_i64, as_i64, i64);
    number!(is_u64, as_u64, u64);
    number!(is_f64, as_f64, f64);
    variant!(is_number, as_number, Number, Number);
    variant!(is_string, as_str, String, str);
    variant!(is_array, as_array, Array, [Self]);
    variant!(is_object, as_object, Object, Map);

    /// Returns the number of nested lists and objects, 0 for a scalar. Recurses once per level.
    pub fn depth(&self) -> usize {
        let deepest = match self {
            Self::Array(items) => items.iter().map(Self::depth).max(),
            Self::Object(map) => map.values().map(Self::depth).max(),
            _ => return 0,
        };
        1 + deepest.unwrap_or(0)
    }

    /// Reports whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Reports whether the value is `true` or `false`.
    #[must_use]
    pub fn is_boolean(&self) -> bool {
        self.as_bool().is_some()
    }

    /// Returns the Boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the list for changes, if it is one.
    pub fn as_array_mut(&mut self) -> Option<&mut List> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the object for changes, if it is one.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the value at a JSON pointer, such as `/spec/containers/0`.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        pointer
            .split('/')
            .skip(1)
            .try_fold(self, |value, part| match value {
                Self::Array(items) => items.get(part.parse::<usize>().ok()?),
                value if part.contains('~') => value.get(&part.replace("~1", "/").replace("~0", "~")),
                value => value.get(part),
            })
    }

    /// Decodes the value as a type.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.to_string())
    }

    /// Returns the value, and leaves `null`.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Reports whether two lists or two objects are one in memory, or two strings are equal. Other values are not compared.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(one), Self::Array(other)) => std::ptr::eq(one.as_slice(), other.as_slice()),
            (Self::Object(one), Self::Object(other)) => one.is_shared_with(other),
            (Self::String(one), Self::String(other)) => one == other,
            _ => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::String(one), Self::String(other)) => one == other,
            (Self::Array(items), Self::Array(others)) => self.is_shared_with(other) || items == others,
            (Self::Object(one), Self::Object(other)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        encode(&mut out, self);
        f.write_str(str::from_utf8(&out).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
