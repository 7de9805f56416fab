//! Splits the JSON text of a list into its items while it arrives.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::client::response::{decode, text};
use crate::client::{ClientError, OBJECT_MAX};
use crate::object::Version;

/// Finds the items in a list by brackets and strings alone, so that only one item is held at a time. The rest of the list is
/// its envelope, in which each item is replaced by `0`: decoding the envelope at the end validates everything around the
/// items.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    envelope: Vec<u8>,
    /// The resourceVersion of the list; none if it follows the items.
    version: Option<Version>,
    /// The start of an item that continues in the next chunk, or an item that was returned.
    item: Vec<u8>,
    is_returned: bool,
    /// The number of open brackets.
    depth: usize,
    scan: Scan,
    in_items: bool,
    items: usize,
}

/// The position of the next byte.
#[derive(Debug, Default)]
enum Scan {
    #[default]
    Structure,
    String,
    /// After a backslash.
    Escape,
}

/// The JSON text of an item, which may be malformed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// The resourceVersion of the list, if it precedes the items.
    pub(super) version: Option<&'a Version>,
    pub(super) json: &'a [u8],
}

/// The metadata of a list.
#[derive(Debug, Deserialize)]
pub(super) struct ListHead {
    #[serde(rename = "resourceVersion", default)]
    pub(super) version: Version,
    #[serde(rename = "continue", default)]
    pub(super) token: Option<String>,
}

/// An item, or the text around the items, is longer than [`OBJECT_MAX`].
#[derive(Debug)]
pub(super) struct TooLarge;

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    kind: String,
    metadata: Option<ListHead>,
    #[serde(deserialize_with = "Option::deserialize")]
    items: Option<Vec<IgnoredAny>>,
}

impl Splitter {
    /// Returns the next item that ends in `chunk`, and removes all that it has read from `chunk`. None at the end
    /// of the chunk.
    pub(super) fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<Item<'a>>, TooLarge> {
        if self.is_returned {
            self.item.clear();
            self.is_returned = false;
        }
        let all = *chunk;
        // The start of the current item, or of the part of the envelope that is not copied yet.
        let mut start = 0;
        for (at, byte) in all.iter().enumerate() {
            match self.scan {
                Scan::Structure => {}
                Scan::String => {
                    match byte {
                        b'\\' => self.scan = Scan::Escape,
                        b'"' => self.scan = Scan::Structure,
                        _ => {}
                    }
                    continue;
                }
                Scan::Escape => {
                    self.scan = Scan::String;
                    continue;
                }
            }
            match byte {
                b'"' => self.scan = Scan::String,
                b'{' => self.depth += 1,
                b'[' => {
                    self.depth += 1;
                    if self.depth == 2 {
                        self.envelope.extend_from_slice(&all[start..=at]);
                        start = at + 1;
                        self.begin_items();
                    }
                }
                b',' | b']' | b'}' => {
                    let ends_item = self.in_items && self.depth == 2;
                    if *byte != b',' {
                        self.depth = self.depth.saturating_sub(1);
                    }
                    if !ends_item {
                        continue;
                    }
                    self.in_items = *byte == b',';
                    let rest = &all[start..at];
                    start = at + 1;
                    if is_blank(&self.item) && is_blank(rest) {
                        self.item.clear();
                        self.envelope.push(*byte);
                        continue;
                    }
                    self.envelope.extend([b'0', *byte]);
                    self.items += 1;
                    *chunk = &all[start..];
                    let json = if self.item.is_empty() {
                        rest
                    } else {
                        self.item.extend_from_slice(rest);
                        self.is_returned = true;
                        &self.item[..]
                    };
                    let version = self.version.as_ref();
                    return Ok(Some(Item { version, json }));
                }
                _ => {}
            }
        }
        let part = if self.in_items {
            &mut self.item
        } else {
            &mut self.envelope
        };
        part.extend_from_slice(&all[start..]);
        *chunk = &[];
        (part.len() <= OBJECT_MAX).then_some(None).ok_or(TooLarge)
    }

    /// An array of the list begins.
    fn begin_items(&mut self) {
        let before = self
            .envelope
            .strip_suffix(b"[")
            .unwrap_or_default()
            .trim_ascii_end();
        let key = before.strip_suffix(b":").unwrap_or_default().trim_ascii_end();
        self.in_items = key.ends_with(b"\"items\"");
        if self.in_items {
            let end = self.envelope.len();
            self.envelope.extend(b"]}");
            let envelope: Option<Envelope> = serde_json::from_str(&text(&self.envelope)).ok();
            self.version = envelope.and_then(|it| Some(it.metadata?.version));
            self.envelope.truncate(end);
        }
    }

    /// Returns the metadata at the end of the text. Rejects one with neither a resourceVersion nor the kind of a list, which
    /// must not be mistaken for an empty list.
    pub(super) fn finish(&self, request_line: &str) -> Result<ListHead, ClientError> {
        let envelope: Envelope = decode(text(&self.envelope).as_bytes(), request_line)?;
        let items = envelope.items.map_or(0, |items| items.len());
        let head = envelope.metadata.filter(|head| {
            let is_list = !head.version.is_none() || envelope.kind.ends_with("List");
            is_list && items == self.items
        });
        head.ok_or_else(|| ClientError::Decode {
            request_line: request_line.to_owned(),
            reason: "it is not a list".to_owned(),
        })
    }
}

