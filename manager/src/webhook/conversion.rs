//! Conversion of custom resources between their versions: `ConversionReview` in `apiextensions.k8s.io/v1`.
//!
//! `typed` converts types through a hub version. A review is answered as a whole: if one object cannot be converted, the
//! `Status` of the review says which one and why. The API server rejects an object whose identity was changed, so the
//! metadata of each converted object is checked here, where the message can name the field.

#[cfg(test)]
mod tests;
mod typed;

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::review::ReviewRequest;
use super::typed::for_each_field;
use crate::object::decode::null_is_default;
pub use typed::{Conversion, Convertible};

/// The path of the conversion webhook of all custom resources.
pub const CONVERSION_PATH: &str = "/convert";

/// `ObjectMeta` has fifteen.
const METADATA_FIELDS_MAX: usize = 100;

/// The reason why an object cannot be converted. The client of the API server gets it, so it must not quote the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConversionError(String);

impl ConversionError {
    #[expect(missing_docs, reason = "plain constructor")]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ConversionRequest {
    #[serde(default)]
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    /// The text of a list.
    #[serde(deserialize_with = "list")]
    objects: Box<RawValue>,
}

impl ReviewRequest for ConversionRequest {
    const API_VERSION: &'static str = "apiextensions.k8s.io/v1";
    const KIND: &'static str = "ConversionReview";
    const VERSIONS: &'static str = "conversionReviewVersions of the CustomResourceDefinition";

    fn uid(&self) -> &str {
        &self.uid
    }
}

/// Converts an object to the desired `apiVersion`.
type Converter = Box<dyn Fn(&RawValue, &str) -> Result<Box<RawValue>, ConversionError> + Send + Sync>;

/// The converters of a server by group and kind.
#[derive(Default)]
pub(super) struct Converters(BTreeMap<(String, String), Converter>);

impl Converters {
    pub(super) fn add(&mut self, group: &str, kind: &str, converter: Converter) {
        self.0.insert((group.to_owned(), kind.to_owned()), converter);
    }

    /// Converts all objects, in order, and returns the review with the response.
    pub(super) async fn review(&self, request: ConversionRequest) -> Bytes {
        let ConversionRequest {
            uid,
            desired,
            objects,
        } = request;
        let (api_version, kind) = (ConversionRequest::API_VERSION, ConversionRequest::KIND);
        // Written as text: a tree of many small objects would be many times as large as the review.
        let start = format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","response":{{"uid":{},"convertedObjects":["#,
            json!(uid)
        );
        let mut review = String::with_capacity(start.len() + objects.get().len());
        review.push_str(&start);
        let mut result = json!({"status": "Success"});
        let mut rest = &objects.get()[1..];
        for index in 0.. {
            let Some(object) = next_element(&mut rest) else {
                break;
            };
            match self.convert(object, &desired) {
                Ok(object) => {
                    if index > 0 {
                        review.push(',');
                    }
                    review.push_str(object.get());
                }
                Err(ConversionError(error)) => {
                    let described = describe(index, object);
                    let message = format!("cannot convert {described} to {desired:?}: {error}");
                    result =
                        json!({"status": "Failure", "reason": "BadRequest", "code": 400, "message": message});
                    review.truncate(start.len());
                    break;
                }
            }
            // A long list must not block other reviews of this thread.
            tokio::task::yield_now().await;
        }
        review.extend(["],\"result\":", &result.to_string(), "}}"]);
        review.into()
    }

    fn convert<'a>(&self, object: &'a RawValue, desired: &str) -> Result<Cow<'a, RawValue>, ConversionError> {
        let head = Head::of(object);
        if head.api_version.is_empty() || head.kind.is_empty() {
            return Err(ConversionError::new("it has no apiVersion or no kind"));
        }
        if head.api_version == desired {
            return Ok(Cow::Borrowed(object));
        }
        let group = group(&head.api_version);
        if group != self::group(desired) {
            return Err(ConversionError::new("the desired version has another group"));
        }
        let Some(converter) = self.0.get(&(group.to_owned(), head.kind.clone())) else {
            return Err(ConversionError::new("the webhook does not convert this kind"));
        };
        let result = converter(object, desired)?;
        check(object, &result, desired)?;
        Ok(Cow::Owned(result))
    }
}

fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    let list = Box::<RawValue>::deserialize(deserializer)?;
    if list.get().starts_with('[') {
        Ok(list)
    } else {
        Err(D::Error::custom("not a list"))
    }
}

/// Removes the first element of the rest of a list, and returns it.
fn next_element<'a>(rest: &mut &'a str) -> Option<&'a RawValue> {
    let text = rest.trim_start_matches([' ', '\t', '\n', '\r', ',']);
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    // Fails at the end of the list: its text is valid.
    let value = values.next()?.ok()?;
    *rest = &text[values.byte_offset()..];
    Some(value)
}

/// The identity of an object; empty if it has none.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    api_version: String,
    kind: String,
    #[serde(deserialize_with = "null_is_default")]
    metadata: HeadMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadMetadata {
    namespace: String,
    name: String,
}

impl Head {
    fn of(object: &RawValue) -> Self {
        serde_json::from_str(object.get()).unwrap_or_default()
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the kind and the name of an object, for messages.
fn describe(index: usize, object: &RawValue) -> String {
    let Head { kind, metadata, .. } = Head::of(object);
    let HeadMetadata { namespace, name } = metadata;
    if kind.is_empty() {
        return format!("object {index} of the review");
    }
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} \"{namespace}{separator}{name}\"")
}

/// Fails if a converted object has another version or identity than the API server expects.
fn check(object: &RawValue, converted: &RawValue, desired: &str) -> Result<(), ConversionError> {
    let (before, after) = (Head::of(object), Head::of(converted));
    for (field, expected, found) in [
        ("apiVersion", desired, &after.api_version),
        ("kind", &before.kind, &after.kind),
    ] {
        if found != expected {
            let message = format!("the conversion returned another {field} than {expected:?}");
            return Err(ConversionError(message));
        }
    }
    let (before, after) = (metadata_fields(object)?, metadata_fields(converted)?);
    let changed = before.keys().chain(after.keys()).find(|&key| {
        key != "labels" && key != "annotations" && !is_same(before.get(key).copied(), after.get(key).copied())
    });
    match changed {
        None => Ok(()),
        Some(field) => Err(ConversionError(format!(
            "the conversion changed metadata.{field}; it may change only labels and annotations"
        ))),
    }
}

/// Returns the text of each field of the metadata.
fn metadata_fields(object: &RawValue) -> Result<BTreeMap<String, &str>, ConversionError> {
    let (mut fields, mut count) = (BTreeMap::new(), 0);
    if let Some(metadata) = field(object, "metadata") {
        for_each_field(metadata, |key, value| {
            count += 1;
            if count <= METADATA_FIELDS_MAX {
                fields.insert(key, value);
            }
        });
    }
    if count > METADATA_FIELDS_MAX {
        return Err(ConversionError::new("its metadata has too many fields"));
    }
    Ok(fields)
}

/// Returns the text of a field of an object.
fn field<'a>(object: &'a RawValue, name: &str) -> Option<&'a str> {
    let mut found = None;
    for_each_field(object.get(), |key, value| {
        if key == name {
            found = Some(value);
        }
    });
    found
}

/// Reports whether two texts are of one value.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let value = |text: Option<&str>| text.and_then(|it| serde_json::from_str::<Value>(it).ok());
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}
