//! The codec: what comes over the wire, as items and events.
//!
//! Objects are decoded one by one, straight into the projection, so that one that cannot be decoded does not spoil its
//! page: it is present but unknown, by the identity that can still be read. What was on the wire is never quoted, it may
//! be a secret: an error has the position only. Text that is not UTF-8 is read as Go reads it, with replacement characters.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::item::{Identity, Item};
use crate::client::Status;
use crate::object::{Key, Object, Uid, Version};

/// What came is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{problem} at line {line} column {column}")]
pub(super) struct WireError {
    problem: &'static str,
    line: usize,
    column: usize,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// The version of the whole list; none from servers that do not tell.
    pub(super) version: Version,
    /// Where the next page begins, if this is not the last.
    pub(super) continue_token: Option<String>,
    pub(super) items: Vec<Item<T>>,
}

/// A line of a watch.
#[derive(Debug)]
pub(super) enum Event<T> {
    /// An object is there, in this state.
    Put(Item<T>),
    /// An object is gone; its version is that of its end.
    Deleted(Item<T>),
    /// Nothing has changed up to this version.
    Bookmark(Version),
    /// The watch is over.
    Error(Status),
}

/// Decodes a page of a list. An answer that has neither a version nor the kind of a list is not one: it must not be taken for
/// an empty list.
pub(super) fn page<T: Object>(body: &[u8]) -> Result<Page<T>, WireError> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow, default)]
        kind: Cow<'a, str>,
        metadata: ListMeta,
        #[serde(borrow, deserialize_with = "Option::deserialize")]
        items: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    struct ListMeta {
        #[serde(rename = "resourceVersion", default)]
        version: Version,
        #[serde(rename = "continue", default)]
        token: Option<String>,
    }

    let text = String::from_utf8_lossy(body);
    let raw: Raw<'_> = serde_json::from_str(&text)?;
    if raw.metadata.version.is_none() && !raw.kind.ends_with("List") {
        return Err(WireError::of(
            "an answer without the version and the kind of a list",
        ));
    }
    Ok(Page {
        version: raw.metadata.version,
        continue_token: raw.metadata.token.filter(|token| !token.is_empty()),
        items: raw.items.unwrap_or_default().into_iter().map(item).collect(),
    })
}

/// The version of a list alone.
pub(super) fn list_version(body: &[u8]) -> Result<Version, WireError> {
    let version = version_of(&String::from_utf8_lossy(body))?;
    if version.is_none() {
        return Err(WireError::of("a list without a version"));
    }
    Ok(version)
}

/// Decodes a line of a watch.
pub(super) fn event<T: Object>(line: &[u8]) -> Result<Event<T>, WireError> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }

    let text = String::from_utf8_lossy(line);
    let raw: Raw<'_> = serde_json::from_str(&text)?;
    match &*raw.kind {
        "ADDED" | "MODIFIED" => Ok(Event::Put(item(raw.object))),
        "DELETED" => Ok(Event::Deleted(item(raw.object))),
        "BOOKMARK" => Ok(Event::Bookmark(version_of(raw.object.get())?)),
        // Of an error that is not a status nothing is known but that it is one.
        "ERROR" => Ok(Event::Error(
            serde_json::from_str(raw.object.get()).unwrap_or_default(),
        )),
        _ => Err(WireError::of("an event of an unknown type")),
    }
}

fn item<T: Object>(raw: &RawValue) -> Item<T> {
    match serde_json::from_str::<T>(raw.get()) {
        Ok(object) if object.meta().name.is_empty() || object.meta().uid.is_empty() => Item::Unreadable,
        Ok(object) => Item::Known(object),
        Err(_) => identity(raw).unwrap_or(Item::Unreadable),
    }
}

