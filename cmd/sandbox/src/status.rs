//! Errors as clients see them: a `Status` object with the code, reason, details and causes that they match on.
//!
//! Every failure of a request ends in one [`ApiError`]; it is shown once, as the response.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::field::FieldError;
use crate::resource::Resource;

/// A failed request.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: Cow<'static, str>,
    /// Message for people.
    pub message: String,
    /// `details` of the Status, if any.
    pub details: Option<Box<Value>>,
    /// Seconds after which a client may try again.
    pub retry_after: Option<u32>,
    /// A continue token that still works, for a list that has expired.
    pub continue_token: Option<Box<str>>,
    /// `Warning` headers: what was found on the way is told of a refused request too.
    pub warnings: Box<[String]>,
}

/// The outcome of a request.
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

    /// The same with what the client is warned of.
    #[must_use]
    pub fn warn(mut self, warnings: Vec<String>) -> Self {
        let mut all = self.warnings.into_vec();
        all.extend(warnings);
        self.warnings = all.into_boxed_slice();
        self
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = serde_json::Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        self.details = Some(Box::new(Value::Object(details)));
        self
    }

    fn with_causes(mut self, causes: Vec<Value>) -> Self {
        let details = self.details.get_or_insert_with(|| Box::new(json!({})));
        if let Some(map) = details.as_object_mut() {
            map.insert("causes".to_owned(), causes.into());
        }
        self
    }

    fn retrying(mut self, seconds: u32) -> Self {
        let details = self.details.get_or_insert_with(|| Box::new(json!({})));
        if let Some(map) = details.as_object_mut() {
            map.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        self.retry_after = Some(seconds);
        self
    }

    /// 404: there is no such object.
    #[must_use]
    pub fn not_found(res: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", res.qualified())).about(
            &res.group,
            &res.plural,
            name,
        )
    }

    /// 404: the namespace of the request does not exist.
    #[must_use]
    pub fn namespace_not_found(name: &str) -> Self {
        Self::new(404, "NotFound", format!("namespaces {name:?} not found")).about("", "namespaces", name)
    }

    /// 409: the name is taken.
    #[must_use]
    pub fn already_exists(res: &Resource, name: &str, being_deleted: bool) -> Self {
        let prefix = if being_deleted {
            "object is being deleted: "
        } else {
            ""
        };
        Self::new(
            409,
            "AlreadyExists",
            format!("{prefix}{} {name:?} already exists", res.qualified()),
        )
        .about(&res.group, &res.plural, name)
    }

    /// 409: no free name was found for a `generateName`, or the name chosen beside it is taken.
    #[must_use]
    pub fn generate_name_conflict(res: &Resource, name: &str, being_deleted: bool) -> Self {
        let prefix = if being_deleted {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!(
            "{prefix}{} {name:?} already exists, the server was not able to generate a unique name for the object",
            res.qualified()
        );
        Self::new(409, "AlreadyExists", message)
            .about(&res.group, &res.plural, name)
            .retrying(1)
    }

    /// 409: the object is not as the request expects it.
    #[must_use]
    pub fn conflict(res: &Resource, name: &str, why: &str) -> Self {
        Self::conflict_as(&res.group, &res.plural, name, why)
    }

    /// 409 about what is no resource, such as a `TokenRequest`.
    #[must_use]
    pub fn conflict_as(group: &str, kind: &str, name: &str, why: &str) -> Self {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let message = format!("Operation cannot be fulfilled on {qualified} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(group, kind, name)
    }

    /// 409: the object has changed since the client read it.
    #[must_use]
    pub fn modified(res: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(res, name, why)
    }

    /// 409: others have fields that an apply would change. Each cause is a message and a field.
    #[must_use]
    pub fn apply_conflict(
        message: impl Into<String>,
        causes: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let cause = |(message, field): (String, String)| json!({"reason": "FieldManagerConflict", "message": message, "field": field});
        Self::new(409, "Conflict", message).with_causes(causes.into_iter().map(cause).collect())
    }

    /// 422: fields are wrong.
    #[must_use]
    pub fn invalid(res: &Resource, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind(&res.group, &res.kind, name, errors)
    }

    /// 422 for a kind that is no resource, such as `DeleteOptions`.
    #[must_use]
    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
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

    /// 422 without fields: a patch that cannot be applied.
    #[must_use]
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// 400: the request itself is wrong.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: no, or unknown, credentials.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: refused, and why.
    #[must_use]
    pub fn forbidden(res: &Resource, name: &str, why: &str) -> Self {
        Self::forbidden_as(&res.group, &res.plural, name, why)
    }

    /// 403 for what may be no resource that is served, or none at all.
    #[must_use]
    pub fn forbidden_as(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = match (resource, group) {
            ("", _) => String::new(),
            (_, "") => format!("{resource} "),
            _ => format!("{resource}.{group} "),
        };
        let message = if name.is_empty() || resource.is_empty() {
            format!(
                "{qualified}{}: {why}",
                if resource.is_empty() {
                    "forbidden"
                } else {
                    "is forbidden"
                }
            )
        } else {
            format!("{qualified}{name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// 403: nothing new may be created in a namespace that is going away.
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

    /// 405: the resource exists, the verb does not.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .about("", "", "")
    }

    /// 406: none of the accepted representations can be given.
    #[must_use]
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 404: the path names a resource, subresource or version that is not served.
    #[must_use]
    pub fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .about("", "", "")
    }

    /// 415: the body's media type is not understood.
    #[must_use]
    pub fn unsupported_media_type(supported: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {supported}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 415 in words of the caller's.
    #[must_use]
    pub fn unsupported(message: &str) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 410: the version asked for is no longer kept.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413: the body is over the limit.
    #[must_use]
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 500 without a reason, for requests that the real server has no better answer to.
    #[must_use]
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 429: not now.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after: Option<u32>) -> Self {
        let error = Self::new(429, "TooManyRequests", message);
        match retry_after {
            Some(seconds) => error.retrying(seconds),
            None => error,
        }
    }

    /// 429: a disruption budget stands in the way of an eviction.
    #[must_use]
    pub fn disruption_budget(message: &str, cause: &str, retry_after: Option<u32>) -> Self {
        Self::too_many_requests(message, retry_after)
            .with_causes(vec![json!({"reason": "DisruptionBudget", "message": cause})])
    }

    /// 500: our own mistake.
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

    /// 504: the version asked for lies in the future.
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

    /// 504: it took too long.
    #[must_use]
    pub fn timeout(message: &str) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {message}")).about("", "", "")
    }

    /// What somebody else answers, whatever code and reason that is.
    #[must_use]
    pub fn said_by_others(code: u16, reason: &str, message: String, details: Option<Value>) -> Self {
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

    /// The `Status` object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut metadata = json!({});
        if let (Some(map), Some(token)) = (metadata.as_object_mut(), &self.continue_token) {
            map.insert("continue".to_owned(), (**token).into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if let (Some(map), false) = (status.as_object_mut(), self.reason.is_empty()) {
            map.insert("reason".to_owned(), self.reason.as_ref().into());
        }
        if let (Some(map), Some(details)) = (status.as_object_mut(), &self.details) {
            map.insert("details".to_owned(), Value::clone(details));
        }
        status
    }
}
