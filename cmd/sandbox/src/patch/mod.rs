//! The patch formats of the API: JSON patch, JSON merge patch and strategic merge patch.
//!
//! [`Patch::apply`] is a pure function from the current object and the request body to the patched object. It does not validate
//! the result: the caller conforms, defaults and validates it like the body of any other write. The result never nests
//! deeper than the limit of the parser, so later functions may recurse.

mod json;
mod lists;
mod merge;
mod merge_keys;
mod strategic;

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::field::json_type;
use crate::json::{Map, Value};
use crate::schema::{self, ParseError, Parsed, TypeRef};

/// The maximum number of operations in a JSON patch.
pub const MAX_OPERATIONS: usize = 10_000;

/// A patch format, identified by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`, RFC 6902.
    Json,
    /// `application/merge-patch+json`, RFC 7386.
    Merge,
    /// `application/strategic-merge-patch+json`, for built-in kinds only.
    Strategic,
    /// `application/apply-patch+yaml`, server-side apply. [`crate::fieldmanager`] implements it.
    Apply,
}

/// The reason why a patch failed. The variant determines the status code, and the text is part of the message.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PatchError {
    /// 400 `BadRequest`: the body is not a valid patch of its type.
    #[error("{0}")]
    NotDecodable(String),
    /// 422 `Invalid`: the patch cannot be applied to this object. The API server sends only the part before the colon;
    /// clients match on code and reason.
    #[error("the server rejected our request due to an error in our request: {0}")]
    NotApplicable(String),
    /// 413 `RequestEntityTooLarge`: the patch has more than [`MAX_OPERATIONS`] operations.
    #[error(
        "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}"
    )]
    TooManyOperations(usize),
    /// 415 `UnsupportedMediaType`: not a patch format, or not one that this kind supports. Lists the supported formats.
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    UnsupportedMediaType(&'static str),
    /// 500 without a reason. The client caused the error, but the API server answers with 500.
    #[error("{0}")]
    Internal(String),
}

/// The patch formats of built-in kinds.
const BUILTIN: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";
/// The patch formats of custom resources.
pub const CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

// === impl PatchType ===

impl PatchType {
    /// Parses a `Content-Type` header. Ignores parameters; case and spaces are significant.
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

/// The body of a patch. It may be applied more than once.
pub struct Patch {
    kind: PatchType,
    parsed: Result<Parsed, ParseError>,
}

// === impl Patch ===

impl Patch {
    /// Parses a body. [`apply`](Self::apply) reports its errors.
    #[must_use]
    pub fn new(kind: PatchType, body: &[u8]) -> Self {
        Self {
            kind,
            parsed: schema::parse(body),
        }
    }

    /// Applies the patch to an object. `schema` is the schema of its kind, or `None` for custom resources.
    pub fn apply(&self, current: &Value, schema: Option<TypeRef>) -> Result<Value, PatchError> {
        let patch = || self.parsed.as_ref().map(|parsed| parsed.value.clone());
        match (self.kind, schema) {
            (PatchType::Json, _) => json::apply(current, patch()),
            (PatchType::Merge, _) => merge::apply(current, patch()),
            (PatchType::Strategic, Some(schema)) => strategic::apply(current, patch(), schema),
            (PatchType::Apply, Some(_)) => Err(PatchError::UnsupportedMediaType(BUILTIN)),
            (PatchType::Strategic | PatchType::Apply, None) => Err(PatchError::UnsupportedMediaType(CUSTOM)),
        }
    }

    /// Returns the strict decoding errors of the patch itself: duplicate keys, and unknown members of JSON patch operations.
    /// [`schema::conform`] finds unknown fields of the result. Returns no errors if the patch is not valid JSON.
    #[must_use]
    pub fn strict_errors(&self) -> Vec<String> {
        let Ok(parsed) = &self.parsed else {
            return Vec::new();
        };
        let duplicates = parsed.duplicates.iter();
        match self.kind {
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
}

/// Returns a parsed patch that must be an object. Returns `None` for `null`, which the formats treat differently.
fn read_object(patch: Result<Value, &ParseError>, before: &str) -> Result<Option<Map>, PatchError> {
    let fail = |error: &str| PatchError::NotDecodable(format!("{before}{error}"));
    match patch.map_err(|error| fail(&error.to_string()))? {
        Value::Object(map) => Ok(Some(map)),
        Value::Null => Ok(None),
        other => Err(fail(&format!("expected object, found {}", json_type(&other)))),
    }
}
