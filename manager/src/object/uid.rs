//! Object uids.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::queue::Item;

/// The uid of an object. Two are equal only if their texts are. Canonical lower-case UUIDs, as the API server assigns
/// them, take 16 bytes; any other text is stored as it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

impl Item for Uid {}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Uuid([u8; 16]),
    Verbatim(Box<str>),
}

/// The positions of the dashes in a UUID.
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// Returns true if the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Verbatim(text) if text.is_empty())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Uuid(_) => 0,
            Form::Verbatim(text) => text.len(),
        }
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(pack(text).map_or_else(|| Form::Verbatim(text.into()), Form::Uuid))
    }
}

fn pack(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 || DASHES.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut digits = text
        .iter()
        .enumerate()
        .filter(|(at, _)| !DASHES.contains(at))
        .map(|(_, digit)| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        });
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Verbatim(text) => f.write_str(text),
            Form::Uuid(bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    if [4, 6, 8, 10].contains(&i) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer).map(|text| Self::from(&*text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn only_canonical_uuids_are_packed() {
        let canonical = "0f3c9a52-77aa-4e1b-9d3e-0123456789ab";
        assert!(matches!(Uid::from(canonical).0, Form::Uuid(_)));
        for other in [
            "0F3C9A52-77AA-4E1B-9D3E-0123456789AB",
            "0f3c9a5277aa4e1b9d3e0123456789ab",
            "0f3c9a52-77aa-4e1b-9d3e-0123456789a",
            "0f3c9a52-77aa-4e1b-9d3e_0123456789ab",
            "",
            "x",
        ] {
            assert!(matches!(Uid::from(other).0, Form::Verbatim(_)), "{other}");
        }
        assert!(Uid::from("").is_empty() && !Uid::from(canonical).is_empty());
    }

    proptest! {
        #[test]
        fn text_round_trips_and_decides_equality(
            a in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[-0-9a-fA-F]{36}|.{0,40}",
            b in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|.{0,4}",
        ) {
            prop_assert_eq!(Uid::from(&*a).to_string(), a.clone());
            prop_assert_eq!(Uid::from(&*a) == Uid::from(&*b), a == b);
        }
    }
}
