//! Errors as `Status` objects, as an API server returns them.

use http::{Method, StatusCode};
use serde_json::json;

use super::auth::User;
use super::connection::HttpResponse;
use super::endpoints::response;

/// 403: the user is not authorized.
pub(super) fn forbidden(user: &User, method: &Method, path: &str) -> HttpResponse {
    let (name, verb) = (&user.name, verb(method));
    let message = format!("forbidden: User {name:?} cannot {verb} path {path:?}");
    status(StatusCode::FORBIDDEN, "Forbidden", &message)
}

/// Returns the verb of a request for a path that is not a resource.
pub(super) fn verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

fn status(code: StatusCode, reason: &str, message: &str) -> HttpResponse {
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {},
        "code": code.as_u16(),
    });
    response(code, "application/json", body.to_string())
}
