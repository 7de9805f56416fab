//! JSON encoding of objects. An update copies the encodings of the parts that did not change.

use std::ops::Range;

use bytes::Bytes;

use crate::json::{Map, Value, encode, encode_key};

/// Shorter parts are encoded faster than found.
const SHORTEST_PART: usize = 64;

/// An object as JSON without `apiVersion` and `kind`.
#[derive(Debug)]
pub(super) struct Encoded {
    pub json: Bytes,
    /// The position of the text of `metadata.resourceVersion`, empty if there is none.
    pub version: Range<usize>,
    /// The objects and lists directly below the object and its metadata, with the positions of their encodings.
    parts: Vec<(Value, Range<usize>)>,
}

impl Encoded {
    /// Encodes an object. `base` is its previous version.
    pub fn new(object: &Value, base: Option<&Self>) -> Self {
        let mut encoder = Encoder {
            out: Vec::with_capacity(base.map_or(2048, |base| base.json.len() + 256)),
            version: 0..0,
            parts: Vec::new(),
            base,
        };
        let none = Map::new();
        encoder.members(
            object.as_object().unwrap_or(&none),
            &["apiVersion", "kind"],
            |encoder, name, value| match value {
                Value::Object(metadata) if name == "metadata" => {
                    encoder.members(metadata, &[], |encoder, name, value| {
                        let start = encoder.out.len() + 1;
                        encoder.part(value);
                        if name == "resourceVersion" {
                            encoder.version = start..encoder.out.len() - 1;
                        }
                    });
                }
                value => encoder.part(value),
            },
        );
        Self {
            json: encoder.out.into(),
            version: encoder.version,
            parts: encoder.parts,
        }
    }

    /// Returns the encoding with another `resourceVersion`. It is not meant as the base of others.
    pub fn with_version(&self, version: &str) -> Self {
        let (before, after) = (0..self.version.start, self.version.end..self.json.len());
        let part = |range| self.json.get(range).unwrap_or_default();
        Self {
            json: [part(before), version.as_bytes(), part(after)].concat().into(),
            version: self.version.start..self.version.start + version.len(),
            parts: Vec::new(),
        }
    }
}

struct Encoder<'b> {
    out: Vec<u8>,
    version: Range<usize>,
    parts: Vec<(Value, Range<usize>)>,
    base: Option<&'b Encoded>,
}

impl Encoder<'_> {
    /// Appends an object without some of its members.
    fn members(&mut self, map: &Map, without: &[&str], mut value_of: impl FnMut(&mut Self, &str, &Value)) {
        self.out.push(b'{');
        let start = self.out.len();
        for (name, value) in map.iter().filter(|(name, _)| !without.contains(&name.as_str())) {
            if self.out.len() > start {
                self.out.push(b',');
            }
            encode_key(&mut self.out, name);
            value_of(self, name, value);
        }
        self.out.push(b'}');
    }

    /// Appends a value; copies its encoding from the base, if that has it.
    fn part(&mut self, value: &Value) {
        let start = self.out.len();
        let of_base = self.base.and_then(|base| {
            let (_, range) = base.parts.iter().find(|(part, _)| part.is_shared_with(value))?;
            base.json.get(range.clone())
        });
        match of_base {
            Some(json) => self.out.extend_from_slice(json),
            None => encode(&mut self.out, value),
        }
        let range = start..self.out.len();
        if (value.is_object() || value.is_array()) && range.len() >= SHORTEST_PART {
            self.parts.push((value.clone(), range));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn text(encoded: &Encoded) -> String {
        String::from_utf8_lossy(&encoded.json).into_owned()
    }

    #[test]
    fn type_is_omitted_and_version_may_be_absent() {
        let encoded = Encoded::new(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}), None);
        assert_eq!(
            (text(&encoded).as_str(), encoded.version),
            (r#"{"metadata":{}}"#, 0..0)
        );
        assert_eq!(text(&Encoded::new(&json!({"kind": "Pod"}), None)), "{}");
    }

    #[test]
    fn version_is_replaced() {
        let object =
            json!({"metadata": {"annotations": {"resourceVersion": "7"}, "resourceVersion": "9"}, "z": 1});
        let encoded = Encoded::new(&object, None).with_version("10");
        let expected = r#"{"metadata":{"annotations":{"resourceVersion":"7"},"resourceVersion":"10"},"z":1}"#;
        assert_eq!(text(&encoded), expected);
        assert_eq!(encoded.json.get(encoded.version), Some(&b"10"[..]));
    }

    #[test]
    fn unchanged_parts_are_copied() {
        let long = "x".repeat(SHORTEST_PART);
        let mut object =
            json!({"metadata": {"labels": {"a": &long}, "name": "n"}, "spec": {"a": &long}, "status": {}});
        let mut first = Encoded::new(&object, None);
        assert_eq!(first.parts.len(), 2);
        // A base with other bytes shows which parts come from it.
        first.json = text(&first).replace(&long, &long.to_uppercase()).into();
        object["metadata"]["name"] = "m".into();
        object["spec"]["b"] = 1.into();
        let second = text(&Encoded::new(&object, Some(&first)));
        let upper = long.to_uppercase();
        assert_eq!(
            second,
            format!(
                r#"{{"metadata":{{"labels":{{"a":"{upper}"}},"name":"m"}},"spec":{{"a":"{long}","b":1}},"status":{{}}}}"#
            )
        );
    }
}
