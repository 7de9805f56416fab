//! Parsing of JSON, with a report of duplicate keys.
//!
//! The last of two equal keys wins, as everywhere in the API; which ones there were is for the caller to refuse, to warn
//! about or to ignore. Nesting is bounded by the parser (127 levels), so that walks over a parsed value may recurse.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use thiserror::Error;

use super::path::{Path, Reported};
use crate::json::{self, List, Map, Number, Text, Value};

/// A body, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The parsed value.
    pub value: Value,
    /// The paths of keys that stand more than once, such as `spec.replicas`.
    pub duplicates: Vec<String>,
}

/// The body is not JSON.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{0}")]
pub struct ParseError(String);

/// Reads a body.
pub fn parse(body: &[u8]) -> Result<Parsed, ParseError> {
    // Invalid UTF-8 becomes replacement characters, as on a real server.
    let text = match std::str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(body),
    };
    let mut reading = Reading::default();
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let seed = Seed {
        path: &Path::Root,
        reading: &mut reading,
    };
    let value = seed
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| ParseError(error.to_string()))?;
    Ok(Parsed {
        value,
        duplicates: reading.duplicates.into_vec(),
    })
}

/// The state of reading a body.
#[derive(Default)]
struct Reading {
    duplicates: Reported,
    /// The members of the open objects and the items of the open lists: a closed one takes as much memory as it needs.
    members: Vec<(Text, Value)>,
    items: Vec<Value>,
}

struct Seed<'a> {
    path: &'a Path<'a>,
    reading: &'a mut Reading,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // The parser reads the integer -0 as a float.
        if value == 0.0 && value.is_sign_negative() {
            return Ok(Value::Number(0.into()));
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let Self { path, reading } = self;
        let start = reading.items.len();
        loop {
            let path = path.index(reading.items.len() - start);
            match access.next_element_seed(Seed { path: &path, reading })? {
                Some(item) => reading.items.push(item),
                None => break,
            }
        }
        let mut items = List::with_capacity(reading.items.len() - start);
        items.extend(reading.items.drain(start..));
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let Self { path, reading } = self;
        let start = reading.members.len();
        let mut is_sorted = true;
        while let Some(key) = access.next_key_seed(Key)? {
            let path = path.key(&key);
            let before = reading.members.get(start..).unwrap_or_default();
            // Most bodies are sorted.
            let follows = is_sorted && before.last().is_none_or(|(last, _)| *last < key);
            let present = before.iter().position(|(other, _)| !follows && *other == key);
            if present.is_some() {
                reading.duplicates.add(&path);
            }
            let value = access.next_value_seed(Seed { path: &path, reading })?;
            match present.and_then(|at| reading.members.get_mut(start + at)) {
                Some((_, present)) => *present = value,
                None => reading.members.push((key, value)),
            }
            is_sorted &= follows;
        }
        let members = reading.members.drain(start..);
        Ok(Value::Object(if is_sorted {
            Map::from_sorted(members)
        } else {
            members.collect()
        }))
    }
}

/// Reads the key of an object without an intermediate string.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Text;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Text, E> {
        Ok(json::key(key))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seed = Seed {
            path: &Path::Root,
            reading: &mut Reading::default(),
        };
        seed.deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::json;

    #[test]
    fn duplicates_are_named_and_the_last_one_wins() {
        let parsed =
            parse(br#"{"spec":{"replicas":1,"list":[{"a":1,"a":2},{"a":1}],"replicas":2},"spec.x":1}"#)
                .expect("JSON");
        assert_eq!(
            parsed.value,
            json!({"spec": {"replicas": 2, "list": [{"a": 2}, {"a": 1}]}, "spec.x": 1})
        );
        assert_eq!(parsed.duplicates, ["spec.list[0].a", "spec.replicas"]);
    }

    #[test]
    fn negative_zero_is_the_integer_zero() {
        let parsed = parse(b"[-0, 0, -0.5]").expect("JSON");
        assert_eq!(parsed.value, json!([0, 0, -0.5]));
    }

    #[test]
    fn malformed_json_is_rejected() {
        for body in [
            "",
            "x",
            r#"{"a":"#,
            "{a:1}",
            r#"{"a":1,}"#,
            r#"{"a" 5}"#,
            r#"{"a":[1,]}"#,
            "{} x",
            r#"{"a":1.}"#,
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_deep_nesting_is_refused() {
        assert_eq!(parse(b"\"a\xff\"").expect("JSON").value, json!("a\u{fffd}"));
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(deep(127).as_bytes()).is_ok());
        assert!(parse(deep(100_000).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn parsing_reads_what_was_written(value in json_value()) {
            let parsed = parse(value.to_string().as_bytes()).expect("JSON");
            prop_assert_eq!(parsed.value, value);
            prop_assert!(parsed.duplicates.is_empty());
        }

        #[test]
        fn no_text_makes_the_parser_fall(text in ".{0,24}") {
            let _ = parse(text.as_bytes());
        }
    }

    /// Any small JSON value. Numbers are whole: two readers may disagree about the last bit of a fraction.
    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z.]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }
}
