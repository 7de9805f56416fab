//! The codec of lists and watch events.
//!
//! Objects are decoded one by one, directly into the projection: one that cannot be decoded does not fail its list, and
//! keeps the identity that can still be read. Errors never quote the body, which may be a Secret, only the position.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::client::{Status, text};
use crate::object::{Key, Object, Uid, Version};

/// An item of a list, or the object of an event. Each store decodes it into its own projection.
#[derive(Debug)]
pub(super) struct RawItem<'a> {
    /// None if it could not be decoded.
    pub(super) identity: Option<ItemIdentity<'a>>,
    json: &'a str,
}

/// The identity of an item, and its resourceVersion. Name and uid are not empty.
#[derive(Debug)]
pub(super) struct ItemIdentity<'a> {
    pub(super) namespace: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) uid: Uid,
    pub(super) version: Version,
}

/// An object as far as it could be decoded.
#[derive(Debug)]
pub(super) enum Item<T> {
    /// Without a name or a uid it counts as [`Item::Unidentified`].
    Decoded(T),
    /// It could not be decoded, but its identity is known.
    Undecodable(Identity),
    /// Not even its identity could be decoded.
    Unidentified,
}

/// The identity of an object, and its resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) key: Key,
    pub(super) uid: Uid,
    pub(super) version: Version,
}

/// The error of decoding an item of a list, or an event.
#[derive(Debug, thiserror::Error)]
#[error("{problem} at line {line} column {column}")]
pub(super) struct WireError {
    problem: &'static str,
    line: usize,
    column: usize,
}

/// A watch event.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// An object was added or modified.
    Put(RawItem<'a>),
    /// An object was deleted. Its resourceVersion is that of the deletion.
    Deleted(RawItem<'a>),
    Bookmark(Version),
    Error(Status),
}

/// Decodes an item of a list.
pub(super) fn item(text: &str) -> Result<RawItem<'_>, WireError> {
    Ok(RawItem::of(serde_json::from_str(text)?))
}

/// Decodes only the resourceVersion of a list.
pub(super) fn list_version(body: &[u8]) -> Result<Version, WireError> {
    let version = version_of(&text(body))?;
    if version.is_none() {
        return Err(WireError::of("the list has no resourceVersion"));
    }
    Ok(version)
}

/// Decodes a watch event.
pub(super) fn event(text: &str) -> Result<Event<'_>, WireError> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }

    let raw: Raw<'_> = serde_json::from_str(text)?;
    match &*raw.kind {
        "ADDED" | "MODIFIED" => Ok(Event::Put(RawItem::of(raw.object))),
        "DELETED" => Ok(Event::Deleted(RawItem::of(raw.object))),
        "BOOKMARK" => Ok(Event::Bookmark(version_of(raw.object.get())?)),
        // An error without a Status is still an error.
        "ERROR" => Ok(Event::Error(
            serde_json::from_str(raw.object.get()).unwrap_or_default(),
        )),
        _ => Err(WireError::of("unknown event type")),
    }
}

/// Decodes only the type of a watch event; empty if it is unreadable.
pub(super) fn event_type(text: &str) -> String {
    #[derive(Deserialize)]
    struct Raw {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_str::<Raw>(text).map_or_else(|_| String::new(), |raw| raw.kind)
}

impl<'a> RawItem<'a> {
    fn of(raw: &'a RawValue) -> Self {
        Self {
            identity: ItemIdentity::of(raw.get()),
            json: raw.get(),
        }
    }

    /// Decodes the item into a projection.
    pub(super) fn decode<T: Object>(&self) -> Item<T> {
        let Some(identity) = &self.identity else {
            return Item::Unidentified;
        };
        match serde_json::from_str::<T>(self.json) {
            Ok(object) if !object.meta().name.is_empty() && !object.meta().uid.is_empty() => {
                Item::Decoded(object)
            }
            _ => Item::Undecodable(Identity {
                key: Key::new(&*identity.namespace, &*identity.name),
                uid: identity.uid.clone(),
                version: identity.version.clone(),
            }),
        }
    }
}

impl<'a> ItemIdentity<'a> {
    /// Decodes only the identity, without a copy.
    fn of(json: &'a str) -> Option<Self> {
        fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
            // Only a text with escape sequences has to be copied.
            let plain = serde_json::from_str::<&str>(raw.get()).map(Cow::Borrowed);
            plain
                .or_else(|_| serde_json::from_str(raw.get()).map(Cow::Owned))
                .ok()
        }

        let mut metadata = None;
        // Fails after the metadata, because the rest is not read.
        let _ = UpToMetadata(&mut metadata).deserialize(&mut serde_json::Deserializer::from_str(json));
        let metadata = metadata?;
        let namespace = metadata.namespace.map_or(Some(Cow::Borrowed("")), text)?;
        let (name, uid) = (text(metadata.name)?, text(metadata.uid)?);
        let version = metadata.resource_version.and_then(text).unwrap_or_default();
        (!name.is_empty() && !uid.is_empty()).then(|| Self {
            namespace,
            name,
            uid: Uid::from(&*uid),
            version: Version::from(&*version),
        })
    }
}

/// The fields of the metadata that identify an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityFields<'a> {
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow)]
    uid: &'a RawValue,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
}

/// A decoder of an object up to its metadata, which precedes the large fields.
struct UpToMetadata<'a, 'de>(&'a mut Option<IdentityFields<'de>>);

