//! Conversion of custom resources between their versions: `ConversionReview` in `apiextensions.k8s.io/v1`.
//!
//! `typed` converts types through a hub version. A review is answered as a whole: if one object cannot be converted, the
//! `Status` of the review says which one and why. The API server rejects an object whose identity was changed, so the
//! metadata of each converted object is checked here, where the message can name the field.

#[cfg(test)]
mod tests;
mod typed;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::review::{self, ReviewRequest};
pub use typed::{Conversion, Convertible};

/// The path of the conversion webhook of all custom resources.
pub const CONVERSION_PATH: &str = "/convert";

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
    objects: Vec<Value>,
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
type Converter = Box<dyn Fn(Value, &str) -> Result<Value, ConversionError> + Send + Sync>;

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
        let mut converted = Vec::with_capacity(objects.len());
        let mut result = json!({"status": "Success"});
        for (index, object) in objects.into_iter().enumerate() {
            let described = describe(index, &object);
            match self.convert(object, &desired) {
                Ok(object) => converted.push(object),
                Err(ConversionError(error)) => {
                    let message = format!("cannot convert {described} to {desired:?}: {error}");
                    result =
                        json!({"status": "Failure", "reason": "BadRequest", "code": 400, "message": message});
                    converted.clear();
                    break;
                }
            }
            // A long list must not block other reviews of this thread.
            tokio::task::yield_now().await;
        }
        review::envelope::<ConversionRequest>(
            &json!({"uid": uid, "result": result, "convertedObjects": converted}),
        )
    }

    fn convert(&self, object: Value, desired: &str) -> Result<Value, ConversionError> {
        let (Some(version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
            return Err(ConversionError::new("it has no apiVersion or no kind"));
        };
        if version == desired {
            return Ok(object);
        }
        let group = group(version);
        if group != self::group(desired) {
            return Err(ConversionError::new("the desired version has another group"));
        }
        let Some(converter) = self.0.get(&(group.to_owned(), kind.to_owned())) else {
            return Err(ConversionError::new("the webhook does not convert this kind"));
        };
        let (kind, metadata) = (kind.to_owned(), object["metadata"].clone());
        let result = converter(object, desired)?;
        check(&kind, &metadata, &result, desired)?;
        Ok(result)
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the kind and the name of an object, for messages.
fn describe(index: usize, object: &Value) -> String {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    if kind.is_empty() {
        return format!("object {index} of the review");
    }
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} \"{namespace}{separator}{name}\"")
}

/// Fails if a converted object has another version or identity than the API server expects.
fn check(kind: &str, metadata: &Value, converted: &Value, desired: &str) -> Result<(), ConversionError> {
    for (field, expected) in [("apiVersion", desired), ("kind", kind)] {
        if converted[field] != expected {
            let message = format!("the conversion returned another {field} than {expected:?}");
            return Err(ConversionError(message));
        }
    }
    let none = Map::new();
    let (before, after) = (metadata.as_object(), converted["metadata"].as_object());
    let (before, after) = (before.unwrap_or(&none), after.unwrap_or(&none));
    let changed = before
        .keys()
        .chain(after.keys())
        .find(|&key| key != "labels" && key != "annotations" && before.get(key) != after.get(key));
    match changed {
        None => Ok(()),
        Some(field) => Err(ConversionError(format!(
            "the conversion changed metadata.{field}; it may change only labels and annotations"
        ))),
    }
}
