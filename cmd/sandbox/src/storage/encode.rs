//! JSON encoding of objects. An update copies the encodings of the parts that did not change.

use std::ops::Range;

use bytes::Bytes;

use crate::json::{Map, Value, encode, encode_key};

/// Shorter parts are encoded faster than found.
const SHORTEST_PART: usize = 64;

/// The type of an object, which precedes its other members.
const TYPE: [&str; 2] = ["kind", "apiVersion"];

/// An object as JSON.
#[derive(Debug)]
pub(super) struct Encoded {
    /// The object and a newline, as responses contain it.
    pub line: Bytes,
    /// The position of the first member after the type.
    pub members: usize,
    /// The position of the text of `metadata.resourceVersion`, empty if there is none.
    pub version: Range<usize>,
    /// The objects and lists directly below the object and its metadata, with the positions of their encodings.
    parts: Vec<(Value, Range<usize>)>,
}

impl Encoded {
    /// Encodes an object. `base` is its previous version.
    pub fn new(object: &Value, base: Option<&Self>) -> Self {
        let mut encoder = Encoder {
            out: Vec::with_capacity(base.map_or(2048, |base| base.line.len() + 256)),
            version: 0..0,
            parts: Vec::new(),
            base,
        };
        let none = Map::new();
        let object = object.as_object().unwrap_or(&none);
        encoder.out.push(b'{');
        for name in TYPE {
            if let Some(value) = object.get(name) {
                encoder.key(name);
                encode(&mut encoder.out, value);
            }
        }
        let end_of_type = encoder.out.len();
        for (name, value) in object.iter().filter(|(name, _)| !TYPE.contains(&name.as_str())) {
            encoder.key(name);
            match value {
                Value::Object(metadata) if name == "metadata" => encoder.metadata(metadata),
                value => encoder.part(value),
            }
        }
        let has_both = end_of_type > 1 && encoder.out.len() > end_of_type;
        encoder.out.extend_from_slice(b"}\n");
        Self {
            line: encoder.out.into(),
            members: end_of_type + usize::from(has_both),
            version: encoder.version,
            parts: encoder.parts,
        }
    }

    /// Returns the encoding with another `resourceVersion`. It is not meant as the base of others.
    pub fn with_version(&self, version: &str) -> Self {
        let (before, after) = (0..self.version.start, self.version.end..self.line.len());
        let part = |range| self.line.get(range).unwrap_or_default();
        Self {
            line: [part(before), version.as_bytes(), part(after)].concat().into(),
            members: self.members,
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
    fn metadata(&mut self, metadata: &Map) {
        self.out.push(b'{');
        for (name, value) in metadata.iter() {
            self.key(name);
            let start = self.out.len() + 1;
            self.part(value);
            if name == "resourceVersion" {
                self.version = start..self.out.len() - 1;
            }
        }
        self.out.push(b'}');
    }

    /// Appends the key of a member of the innermost object.
    fn key(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        encode_key(&mut self.out, name);
    }

    /// Appends a value; copies its encoding from the base, if that has it.
    fn part(&mut self, value: &Value) {
        let start = self.out.len();
        let of_base = self.base.and_then(|base| {
            let (_, range) = base.parts.iter().find(|(part, _)| part.is_shared_with(value))?;
            base.line.get(range.clone())
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
        String::from_utf8_lossy(&encoded.line).trim_end().to_owned()
    }

    #[test]
    fn type_precedes_members_and_version_may_be_absent() {
        for (object, line, members) in [
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}),
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
                r#""metadata":{}}"#,
            ),
            (
                json!({"metadata": {}, "z": 1}),
                r#"{"metadata":{},"z":1}"#,
                r#""metadata":{},"z":1}"#,
            ),
            (json!({"kind": "Pod"}), r#"{"kind":"Pod"}"#, "}"),
            (json!({}), "{}", "}"),
        ] {
            let encoded = Encoded::new(&object, None);
            assert_eq!((text(&encoded).as_str(), &encoded.version), (line, &(0..0)));
            assert_eq!(text(&encoded).get(encoded.members..), Some(members));
        }
    }

    #[test]
    fn version_is_replaced() {
        let object =
            json!({"metadata": {"annotations": {"resourceVersion": "7"}, "resourceVersion": "9"}, "z": 1});
        let encoded = Encoded::new(&object, None).with_version("10");
        let expected = r#"{"metadata":{"annotations":{"resourceVersion":"7"},"resourceVersion":"10"},"z":1}"#;
        assert_eq!(text(&encoded), expected);
        assert_eq!(encoded.line.get(encoded.version), Some(&b"10"[..]));
    }

    #[test]
    fn unchanged_parts_are_copied() {
        let long = "x".repeat(SHORTEST_PART);
        let mut object =
            json!({"metadata": {"labels": {"a": &long}, "name": "n"}, "spec": {"a": &long}, "status": {}});
        let mut first = Encoded::new(&object, None);
        assert_eq!(first.parts.len(), 2);
        // A base with other bytes shows which parts come from it.
        first.line = text(&first).replace(&long, &long.to_uppercase()).into();
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
