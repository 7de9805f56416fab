//! Errors of API requests.

use std::time::Duration;

use serde::Deserialize;

use super::TokenError;
use crate::object::decode::null_is_default;

/// The error of an API request. `request_line` is its method and path. No message contains the body of an object or a
/// credential.
#[expect(missing_docs, reason = "plain data")]
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The API server returned an error with a `Status`.
    #[error("{request_line}: {}", .status.message)]
    Status {
        request_line: String,
        status: Box<Status>,
        /// The delay that the server requested before a retry.
        retry_after: Option<Duration>,
    },
    /// An error response without a `Status`: from a proxy, or from a server that does not serve the path.
    #[error("{request_line}: the server returned {code} without a Status")]
    Unexplained {
        request_line: String,
        code: u16,
        /// The delay that the server requested before a retry.
        retry_after: Option<Duration>,
    },
    /// There was no response within the deadline. The outcome of a write is unknown.
    #[error("{request_line}: no response within {} s", .deadline.as_secs_f64())]
    Timeout {
        request_line: String,
        deadline: Duration,
    },
    /// The connection failed.
    #[error("{request_line}: {reason}")]
    Connection {
        request_line: String,
        /// Whether the request may have been sent: if so, the outcome of a write is unknown.
        connected: bool,
        reason: String,
    },
    /// The response could not be decoded. A write has been executed.
    #[error("{request_line}: cannot decode the response: {reason}")]
    Decode {
        request_line: String,
        /// The kind and position of the error. It never quotes the body, which may be a Secret.
        reason: String,
    },
    /// The response exceeds the size limit. A write has been executed.
    #[error("{request_line}: the response is larger than {limit} bytes")]
    TooLarge {
        request_line: String,
        /// In bytes.
        limit: usize,
    },
    /// The term of the request is over or draining. A write was not sent; a read was not sent or was cancelled.
    #[error("{request_line}: cancelled, this process is stopping or may no longer be the leader")]
    Fenced { request_line: String },
    /// The service account of the client has no valid token. The request was not sent.
    #[error("{request_line}: not sent, {source}")]
    Unauthenticated {
        request_line: String,
        source: TokenError,
        /// The time before the next attempt to obtain a token.
        retry_after: Duration,
    },
    /// The request is malformed. It was not sent.
    #[error("{request_line}: invalid request: {reason}")]
    Invalid { request_line: String, reason: String },
}

/// The class of a [`ClientError`], by which callers decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The object does not exist: the API server named it.
    NotFound,
    /// The resource, or the namespace of a new object, does not exist.
    NotServed,
    /// The object was changed concurrently, or another field manager owns a field.
    Conflict,
    /// An object of that name exists.
    AlreadyExists,
    /// The credentials are missing, invalid or not sufficient.
    Forbidden,
    /// The API server requests that the same request is sent again later: 408, 429, or a server error with Retry-After. See
    /// [`ClientError::is_throttled`].
    Throttled,
    /// The API server rejects the object or the request. A retry of the same request fails, too.
    Invalid,
    /// The resourceVersion or continue token has expired.
    Gone,
    /// There was no response, or the server failed. The outcome of a write [may be unknown](ClientError::is_unknown_outcome).
    Unavailable,
    /// The term is over or draining.
    Fenced,
    /// The response is not usable. A write has been executed.
    Response,
}

/// The fields of a `Status` that callers evaluate.
#[expect(missing_docs, reason = "as in the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// `Status`, unless the body is another object.
    pub kind: String,
    pub code: u16,
    pub reason: String,
    pub message: String,
    #[serde(deserialize_with = "null_is_default")]
    pub details: Details,
}

/// The details of a `Status`.
#[expect(missing_docs, reason = "as in the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    pub name: String,
    /// The uid of the object, in the response to a delete.
    pub uid: String,
    pub retry_after_seconds: u32,
    #[serde(deserialize_with = "null_is_default")]
    pub causes: Vec<Cause>,
}