impl<'de> DeserializeSeed<'de> for UpToMetadata<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for UpToMetadata<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with metadata")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        enum Field {
            Metadata,
            #[serde(other)]
            Other,
        }
        while let Some(field) = map.next_key()? {
            match field {
                Field::Metadata => {
                    *self.0 = Some(map.next_value()?);
                    return Ok(());
                }
                Field::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

fn version_of(text: &str) -> Result<Version, WireError> {
    #[derive(Deserialize)]
    struct Raw {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        #[serde(default)]
        resource_version: Version,
    }
    let raw: Raw = serde_json::from_str(text)?;
    Ok(raw.metadata.resource_version)
}

impl WireError {
    fn of(problem: &'static str) -> Self {
        Self {
            problem,
            line: 0,
            column: 0,
        }
    }
}

impl From<serde_json::Error> for WireError {
    fn from(error: serde_json::Error) -> Self {
        Self {
            // The message of serde_json may quote the body.
            problem: match error.classify() {
                serde_json::error::Category::Data => "unexpected data",
                serde_json::error::Category::Eof => "unexpected end of data",
                _ => "invalid JSON",
            },
            line: error.line(),
            column: error.column(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::object::MetaObject;

    const SECRET: &str = "hunter2";

    fn decoded(json: &str) -> Item<MetaObject> {
        item(json).expect("JSON").decode()
    }

    fn name(item: &Item<MetaObject>) -> String {
        match item {
            Item::Decoded(object) => object.metadata.name.to_string(),
            Item::Undecodable(it) => format!("undecodable {}", it.key),
            Item::Unidentified => "unidentified".to_owned(),
        }
    }

    #[test]
    fn invalid_item_keeps_the_identity_that_can_be_read() {
        let invalid =
            r#"{"metadata":{"name":"b","namespace":"n","uid":"2","resourceVersion":"5","labels":7}}"#;
        assert!(matches!(decoded(invalid), Item::Undecodable(it)
            if it.uid == Uid::from("2") && it.version == Version::from("5")));
        for (json, expected) in [
            (r#"{"metadata":{"name":"a","uid":"1"}}"#, "a"),
            (invalid, "undecodable n/b"),
            (r#"{"metadata":{"name":"c","uid":3}}"#, "unidentified"),
            (r#"{"metadata":{"name":"","uid":"4"}}"#, "unidentified"),
            (r#"{"metadata":{"name":"d"}}"#, "unidentified"),
            ("{}", "unidentified"),
            (" 7", "unidentified"),
            (r#""x""#, "unidentified"),
            ("null", "unidentified"),
            ("[]", "unidentified"),
        ] {
            assert_eq!(name(&decoded(json)), expected, "{json}");
        }
        for malformed in ["", "{", r#"{"metadata":{"name":"a","uid":"1"},"x":tru}"#, "{}{}"] {
            assert!(item(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn events_are_decoded_by_type() {
        let line = |kind: &str, object: &str| format!(r#"{{"type":"{kind}","object":{object}}}"#);
        let object = r#"{"metadata":{"name":"a","uid":"1","resourceVersion":"3"}}"#;
        let is_named = |item: &RawItem<'_>| matches!(item.decode(), Item::Decoded(MetaObject { .. }));
        for kind in ["ADDED", "MODIFIED"] {
            assert!(matches!(event(&line(kind, object)), Ok(Event::Put(item)) if is_named(&item)));
        }
        assert!(matches!(event(&line("DELETED", object)), Ok(Event::Deleted(item)) if is_named(&item)));
        assert!(matches!(event(&line("ADDED", "1")), Ok(Event::Put(item)) if item.identity.is_none()));
        assert!(
            matches!(event(&line("BOOKMARK", object)), Ok(Event::Bookmark(v)) if v == Version::from("3"))
        );
        assert!(matches!(event(&line("ERROR", r#"{"code":410}"#)), Ok(Event::Error(s)) if s.code == 410));
        assert!(matches!(event(&line("ERROR", "7")), Ok(Event::Error(s)) if s == Status::default()));
        assert!(event(&line("SURPRISE", object)).is_err() && event(&line("BOOKMARK", "{}")).is_err());
    }

    #[test]
    fn errors_do_not_quote_the_body() {
        let bad = format!(r#"{{"type":"ADDED","object":{{"data":"{SECRET}"{SECRET}}}"#);
        let error = event(&bad).expect_err("not an event");
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
        assert!(error.to_string().contains("line 1 column"), "{error}");
    }

    #[test]
    fn invalid_utf_8_becomes_replacement_characters() {
        let mut body = br#"{"metadata":{"name":"a","uid":"1","labels":{"x":""#.to_vec();
        body.extend([0xff]);
        body.extend(br#""}}}"#);
        assert!(matches!(decoded(&text(&body)), Item::Decoded(o)
            if o.metadata.labels.get("x").is_some_and(|x| *x == "\u{fffd}")));
    }

    #[test]
    fn deeply_nested_object_is_decoded() {
        // Deeper than any stack, in a field that the projection omits.
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let nested = decoded(&format!(
            r#"{{"spec":{deep},"metadata":{{"name":"a","uid":"1"}}}}"#
        ));
        assert_eq!(name(&nested), "a");
        // In a field that the projection reads.
        let labels = decoded(&format!(
            r#"{{"metadata":{{"name":"a","uid":"1","labels":{deep}}}}}"#
        ));
        assert_eq!(name(&labels), "undecodable a");
        let owner = r#"{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}"#;
        let owners = vec![owner; 100_000].join(",");
        let bomb = decoded(&format!(
            r#"{{"metadata":{{"name":"a","uid":"1","ownerReferences":[{owners}]}}}}"#
        ));
        assert!(matches!(&bomb, Item::Decoded(it) if it.metadata.owner_references.len() == 100_000));
    }
}
