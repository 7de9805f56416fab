//! A `Status` that the fault layer answers in place of the service.

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};

/// An answer with a `Status`. The request is not executed.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Refusal {
    code: u16,
    reason: String,
    message: String,
    details: Option<Value>,
    retry_after: Option<u32>,
}

impl Refusal {
    /// A `Status` with this code and the reason that the API server uses with it.
    pub fn new(code: u16) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            406 => "NotAcceptable",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        Self {
            code,
            reason: reason.to_owned(),
            message: "injected by a fault".to_owned(),
            details: None,
            retry_after: None,
        }
    }

    /// Sets the reason, such as `AlreadyExists`.
    pub fn reason(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.reason);
        self
    }

    /// Sets the message. Default: "injected by a fault".
    pub fn message(mut self, message: &str) -> Self {
        message.clone_into(&mut self.message);
        self
    }

    /// Sets the details, such as the causes.
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Sets the header `Retry-After` and `details.retryAfterSeconds`.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(super) fn response(&self) -> Response<Bytes> {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        if let Some(seconds) = self.retry_after {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        let mut response = json_response(self.code, Bytes::from(status.to_string()));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

pub(super) fn json_response(code: u16, bytes: Bytes) -> Response<Bytes> {
    let mut response = Response::new(bytes);
    *response.status_mut() = code.try_into().unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
