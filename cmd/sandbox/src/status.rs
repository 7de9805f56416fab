//! API errors: the `Status` object with code, reason, details and causes (`apimachinery/pkg/api/errors`).
//!
//! Every failed request returns one [`ApiError`], which becomes the response.

use std::borrow::Cow;

use crate::field::FieldError;
use crate::json::{Value, json};
use crate::resource::Resource;

/// The error of a failed request.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: Cow<'static, str>,
    /// Human-readable message.
    pub message: String,
    /// The `details` of the `Status`.
    pub details: Option<Box<Value>>,
    /// Seconds before a client may retry, sent as `Retry-After`; `None` sends no such header.
    pub retry_after: Option<u32>,
    /// A valid continue token for the rest of an expired list.
    pub continue_token: Option<Box<str>>,
    /// `Warning` headers; a failed request returns them too.
    pub warnings: Box<[String]>,
}

/// The result of a request handler.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
            retry_after: None,
            continue_token: None,
            warnings: Box::default(),
        }
    }

    /// Adds `Warning` headers.
    #[must_use]
    pub fn warn(mut self, warnings: Vec<String>) -> Self {
        let mut all = self.warnings.into_vec();
        all.extend(warnings);
        self.warnings = all.into_boxed_slice();
        self
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.details = Some(Box::new(json!({})));
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self = self.with_detail(key, value);
            }
        }
        self
    }

    fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        let details = self.details.get_or_insert_with(|| Box::new(json!({})));
        crate::registry::json::set(details, key, value);
        self
    }

    fn with_causes(self, causes: Vec<Value>) -> Self {
        self.with_detail("causes", causes)
    }

    fn retrying(self, seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self.with_detail("retryAfterSeconds", seconds)
        }
    }

    /// Returns 404 `NotFound`: the object does not exist.
    #[must_use]
    pub fn not_found(res: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", res.qualified())).about(
            &res.group,
            &res.plural,
            name,
        )
    }

    /// Returns 404 `NotFound`: the namespace of the request does not exist.
    #[must_use]
    pub fn namespace_not_found(name: &str) -> Self {
        Self::new(404, "NotFound", format!("namespaces {name:?} not found")).about("", "namespaces", name)
    }

    /// Returns 409 `AlreadyExists`: an object with this name exists.
    #[must_use]
    pub fn already_exists(res: &Resource, name: &str, being_deleted: bool) -> Self {
        let prefix = if being_deleted {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!("{prefix}{} {name:?} already exists", res.qualified());
        Self::new(409, "AlreadyExists", message).about(&res.group, &res.plural, name)
    }

    /// Returns 409 `AlreadyExists` for an object with a `generateName`: its name, generated or given, exists.
    #[must_use]
    pub fn generate_name_conflict(res: &Resource, name: &str, being_deleted: bool) -> Self {
        let mut error = Self::already_exists(res, name, being_deleted).retrying(1);
        error.message += ", the server was not able to generate a unique name for the object";
        error
    }

    /// Returns 409 Conflict: the state of the object contradicts the request.
    #[must_use]
    pub fn conflict(res: &Resource, name: &str, why: &str) -> Self {
        Self::conflict_as(&res.group, &res.plural, name, why)
    }

    /// Returns 409 Conflict for a kind that is not a stored resource, such as `TokenRequest`.
    #[must_use]
    pub fn conflict_as(group: &str, kind: &str, name: &str, why: &str) -> Self {
        let qualified = qualified(group, kind);
        let message = format!("Operation cannot be fulfilled on {qualified} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(group, kind, name)
    }

    /// Returns 409 Conflict: the object has changed since the client read it.
    #[must_use]
    pub fn modified(res: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(res, name, why)
    }

    /// Returns 409 Conflict: other field managers own fields that an apply changes. A cause is a message and a field.
    #[must_use]
    pub fn apply_conflict(
        message: impl Into<String>,
        causes: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let cause = |(message, field): (String, String)| json!({"reason": "FieldManagerConflict", "message": message, "field": field});
        Self::new(409, "Conflict", message).with_causes(causes.into_iter().map(cause).collect())
    }

    /// Returns 422 Invalid: the object has invalid fields.
    #[must_use]
    pub fn invalid(res: &Resource, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind(&res.group, &res.kind, name, errors)
    }

    /// Returns 422 Invalid for a kind that is not a stored resource, such as `DeleteOptions`.
    #[must_use]
    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        // The server validates events of both groups in the form of the core group.
        let group = match group {
            "events.k8s.io" => "",
            _ => group,
        };
        let qualified = qualified(group, kind);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let message = match shown.as_slice() {
            [] => format!("{qualified} {name:?} is invalid"),
            [one] => format!("{qualified} {name:?} is invalid: {one}"),
            many => format!("{qualified} {name:?} is invalid: [{}]", many.join(", ")),
        };
        let causes = errors
            .iter()
            .map(|e| json!({"reason": e.reason(), "message": e.body(), "field": e.field}))
            .collect();
        Self::new(422, "Invalid", message)
            .about(group, kind, name)
            .with_causes(causes)
    }

    /// Returns 422 Invalid without field errors: the patch does not apply to the object.
    #[must_use]
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// Returns 400 `BadRequest`: the request is malformed.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns 401 Unauthorized: the credentials are missing or invalid.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// Returns 403 Forbidden: authorization or admission rejects the request.
    #[must_use]
    pub fn forbidden(res: &Resource, name: &str, why: &str) -> Self {
        Self::forbidden_as(&res.group, &res.plural, name, why)
    }

    /// Returns 403 Forbidden for a resource that the server need not serve. An empty `resource` means a non-resource URL.
    #[must_use]
    pub fn forbidden_as(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
            _ => format!("{} {name:?} is forbidden: {why}", qualified(group, resource)),
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// Returns 403 Forbidden with cause `NamespaceTerminating`: a terminating namespace rejects new objects.
    #[must_use]
    pub fn namespace_terminating(res: &Resource, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        Self::forbidden(res, name, &why).with_causes(vec![json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        })])
    }

    /// Returns 405 `MethodNotAllowed`: the resource does not support the verb.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about("", "", "")
    }

    /// Returns 406 `NotAcceptable`: the server supports none of the accepted media types.
    #[must_use]
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// Returns 404 `NotFound`: the server does not serve the group, version, resource or subresource.
    #[must_use]
    pub fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .about("", "", "")
    }

    /// Returns 415 `UnsupportedMediaType` with the list of supported media types.
    #[must_use]
    pub fn unsupported_media_type(supported: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {supported}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Returns 415 `UnsupportedMediaType` with a message of the caller.
    #[must_use]
    pub fn unsupported(message: &str) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Returns 410 Expired: the requested resourceVersion has been compacted.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns 413 `RequestEntityTooLarge`: the request exceeds a size limit.
    #[must_use]
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// Returns 500 without a reason, for errors that have no API status on the API server either.
    #[must_use]
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Returns 429 `TooManyRequests`, with `Retry-After` if `retry_after` is set.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after: Option<u32>) -> Self {
        let error = Self::new(429, "TooManyRequests", message);
        match retry_after {
            Some(seconds) => error.retrying(seconds),
            None => error,
        }
    }

    /// Returns 429 `TooManyRequests` with cause `DisruptionBudget`: a `PodDisruptionBudget` rejects an eviction.
    #[must_use]
    pub fn disruption_budget(message: &str, cause: &str, retry_after: Option<u32>) -> Self {
        Self::too_many_requests(message, retry_after)
            .with_causes(vec![json!({"reason": "DisruptionBudget", "message": cause})])
    }

    /// Returns 500 `InternalError`.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .with_causes(vec![json!({"message": message})])
    }

    /// Returns 504 Timeout with cause `ResourceVersionTooLarge`: the requested resourceVersion is in the future.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", message)
            .with_causes(vec![json!({
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            })])
            .retrying(1)
    }

    /// Returns 504 Timeout: the request exceeded its deadline.
    #[must_use]
    pub fn timeout(message: &str) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {message}")).about("", "", "")
    }

    /// Returns an error with an arbitrary code and reason, such as the status of a webhook response.
    #[must_use]
    pub fn with_reason(code: u16, reason: &str, message: String, details: Option<Value>) -> Self {
        let seconds = details
            .as_ref()
            .and_then(|details| details["retryAfterSeconds"].as_u64());
        Self {
            reason: Cow::Owned(reason.to_owned()),
            details: details.map(Box::new),
            retry_after: seconds
                .and_then(|seconds| u32::try_from(seconds).ok())
                .filter(|s| *s > 0),
            ..Self::new(code, "", message)
        }
    }

    /// Returns the `Status` object for the response body.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = (**token).into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::clone(details);
        }
        status
    }
}

/// `pods` or `deployments.apps`
fn qualified(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}
