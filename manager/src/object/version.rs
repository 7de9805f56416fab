//! resourceVersions and their order.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A resourceVersion. Only versions of one resource are comparable, and only if they are positive decimal numbers. Any
/// other text, including the empty one, is unordered.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    /// A positive number without leading zeros.
    Number(u64),
    /// Any other text, including numbers that do not fit.
    Text(Box<str>),
}

impl Version {
    /// Returns the empty version, that of an object that was never stored.
    #[must_use]
    pub fn none() -> Self {
        Self(Form::Text("".into()))
    }

    /// Returns true if the text is empty.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }

    /// Returns true if a cache at this version includes all changes up to `other`; false if they are not comparable.
    #[must_use]
    pub fn has_reached(&self, other: &Self) -> bool {
        self.partial_cmp(other).is_some_and(Ordering::is_ge)
    }

    /// Returns the last 15 digits, which a gauge can represent exactly; 0 if the version is not a number.
    #[must_use]
    pub fn gauge(&self) -> i64 {
        match &self.0 {
            Form::Number(number) => i64::try_from(number % 1_000_000_000_000_000).unwrap_or(0),
            Form::Text(_) => 0,
        }
    }

    fn digits(&self) -> Option<&str> {
        match &self.0 {
            Form::Text(text) if is_number(text) => Some(text),
            _ => None,
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        let number = is_number(text).then(|| text.parse().ok()).flatten();
        Self(number.map_or_else(|| Form::Text(text.into()), Form::Number))
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::none()
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if let (Form::Number(a), Form::Number(b)) = (&self.0, &other.0) {
            return Some(a.cmp(b));
        }
        let number = |version: &Self| matches!(version.0, Form::Number(_));
        match (self.digits(), other.digits()) {
            (Some(a), Some(b)) => Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b))),
            // A number is stored as text only if it does not fit into 64 bits.
            (Some(_), None) if number(other) => Some(Ordering::Greater),
            (None, Some(_)) if number(self) => Some(Ordering::Less),
            _ => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Number(number) => write!(f, "{number}"),
            Form::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer).map(|text| Self::from(&*text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_any_length_are_comparable() {
        let order = [
            "1",
            "9",
            "10",
            "18446744073709551615",
            "18446744073709551616",
            "28446744073709551616",
            "118446744073709551616",
        ];
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                assert_eq!(
                    Version::from(*a).partial_cmp(&Version::from(*b)),
                    Some(i.cmp(&j)),
                    "{a} {b}"
                );
            }
        }
        for odd in ["", "0", "01", "a", "-1", "1.0"] {
            for number in ["5", "18446744073709551616"].map(Version::from) {
                assert_eq!(Version::from(odd).partial_cmp(&number), None, "{odd}");
                assert_eq!(number.partial_cmp(&Version::from(odd)), None, "{odd}");
            }
            assert!(!Version::from(odd).has_reached(&Version::from("5")), "{odd}");
            assert!(!Version::from("5").has_reached(&Version::from(odd)), "{odd}");
            assert_eq!(Version::from(odd).to_string(), odd);
        }
    }

    #[test]
    fn gauge_is_the_last_fifteen_digits() {
        assert_eq!(Version::from("1234567890123456789").gauge(), 567_890_123_456_789);
        assert_eq!(Version::none().gauge(), 0);
    }
}