/// A cause in the details of a `Status`.
#[expect(missing_docs, reason = "as in the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl ClientError {
    /// Returns the HTTP status code, if there was a response.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(status.code),
            Self::Unexplained { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns the reason of the `Status`, if there was one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Status { status, .. } => Some(&status.reason),
            _ => None,
        }
    }

    /// Returns the class of the error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        if self.code() >= Some(500) && self.retry_after().is_some() {
            return ErrorClass::Throttled;
        }
        match self {
            Self::Status { status, .. } => match (status.code, status.reason.as_str()) {
                (404, "NotFound") if !status.details.name.is_empty() => ErrorClass::NotFound,
                (409, "AlreadyExists") => ErrorClass::AlreadyExists,
                (code, _) => class_of(code),
            },
            Self::Unexplained { code, .. } => class_of(*code),
            Self::Timeout { .. } | Self::Connection { .. } => ErrorClass::Unavailable,
            Self::Decode { .. } | Self::TooLarge { .. } => ErrorClass::Response,
            Self::Fenced { .. } => ErrorClass::Fenced,
            Self::Unauthenticated { .. } => ErrorClass::Forbidden,
            Self::Invalid { .. } => ErrorClass::Invalid,
        }
    }

    /// Returns true if the object `name` does not exist, which only a `Status` that names it proves. A 404 without a name
    /// comes from a server that does not serve the resource (yet).
    #[must_use]
    pub fn is_not_found(&self, name: &str) -> bool {
        matches!(self, Self::Status { status, .. }
            if status.code == 404 && status.reason == "NotFound" && status.details.name == name)
    }

    /// Returns true if the write failed because of a concurrent change.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some("Conflict")
    }

    /// Returns true if an object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some("AlreadyExists")
    }

    /// Returns true if the resourceVersion or continue token has expired (410 Gone).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Returns true if the request is to be sent again later, as client-go does by itself: no event and no condition reports it,
    /// and the object is not reconciled before [`retry_after`](Self::retry_after). A server error still leaves the outcome of
    /// a write [unknown](Self::is_unknown_outcome).
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.class() == ErrorClass::Throttled
    }

    /// Returns the delay before a retry that the server requested, or until the next attempt to obtain a token.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } | Self::Unexplained { retry_after, .. } => *retry_after,
            Self::Unauthenticated { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// Returns true for an internal error before the storage, such as a failed call of an admission webhook. An error of
    /// the storage leaves the outcome of a write unknown.
    pub(super) fn is_internal(&self) -> bool {
        self.code() == Some(500) && self.reason() == Some("InternalError")
    }

    /// Returns true if a failed write may have been executed. The caller has to read the object to resolve the outcome.
    #[must_use]
    pub fn is_unknown_outcome(&self) -> bool {
        match self {
            Self::Fenced { .. } | Self::Unauthenticated { .. } | Self::Invalid { .. } => false,
            Self::Connection { connected, .. } => *connected,
            // A server or proxy that fails does not report whether the write was executed.
            Self::Status { .. } | Self::Unexplained { .. } => self.code().is_some_and(|code| code >= 500),
            Self::Timeout { .. } | Self::Decode { .. } | Self::TooLarge { .. } => true,
        }
    }
}

fn class_of(code: u16) -> ErrorClass {
    match code {
        401 | 403 => ErrorClass::Forbidden,
        404 => ErrorClass::NotServed,
        409 => ErrorClass::Conflict,
        410 => ErrorClass::Gone,
        408 | 429 => ErrorClass::Throttled,
        // A redirect or an informational response is not from the API.
        100..=399 | 500.. => ErrorClass::Unavailable,
        _ => ErrorClass::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(json: &str) -> ClientError {
        ClientError::Status {
            request_line: "GET /x".to_owned(),
            status: Box::new(serde_json::from_str(json).expect("a status")),
            retry_after: None,
        }
    }

    #[test]
    fn not_found_requires_a_status_that_names_the_object() {
        let named = status(r#"{"kind":"Status","code":404,"reason":"NotFound","details":{"name":"a"}}"#);
        assert!(named.is_not_found("a"));
        assert!(!named.is_not_found("b"));
        let unnamed = status(r#"{"kind":"Status","code":404,"reason":"NotFound","details":null}"#);
        assert!(!unnamed.is_not_found("a") && !unnamed.is_not_found("b"));
        let plain = ClientError::Unexplained {
            request_line: String::new(),
            code: 404,
            retry_after: None,
        };
        assert!(!plain.is_not_found(""));
    }

    #[test]
    fn server_error_leaves_the_outcome_unknown() {
        assert!(!status(r#"{"code":409,"reason":"Conflict"}"#).is_unknown_outcome());
        assert!(status(r#"{"code":504,"reason":"Timeout"}"#).is_unknown_outcome());
    }

    #[test]
    fn errors_are_classified() {
        use ErrorClass as Class;

        for (json, class) in [
            (
                r#"{"code":404,"reason":"NotFound","details":{"name":"a"}}"#,
                Class::NotFound,
            ),
            (r#"{"code":404,"reason":"NotFound"}"#, Class::NotServed),
            (r#"{"code":409,"reason":"Conflict"}"#, Class::Conflict),
            (r#"{"code":409,"reason":"AlreadyExists"}"#, Class::AlreadyExists),
            (r#"{"code":410,"reason":"Expired"}"#, Class::Gone),
            (r#"{"code":422,"reason":"Invalid"}"#, Class::Invalid),
            (r#"{"code":400,"reason":"BadRequest"}"#, Class::Invalid),
            (r#"{"code":403,"reason":"Forbidden"}"#, Class::Forbidden),
            (r#"{"code":401,"reason":"Unauthorized"}"#, Class::Forbidden),
            (r#"{"code":429,"reason":"TooManyRequests"}"#, Class::Throttled),
            (r#"{"code":500,"reason":"InternalError"}"#, Class::Unavailable),
            (
                r#"{"code":503,"reason":"ServiceUnavailable"}"#,
                Class::Unavailable,
            ),
            (r#"{"code":408}"#, Class::Throttled),
        ] {
            assert_eq!(status(json).class(), class, "{json}");
        }
        for (code, class) in [
            (500, Class::Throttled),
            (503, Class::Throttled),
            (409, Class::Conflict),
        ] {
            let postponed = ClientError::Unexplained {
                request_line: String::new(),
                code,
                retry_after: Some(Duration::from_secs(1)),
            };
            assert_eq!(postponed.class(), class, "{code} with Retry-After");
            assert_eq!(postponed.is_unknown_outcome(), code >= 500, "{code}");
        }
        let timeout = ClientError::Timeout {
            request_line: String::new(),
            deadline: Duration::ZERO,
        };
        assert_eq!(timeout.class(), Class::Unavailable);
    }
}
