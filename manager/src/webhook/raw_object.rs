//! Objects of reviews as text.

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::typed::{DecodeError, decode};

/// The JSON text of an object in a review.
///
/// A review comes from any client that reaches the port, and the tree of an object can be a hundred times as large as its
/// text. So a handler decodes the fields that it needs: [`RawObject::decode`].
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct RawObject(Box<RawValue>);

impl RawObject {
    /// Returns whether there is no object, such as the old one of a CREATE.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }

    /// Returns the text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Decodes the fields that `K` knows, and skips all others.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, DecodeError> {
        decode(self.get())
    }
}

impl Default for RawObject {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for RawObject {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl From<Value> for RawObject {
    fn from(value: Value) -> Self {
        // The text of a value is valid.
        to_raw_value(&value).map(Self).unwrap_or_default()
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawObject({} bytes)", self.get().len())
    }
}
