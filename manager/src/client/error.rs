//! What can go wrong with a request, as its sender must tell it apart.

use std::time::Duration;

use serde::Deserialize;

use crate::object::decode::null_is_default;

/// Why a request did not do what it should.
///
/// No message here has a body of an object or a credential in it: only what the server says of itself.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The API server refused, and said why in a `Status`.
    #[error("{what}: {}", .status.message)]
    Status {
        /// Method and path.
        what: String,
        /// What it said.
        status: Box<Status>,
        /// How long it asked to wait before another try.
        retry_after: Option<Duration>,
    },
    /// An answer that is no `Status`: from a proxy, or from a server that does not know the path.
    #[error("{what}: the server answered {code} without saying why")]
    Unexplained {
        /// Method and path.
        what: String,
        /// The HTTP code.
        code: u16,
        /// How long it asked to wait before another try.
        retry_after: Option<Duration>,
    },
    /// No answer within the deadline. A write may have been done.
    #[error("{what}: no answer within {} s", .deadline.as_secs_f64())]
    Timeout {
        /// Method and path.
        what: String,
        /// How long it was waited.
        deadline: Duration,
    },
    /// The connection failed.
    #[error("{what}: {reason}")]
    Connection {
        /// Method and path.
        what: String,
        /// Whether there was a connection at all: if so, a write may have been done.
        connected: bool,
        /// What the transport says.
        reason: String,
    },
    /// The answer could not be read. A write has been done.
    #[error("{what}: cannot read the answer: {reason}")]
    Decode {
        /// Method and path.
        what: String,
        /// Where it went wrong; never the text itself, it may be a secret.
        reason: String,
    },
    /// The answer is larger than anything that is read. A write has been done.
    #[error("{what}: the answer is larger than {limit} bytes")]
    TooLarge {
        /// Method and path.
        what: String,
        /// The limit.
        limit: usize,
    },
    /// The term in which it was made is over or draining. A write was not sent; a read was not sent or was given up.
    #[error("{what}: cancelled, this process is stopping or may no longer be the leader")]
    Fenced {
        /// Method and path.
        what: String,
    },
    /// A write of a client that has no term, a mistake in the program: nothing was sent.
    #[error(
        "{what}: not sent, this client has no leader term and only reads; use the client of the reconcile context"
    )]
    ReadOnly {
        /// Method and path.
        what: String,
    },
    /// The request could not be made: nothing was sent.
    #[error("{what}: cannot make the request: {reason}")]
    Invalid {
        /// Method and path.
        what: String,
        /// Why.
        reason: String,
    },
}

/// The part of a `Status` that decisions are made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// `Status`, or it is not one.
    pub kind: String,
    /// The HTTP code.
    pub code: u16,
    /// The reason in one word.
    pub reason: String,
    /// The reason in a sentence.
    pub message: String,
    /// What it is about.
    #[serde(deserialize_with = "null_is_default")]
    pub details: Details,
}

/// What a `Status` is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The name of the object.
    pub name: String,
    /// The uid of the object, in answers to a delete.
    pub uid: String,
    /// How long the server asks to wait.
    pub retry_after_seconds: u32,
    /// Causes, one by one.
    #[serde(deserialize_with = "null_is_default")]
    pub causes: Vec<Cause>,
}

/// One cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The cause in one word.
    pub reason: String,
    /// The cause in a sentence.
    pub message: String,
    /// The field.
    pub field: String,
}

impl ClientError {
    /// The HTTP code, if the server answered.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(status.code),
            Self::Unexplained { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The reason that the server gave.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Status { status, .. } => Some(&status.reason),
            _ => None,
        }
    }

    /// Whether the object `name` is not there. Only a `Status` that names it says so: a plain 404 comes from a server that
    /// does not know the resource (yet), and says nothing about its objects.
    #[must_use]
    pub fn is_not_found(&self, name: &str) -> bool {
        matches!(self, Self::Status { status, .. }
            if status.code == 404 && status.reason == "NotFound" && status.details.name == name)
    }

    /// Whether the object was changed by somebody else in between.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some("Conflict")
    }

    /// Whether the name is taken.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some("AlreadyExists")
    }

    /// Whether the version that was asked for is no longer kept.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// How long the server asked to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } | Self::Unexplained { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the API server ended the request with an internal error, such as an admission webhook that fails. Not its
    /// storage: that may still write.
    pub(super) fn is_internal(&self) -> bool {
        self.code() == Some(500) && self.reason() == Some("InternalError")
    }

    /// Whether a write may have been done all the same: its outcome has to be found out, not guessed.
    #[must_use]
    pub fn is_unknown_outcome(&self) -> bool {
        match self {
            Self::Fenced { .. } | Self::ReadOnly { .. } | Self::Invalid { .. } => false,
            Self::Connection { connected, .. } => *connected,
            // A server that gives up, or a proxy that lost it, does not say whether the write was done.
            Self::Status { .. } | Self::Unexplained { .. } => self.code().is_some_and(|code| code >= 500),
            Self::Timeout { .. } | Self::Decode { .. } | Self::TooLarge { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(json: &str) -> ClientError {
        ClientError::Status {
            what: "GET /x".to_owned(),
            status: Box::new(serde_json::from_str(json).expect("a status")),
            retry_after: None,
        }
    }

    #[test]
    fn only_a_status_that_names_the_object_says_that_it_is_not_there() {
        let named = status(r#"{"kind":"Status","code":404,"reason":"NotFound","details":{"name":"a"}}"#);
        assert!(named.is_not_found("a"));
        assert!(!named.is_not_found("b"));
        let unnamed = status(r#"{"kind":"Status","code":404,"reason":"NotFound","details":null}"#);
        assert!(!unnamed.is_not_found("a") && !unnamed.is_not_found("b"));
        let plain = ClientError::Unexplained {
            what: String::new(),
            code: 404,
            retry_after: None,
        };
        assert!(!plain.is_not_found(""));
    }

    #[test]
    fn an_outcome_is_known_only_if_the_server_refused() {
        assert!(!status(r#"{"code":409,"reason":"Conflict"}"#).is_unknown_outcome());
        assert!(status(r#"{"code":504,"reason":"Timeout"}"#).is_unknown_outcome());
    }
}
