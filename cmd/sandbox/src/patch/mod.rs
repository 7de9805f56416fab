//! The patch formats of the API: what a PATCH body makes of an object.
//!
//! Pure: the current object and the bytes go in, the patched object comes out, and the current one is not touched. What
//! comes out is not checked against a schema; the caller conforms, defaults and validates it like any other body.
//! Patching never nests a value deeper than the parser would have let in, so that later walks may recurse.

mod json;
mod lists;
mod merge;
mod merge_keys;
mod strategic;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::field::json_type;
use crate::schema::{self, TypeRef};

/// The most operations a JSON patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// A patch format, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`, RFC 6902.
    Json,
    /// `application/merge-patch+json`, RFC 7386.
    Merge,
    /// `application/strategic-merge-patch+json`, for built-in kinds only.
    Strategic,
    /// `application/apply-patch+yaml`, server-side apply: it needs to know who has which field, see [`crate::fieldmanager`].
    Apply,
}

/// Why a patch failed. The variant says which answer it is, the text stands in that answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PatchError {
    /// 400 `BadRequest`: the body is no patch of its type.
    #[error("{0}")]
    NotDecodable(String),
    /// 422 `Invalid`: the patch does not fit this object. The server gives the first half only and keeps the reason to
    /// itself; clients match on code and reason.
    #[error("the server rejected our request due to an error in our request: {0}")]
    NotApplicable(String),
    /// 413 `RequestEntityTooLarge`: more than [`MAX_OPERATIONS`].
    #[error(
        "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}"
    )]
    TooManyOperations(usize),
    /// 415 `UnsupportedMediaType`: no patch format, or none for this kind; names those that are.
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    UnsupportedMediaType(&'static str),
    /// 500 with no reason. It is the client's fault; the real server answers so all the same.
    #[error("{0}")]
    Internal(String),
}

/// What built-in kinds take.
const BUILTIN: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";
/// What custom resources take.
pub const CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

// === impl PatchType ===

impl PatchType {
    /// Reads a `Content-Type`. Parameters are ignored; case and spaces are not.
    pub fn from_content_type(content_type: &str) -> Result<Self, PatchError> {
        match content_type.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(PatchError::UnsupportedMediaType(BUILTIN)),
        }
    }
}

/// Applies a patch to an object. `schema` is that of the object's kind, and `None` for custom resources.
pub fn apply(
    kind: PatchType,
    current: &Value,
    patch: &[u8],
    schema: Option<TypeRef>,
) -> Result<Value, PatchError> {
    match (kind, schema) {
        (PatchType::Json, _) => json::apply(current, patch),
        (PatchType::Merge, _) => merge::apply(current, patch),
        (PatchType::Strategic, Some(schema)) => strategic::apply(current, patch, schema),
        (PatchType::Apply, Some(_)) => Err(PatchError::UnsupportedMediaType(BUILTIN)),
        (PatchType::Strategic | PatchType::Apply, None) => Err(PatchError::UnsupportedMediaType(CUSTOM)),
    }
}

/// What strict decoding has against the patch itself, one sentence each: keys that stand twice, and unknown members of
/// JSON patch operations. Unknown fields of the result are found by [`schema::conform`]. Empty if the patch is no JSON.
#[must_use]
pub fn strict_errors(kind: PatchType, patch: &[u8]) -> Vec<String> {
    let Ok(parsed) = schema::parse(patch) else {
        return Vec::new();
    };
    let duplicates = parsed.duplicates.iter();
    match kind {
        PatchType::Json => duplicates
            .map(|path| format!("json patch duplicate field {path:?}"))
            .chain(
                json::unknown_members(&parsed.value)
                    .into_iter()
                    .map(|path| format!("json patch unknown field {path:?}")),
            )
            .collect(),
        _ => duplicates
            .map(|path| format!("duplicate field {path:?}"))
            .collect(),
    }
}

/// Reads a patch that must be an object. `null` is for the caller to judge: the formats differ.
fn read_object(patch: &[u8], before: &str) -> Result<Option<Map<String, Value>>, PatchError> {
    let fail = |error: &str| PatchError::NotDecodable(format!("{before}{error}"));
    match schema::parse(patch)
        .map_err(|error| fail(&error.to_string()))?
        .value
    {
        Value::Object(map) => Ok(Some(map)),
        Value::Null => Ok(None),
        other => Err(fail(&format!("expected object, found {}", json_type(&other)))),
    }
}