fn is_blank(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// Splits a text that arrives in chunks with these ends.
    fn split(body: &[u8], ends: &[usize]) -> Option<(Vec<Value>, ListHead)> {
        let mut splitter = Splitter::default();
        let (mut items, mut start) = (Vec::new(), 0);
        for end in ends.iter().map(|end| end % (body.len() + 1)).chain([body.len()]) {
            let mut chunk = &body[start..end.max(start)];
            start = end.max(start);
            while let Some(item) = splitter.next(&mut chunk).ok()? {
                items.push(serde_json::from_str(&text(item.json)).ok()?);
            }
        }
        Some((items, splitter.finish("GET /x").ok()?))
    }

    /// The items that the decoder of the whole text returns.
    fn expected(list: &Value) -> Vec<Value> {
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            Just(r#"","items":[{"#.to_owned()),
            Just(r"]}\\".to_owned()),
            any::<String>(),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            let key = prop_oneof![Just("items".to_owned()), text.clone()];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    /// A list whose fields are in any order.
    fn list() -> impl Strategy<Value = (Value, String)> {
        let items = prop_oneof![1 => Just(Value::Null), 9 => prop::collection::vec(value(), 0..5).prop_map(Value::from)];
        (items, value(), any::<bool>(), any::<bool>(), "[a-z]{0,3}").prop_map(
            |(items, other, is_first, is_pretty, token)| {
                let metadata = json!({"resourceVersion": "7", "continue": token});
                let format = |value: &Value| {
                    if is_pretty {
                        format!("{value:#}")
                    } else {
                        value.to_string()
                    }
                };
                let [m, i, o] = [&metadata, &items, &other].map(format);
                let text = if is_first {
                    format!(r#"{{"kind":"PodList","metadata" : {m},"x":{o} , "items" : {i}}}"#)
                } else {
                    format!(r#"{{"x":{o},"items":{i},"kind":"PodList","metadata":{m}}}"#)
                };
                (serde_json::from_str(&text).expect("JSON"), text)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn list_in_any_chunks_has_the_items_of_the_whole_text(
            (list, text) in list(),
            mut ends in prop::collection::vec(any::<usize>(), 0..20),
        ) {
            for end in &mut ends {
                *end %= text.len() + 1;
            }
            ends.sort_unstable();
            let (items, head) = split(text.as_bytes(), &ends).expect("a list");
            prop_assert_eq!(items, expected(&list));
            prop_assert_eq!(head.version, Version::from("7"));
            prop_assert_eq!(json!(head.token), list["metadata"]["continue"].clone());
        }

        #[test]
        fn corrupted_list_is_rejected_or_has_the_items_of_the_whole_text(
            (_, valid) in list(),
            at in any::<prop::sample::Index>(),
            byte in prop_oneof![Just(None), prop::sample::select(br#"[]{},:"\ 0i"#.to_vec()).prop_map(Some)],
            is_inserted in any::<bool>(),
        ) {
            let mut body = valid.into_bytes();
            let at = at.index(body.len());
            match byte {
                Some(byte) if is_inserted => body.insert(at, byte),
                Some(byte) => body[at] = byte,
                None => drop(body.remove(at)),
            }
            if let Some((items, _)) = split(&body, &[]) {
                let list: Value = serde_json::from_str(&text(&body)).expect("the whole text is valid, too");
                prop_assert_eq!(items, expected(&list));
            }
        }
    }

    #[test]
    fn body_that_is_not_a_list_is_rejected() {
        for body in [
            "",
            "{}",
            "[]",
            r#"{"metadata":{},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":""},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":"1"}}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[{}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[{} {}]"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[{},]}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":{"items":[{}]}}"#,
            r#"{"metadata":{"resourceVersion":"1"},"\u0069tems":[{}]}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[],"items":[{}]}"#,
            r#"{"kind":"PodList","items":[]}"#,
            r#"{"kind":"Status","metadata":{}}"#,
            "<html>",
        ] {
            assert!(split(body.as_bytes(), &[]).is_none(), "{body}");
        }
        let unversioned = split(br#"{"kind":"WidgetList","metadata":{},"items":[]}"#, &[]);
        assert!(unversioned.expect("a list").1.version.is_none());
    }

    #[test]
    fn version_that_precedes_the_items_is_known_with_the_first_one() {
        for (text, version) in [
            (
                &br#"{"metadata":{"resourceVersion":"7"},"items":[1,"#[..],
                Some(Version::from("7")),
            ),
            (br#"{"items":[1,"#, None),
        ] {
            let mut splitter = Splitter::default();
            let found = splitter.next(&mut &*text).expect("short").expect("an item");
            assert_eq!((found.version, found.json), (version.as_ref(), &b"1"[..]));
        }
    }

    #[test]
    fn endless_item_is_rejected() {
        for start in [r#"{"items":[""#, r#"{"kind":""#] {
            let mut splitter = Splitter::default();
            let chunk = vec![b'x'; 1024 * 1024];
            assert!(matches!(splitter.next(&mut start.as_bytes()), Ok(None)));
            let chunks = (1..).take_while(|_| matches!(splitter.next(&mut &chunk[..]), Ok(None)));
            assert_eq!(chunks.count(), 31, "{start}");
        }
    }

    #[test]
    fn errors_do_not_quote_the_body() {
        let text = br#"{"metadata":{"resourceVersion":"1"},"hunter2"}"#;
        let mut splitter = Splitter::default();
        assert!(matches!(splitter.next(&mut &text[..]), Ok(None)));
        let error = splitter.finish("GET /x").expect_err("malformed");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