/// What can be read of an object that cannot be decoded, if it is enough to know which one it is.
fn identity<T>(raw: &RawValue) -> Option<Item<T>> {
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        metadata: Fields<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<'a> {
        #[serde(borrow)]
        namespace: Option<&'a RawValue>,
        #[serde(borrow)]
        name: &'a RawValue,
        #[serde(borrow)]
        uid: &'a RawValue,
        #[serde(borrow)]
        resource_version: Option<&'a RawValue>,
    }
    fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
        serde_json::from_str(raw.get()).ok()
    }

    let Whole { metadata } = serde_json::from_str(raw.get()).ok()?;
    let namespace = metadata.namespace.map_or(Some(Cow::Borrowed("")), text)?;
    let (name, uid) = (text(metadata.name)?, text(metadata.uid)?);
    let version = metadata.resource_version.and_then(text).unwrap_or_default();
    (!name.is_empty() && !uid.is_empty()).then(|| {
        Item::Unknown(Identity {
            key: Key::new(&*namespace, &*name),
            uid: Uid::from(&*uid),
            version: Version::from(&*version),
        })
    })
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
            // Not its own text, which can quote what it found.
            problem: match error.classify() {
                serde_json::error::Category::Data => "not what was expected",
                serde_json::error::Category::Eof => "an early end",
                _ => "not JSON",
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

    fn items(items: &str) -> Vec<Item<MetaObject>> {
        let body = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":[{items}]}}"#);
        page(body.as_bytes()).expect("a page").items
    }

    fn name(item: &Item<MetaObject>) -> String {
        match item {
            Item::Known(object) => object.metadata.name.to_string(),
            Item::Unknown(it) => format!("unknown {}", it.key),
            Item::Unreadable => "unreadable".to_owned(),
        }
    }

    #[test]
    fn one_bad_item_does_not_spoil_its_page() {
        let all = items(
            r#"{"metadata":{"name":"a","uid":"1"}},
               {"metadata":{"name":"b","namespace":"n","uid":"2","resourceVersion":"5","labels":7}},
               {"metadata":{"name":"c","uid":3}},
               {"metadata":{"name":"","uid":"4"}},
               {"metadata":{"name":"d"}},
               {}, 7, "x", null, [],
               {"metadata":{"name":"e","uid":"5"}}"#,
        );
        let names: Vec<_> = all.iter().map(name).collect();
        let mut expected = vec!["a", "unknown n/b"];
        expected.resize(10, "unreadable");
        expected.push("e");
        assert_eq!(names, expected);
        assert!(matches!(&all[1], Item::Unknown(it)
            if it.uid == Uid::from("2") && it.version == Version::from("5")));
    }

    #[test]
    fn what_is_not_a_list_is_not_an_empty_list() {
        for body in [
            "",
            "{}",
            "[]",
            r#"{"metadata":{},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":""},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":"1"}}"#,
            r#"{"kind":"Status","metadata":{}}"#,
            "<html>",
        ] {
            assert!(page::<MetaObject>(body.as_bytes()).is_err(), "{body}");
        }
        let unversioned = page::<MetaObject>(br#"{"kind":"WidgetList","metadata":{},"items":[]}"#);
        assert!(unversioned.expect("a list").version.is_none());
        let null =
            page::<MetaObject>(br#"{"metadata":{"resourceVersion":"1"},"items":null}"#).expect("a list");
        assert!(null.items.is_empty() && null.continue_token.is_none());
        let more = page::<MetaObject>(br#"{"metadata":{"resourceVersion":"1","continue":"x"},"items":[]}"#);
        assert_eq!(more.expect("a list").continue_token.as_deref(), Some("x"));
    }

    #[test]
    fn events_are_told_apart() {
        let of = |kind: &str, object: &str| {
            event::<MetaObject>(format!(r#"{{"type":"{kind}","object":{object}}}"#).as_bytes())
        };
        let object = r#"{"metadata":{"name":"a","uid":"1","resourceVersion":"3"}}"#;
        for kind in ["ADDED", "MODIFIED"] {
            assert!(matches!(of(kind, object), Ok(Event::Put(Item::Known(_)))));
        }
        assert!(matches!(
            of("DELETED", object),
            Ok(Event::Deleted(Item::Known(_)))
        ));
        assert!(matches!(of("ADDED", "1"), Ok(Event::Put(Item::Unreadable))));
        assert!(matches!(of("BOOKMARK", object), Ok(Event::Bookmark(v)) if v == Version::from("3")));
        assert!(matches!(of("ERROR", r#"{"code":410}"#), Ok(Event::Error(s)) if s.code == 410));
        assert!(matches!(of("ERROR", "7"), Ok(Event::Error(s)) if s == Status::default()));
        assert!(of("SURPRISE", object).is_err() && of("BOOKMARK", "{}").is_err());
    }

    #[test]
    fn errors_have_no_text_of_the_body() {
        let bad = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":"{SECRET}"}}"#);
        let error = page::<MetaObject>(bad.as_bytes()).expect_err("not a list");
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
        assert!(error.to_string().contains("line 1 column"), "{error}");
    }

    #[test]
    fn text_that_is_not_utf_8_is_read_with_replacements() {
        let mut body = br#"{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","uid":"1","labels":{"x":""#.to_vec();
        body.extend([0xff]);
        body.extend(br#""}}}]}"#);
        let page = page::<MetaObject>(&body).expect("a page");
        assert!(matches!(&page.items[0], Item::Known(o)
            if o.metadata.labels.get("x").is_some_and(|x| *x == "\u{fffd}")));
    }

    #[test]
    fn a_bomb_is_an_object_like_any_other() {
        // Deeper than any stack, where nobody looks.
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let nested = items(&format!(
            r#"{{"spec":{deep},"metadata":{{"name":"a","uid":"1"}}}}"#
        ));
        assert_eq!(name(&nested[0]), "a");
        // And where somebody does.
        let labels = items(&format!(
            r#"{{"metadata":{{"name":"a","uid":"1","labels":{deep}}}}}"#
        ));
        assert_eq!(name(&labels[0]), "unknown a");
        let owner = r#"{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}"#;
        let owners = vec![owner; 100_000].join(",");
        let bomb = items(&format!(
            r#"{{"metadata":{{"name":"a","uid":"1","ownerReferences":[{owners}]}}}}"#
        ));
        assert!(matches!(&bomb[0], Item::Known(it) if it.metadata.owner_references.len() == 100_000));
    }
}
