//! An answer, and assertions that show it when they fail.

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::api::header_text;

/// Number of characters of a body that a failure shows.
const SHOWN: usize = 4000;

/// A whole HTTP answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Method and path of the request, for messages.
    pub request: String,
    /// The HTTP status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// One entry of `details.causes` of a `Status`. Missing fields are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Such as `FieldValueInvalid`.
    pub reason: String,
    /// The explanation.
    pub message: String,
    /// Such as `spec.replicas`.
    pub field: String,
}

impl Reply {
    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("the body is not JSON: {error}\n{self}"),
        }
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        header_text(&self.headers, name)
    }

    /// The `reason` of a `Status`, or nothing.
    pub fn reason(&self) -> String {
        self.status_text("reason")
    }

    /// The `message` of a `Status`, or nothing.
    pub fn message(&self) -> String {
        self.status_text("message")
    }

    /// The causes of a `Status`, in the server's order.
    pub fn causes(&self) -> Vec<Cause> {
        let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let cause = |c: &Value| Cause {
            reason: text(c, "reason"),
            message: text(c, "message"),
            field: text(c, "field"),
        };
        causes.iter().map(cause).collect()
    }

    /// Asserts the HTTP status and returns the body as JSON.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        self.check(self.status == status, &format!("expected status {status}"));
        self.json()
    }

    /// Asserts a failure: a `Status` object of this code, which the HTTP status repeats, and this reason (may be empty).
    #[track_caller]
    pub fn expect_error(&self, code: u16, reason: &str) -> &Self {
        let what = format!("expected a Status of code {code} and reason {reason:?}");
        self.check(self.status == code, &what);
        let body = self.json();
        self.check(
            body["kind"] == "Status" && body["apiVersion"] == "v1" && body["status"] == "Failure",
            &what,
        );
        self.check(body["code"] == code && self.reason() == reason, &what);
        self
    }

    /// Asserts anything about the reply.
    #[track_caller]
    pub fn check(&self, holds: bool, what: &str) {
        assert!(holds, "{what}\n{self}");
    }

    fn status_text(&self, field: &str) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body[field].as_str().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "> {}\n< {}", self.request, self.status)?;
        for (name, value) in &self.headers {
            writeln!(f, "< {name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
        }
        let text = match serde_json::from_slice::<Value>(&self.body) {
            Ok(json) => format!("{json:#}"),
            Err(_) => self.text(),
        };
        let shown: String = text.chars().take(SHOWN).collect();
        let cut = if shown.len() < text.len() { "\n..." } else { "" };
        write!(f, "{shown}{cut}")
    }
}
