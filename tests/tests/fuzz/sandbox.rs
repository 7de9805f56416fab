//! The sandbox: requests to an API service in this process.

pub mod corpus;
pub mod definitions;
pub mod requests;
mod shared;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use steersman_sandbox::ApiService;
use tower_service::Service as _;

/// The frames that are read of an answer: a watch does not end.
const FRAMES_MAX: usize = 3;
/// Internal errors that a real server returns too.
const INTERNAL_ERRORS: [&str; 5] = [
    "the sandbox runs no containers",
    "does not exist",
    "Object 'apiVersion' is missing",
    "range is full",
    "Too large resource version",
];

/// A request. Invalid characters of the URI are percent-encoded.
pub struct Call<'a> {
    method: &'a [u8],
    path: &'a [u8],
    query: &'a [u8],
    accept: &'a [u8],
    body: (&'a [u8], &'a [u8]),
}

impl<'a> Call<'a> {
    pub fn new(method: &'a (impl AsRef<[u8]> + ?Sized), path: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            method: method.as_ref(),
            path: path.as_ref(),
            query: b"",
            accept: b"application/json",
            body: (b"", b""),
        }
    }

    pub fn query(self, query: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let query = query.as_ref();
        Self { query, ..self }
    }

    pub fn accept(self, accept: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let accept = accept.as_ref();
        Self { accept, ..self }
    }

    pub fn body(self, media: &'a (impl AsRef<[u8]> + ?Sized), body: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let body = (media.as_ref(), body.as_ref());
        Self { body, ..self }
    }
}

/// An answer. The value is null if the answer is not JSON.
pub struct Answer {
    pub code: u16,
    pub value: Value,
}

impl Answer {
    pub fn version(&self) -> Option<&str> {
        self.value["metadata"]["resourceVersion"].as_str()
    }
}

/// Sends a request. Returns none if HTTP cannot express it, and an error if the answer is malformed.
pub async fn send(service: &ApiService, call: Call<'_>) -> Result<Option<Answer>, String> {
    let uri = format!("{}?{}", encode(call.path, b"/"), encode(call.query, b"=&"));
    let method = Method::from_bytes(call.method);
    let request = Request::builder().method(method.unwrap_or(Method::GET)).uri(&uri);
    let (content_type, body) = call.body;
    let request = request
        .header("content-type", content_type)
        .header("accept", call.accept);
    let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else {
        return Ok(None);
    };
    let response = match service.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let code = response.status().as_u16();
    let is_json = response
        .headers()
        .get("content-type")
        .is_some_and(|it| it == "application/json");
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    for _ in 0..FRAMES_MAX {
        match body.frame().await {
            Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            _ => break,
        }
    }
    let malformed = |why: &str| format!("{why}: {code} {} for {uri}", bytes.escape_ascii());
    if !is_json {
        let is_known = matches!(code, 200 | 204 | 404 | 405) && std::str::from_utf8(&bytes).is_ok();
        let value = Value::Null;
        return if is_known {
            Ok(Some(Answer { code, value }))
        } else {
            Err(malformed("not JSON"))
        };
    }
    // A watch answers with a line per event.
    let mut lines = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
    let value = match lines.next() {
        Some(Ok(value)) if lines.all(|line| line.is_ok()) => value,
        None if code < 300 => Value::Null,
        _ => return Err(malformed("malformed JSON")),
    };
    if code >= 400 {
        let is_status = value["kind"] == "Status" && value["status"] == "Failure" && value["code"] == code;
        let message = value["message"].as_str().unwrap_or_default();
        if !is_status || message.is_empty() {
            return Err(malformed("malformed Status"));
        }
        // A real server explains some errors of clients by 500 without a reason.
        let is_known = value["reason"].is_null() || INTERNAL_ERRORS.iter().any(|it| message.contains(it));
        if code >= 500 && !is_known {
            return Err(malformed("internal error"));
        }
    }
    Ok(Some(Answer { code, value }))
}

/// Checks that a stored object can be written again: a PUT and patches with the object itself change nothing.
pub async fn check_rewrites(service: &ApiService, path: &str) -> Result<(), String> {
    let stored = send(service, Call::new("GET", path)).await?;
    let Some(stored) = stored.filter(|it| it.code == 200) else {
        return Err(format!("written object is not readable: {path}"));
    };
    let object = stored.value.to_string();
    // A merge patch cannot set a member to null.
    let merged = if has_null(&stored.value) {
        "{}".to_owned()
    } else {
        object.clone()
    };
    for (method, content_type, body) in [
        ("PUT", "application/json", object.clone()),
        ("PUT", "application/yaml", object.clone()),
        ("PATCH", "application/merge-patch+json", merged.clone()),
        (
            "PATCH",
            "application/json-patch+json",
            format!(r#"[{{"op": "test", "path": "", "value": {object}}}]"#),
        ),
        ("PATCH", "application/strategic-merge-patch+json", merged),
    ] {
        let call = Call::new(method, path).body(content_type, &body);
        let Some(answer) = send(service, call).await? else {
            continue;
        };
        // Custom resources have no strategic merge patches.
        if answer.code == 415 && content_type.contains("strategic") {
            continue;
        }
        if answer.code != 200 || answer.version() != stored.version() {
            let (code, value) = (answer.code, answer.value);
            return Err(format!(
                "{method} of {content_type} changes the object: {code} {value} instead of {object}"
            ));
        }
    }
    Ok(())
}

/// Returns true if a member of an object is null. Lists are replaced as a whole.
fn has_null(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|map| map.values().any(|it| it.is_null() || has_null(it)))
}

/// Encodes the bytes that a URI cannot have, except `kept` ones.
fn encode(bytes: &[u8], kept: &[u8]) -> String {
    let one = |byte: &u8| {
        let is_kept = byte.is_ascii_alphanumeric() || b"-._~%".contains(byte) || kept.contains(byte);
        if is_kept {
            char::from(*byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    bytes.iter().map(one).collect()
}
