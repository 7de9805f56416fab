//! Errors as `Status` objects, as an API server returns them.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};
use serde_json::json;

use super::auth::User;
use super::connection::HttpResponse;
use super::endpoints::response;

/// The characters of a path or user name in a message.
const SHOWN_MAX: usize = 256;

/// 401: the credentials of the request are invalid.
pub(super) fn unauthorized() -> HttpResponse {
    status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
}

/// 403: the user is not authorized.
pub(super) fn forbidden(user: &User, method: &Method, path: &str) -> HttpResponse {
    let (name, verb, path) = (shown(&user.name), verb(method), shown(path));
    let message = format!("forbidden: User {name:?} cannot {verb} path {path:?}");
    status(StatusCode::FORBIDDEN, "Forbidden", &message, None)
}

/// 429: too many reviews are in flight.
pub(super) fn too_many_requests(retry_after: Duration) -> HttpResponse {
    let message = "too many requests are being authenticated, please try again later";
    let code = StatusCode::TOO_MANY_REQUESTS;
    status(code, "TooManyRequests", message, Some(retry_after))
}

/// 503: the API server could not be asked.
pub(super) fn unavailable(message: &str, retry_after: Duration) -> HttpResponse {
    let code = StatusCode::SERVICE_UNAVAILABLE;
    status(code, "ServiceUnavailable", message, Some(retry_after))
}

/// Returns the verb of a request for a path that is not a resource.
pub(super) fn verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

/// Clients choose these texts, and responses occupy memory until they are read.
fn shown(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN_MAX);
    end.map_or(text, |(end, _)| &text[..end])
}

fn status(code: StatusCode, reason: &str, message: &str, retry_after: Option<Duration>) -> HttpResponse {
    let mut body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {},
        "code": code.as_u16(),
    });
    if let Some(delay) = retry_after {
        body["details"] = json!({"retryAfterSeconds": delay.as_secs()});
    }
    let mut response = response(code, "application/json", body.to_string());
    if let Some(delay) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, delay.as_secs().into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn forbidden_message_has_the_start_of_a_long_path() {
        let body = async |path: &str| {
            let response = forbidden(&User::anonymous(), &Method::GET, path);
            response.into_body().collect().await.expect("a body").to_bytes()
        };
        let (long, short) = ("/\"".repeat(30_000), "/\"".repeat(128));
        assert_eq!(body(&long).await, body(&short).await);
        assert_ne!(body(&short).await, body(&short[1..]).await);
    }
}
