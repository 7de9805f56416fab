//! Denials of requests.

use serde_json::{Value, json};

use crate::client::Cause;

/// The response to a request that is denied, shown to the client of the API server after the name of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// HTTP status code, 400 or higher.
    pub code: u16,
    /// Reason of the `Status`, such as `Invalid` or `Forbidden`.
    pub reason: &'static str,
    /// Message of the `Status`.
    pub message: String,
    /// Errors by field.
    pub causes: Vec<Cause>,
    /// Warnings for the client, shown in addition to the message.
    pub warnings: Vec<String>,
}

impl Denial {
    /// Denies an invalid object with 422 and the API server's wording.
    #[must_use]
    pub fn invalid(kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let texts = causes.iter().map(|Cause { field, message, .. }| {
            if field.is_empty() {
                message.clone()
            } else {
                format!("{field}: {message}")
            }
        });
        let texts: Vec<_> = texts.collect();
        let texts = match texts.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Self {
            causes,
            ..Self::new(422, "Invalid", format!("{kind} {name:?} is invalid: {texts}"))
        }
    }

    /// Denies the request with 403.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message.into())
    }

    /// Denies a request that the handler cannot evaluate with 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into())
    }

    fn new(code: u16, reason: &'static str, message: String) -> Self {
        Self {
            code,
            reason,
            message,
            causes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the `Status` object.
    pub(super) fn status(&self) -> Value {
        let Self {
            code,
            reason,
            message,
            causes,
            warnings: _,
        } = self;
        let mut status = json!({"status": "Failure", "code": code, "reason": reason, "message": message});
        if !causes.is_empty() {
            let causes = causes.iter().map(
                |Cause {
                     reason,
                     message,
                     field,
                 }| json!({"reason": reason, "message": message, "field": field}),
            );
            status["details"] = json!({"causes": causes.collect::<Vec<_>>()});
        }
        status
    }
}
