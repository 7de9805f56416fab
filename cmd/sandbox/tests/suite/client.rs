//! A client that calls an API service directly.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use steersman_sandbox::{ApiService, Builder, Env, Limits, ResponseBody, Sandbox};
use tokio::time::Instant;
use tower_service::Service as _;

/// A sandbox with a fixed time and seed.
pub fn sandbox() -> Sandbox {
    sandbox_with(Limits::default())
}

/// A sandbox with a bounded history.
pub fn sandbox_with(history: Limits) -> Sandbox {
    builder().history(history).start().expect("a sandbox")
}

/// A builder with a fixed time and seed.
pub fn builder() -> Builder {
    let start = jiff::Timestamp::from_second(1_800_000_000).expect("a time");
    Sandbox::builder().env(Env::starting_at(start, 7))
}

/// Sends one request and reads the whole answer.
pub async fn send(service: &ApiService, method: Method, path: &str, body: &Value) -> (u16, Value) {
    send_with(service, method, path, &[], body).await
}

/// [`send`] with headers.
pub async fn send_with(
    service: &ApiService,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let response = call(service, method, path, headers, body).await;
    let status = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("bodies do not fail")
        .to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

pub async fn get(service: &ApiService, path: &str) -> (u16, Value) {
    send(service, Method::GET, path, &Value::Null).await
}

pub async fn post(service: &ApiService, path: &str, body: &Value) -> (u16, Value) {
    send(service, Method::POST, path, body).await
}

pub async fn put(service: &ApiService, path: &str, body: &Value) -> (u16, Value) {
    send(service, Method::PUT, path, body).await
}

/// Sends a merge patch.
pub async fn patch(service: &ApiService, path: &str, body: &Value) -> (u16, Value) {
    send(service, Method::PATCH, path, body).await
}

/// Sends a `DELETE` without options.
pub async fn delete(service: &ApiService, path: &str) -> (u16, Value) {
    send(service, Method::DELETE, path, &Value::Null).await
}

/// Creates a `ConfigMap` in `default`, and returns its resourceVersion.
pub async fn create(service: &ApiService, name: &str) -> u64 {
    let (status, object) = post(service, MAPS, &json!({"metadata": {"name": name}})).await;
    assert_eq!(status, 201, "{object}");
    version(&object)
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// `metadata.resourceVersion` of an object or a list.
pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|v| v.parse().ok())
        .expect("a resourceVersion")
}

/// The names of the objects of a list.
pub fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|i| i["metadata"]["name"].as_str())
        .collect()
}

/// An open watch.
pub struct Watch {
    body: ResponseBody,
    pending: std::collections::VecDeque<Value>,
}

/// Opens a watch.
pub async fn watch(service: &ApiService, path: &str) -> Watch {
    let response = call(service, Method::GET, path, &[], &Value::Null).await;
    assert_eq!(response.status(), 200, "{path}");
    Watch {
        body: response.into_body(),
        pending: std::collections::VecDeque::new(),
    }
}

impl Watch {
    /// The next event; `None` when the watch has ended.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            let frame = self.body.frame().await?.expect("bodies do not fail");
            let data = frame.into_data().expect("watches have no trailers");
            let lines = data.split(|b| *b == b'\n').filter(|line| !line.is_empty());
            self.pending
                .extend(lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON lines")));
        }
    }

    /// The next event as `TYPE name`, or `TYPE @version` for bookmarks.
    pub async fn brief(&mut self) -> Option<String> {
        let event = self.next().await?;
        let kind = event["type"].as_str().unwrap_or_default();
        let object = &event["object"];
        Some(match object["metadata"]["name"].as_str() {
            Some(name) => format!("{kind} {name}"),
            None if kind == "ERROR" => format!(
                "{kind} {} {}",
                object["code"],
                object["reason"].as_str().unwrap_or_default()
            ),
            None => format!("{kind} @{}", version(object)),
        })
    }

    /// Whether no event arrives while the clock is paused.
    pub fn is_quiet(&mut self) -> bool {
        use futures_util::FutureExt as _;
        // The watch may need several polls before it waits.
        for _ in 0..3 {
            if self.brief().now_or_never().is_some() {
                return false;
            }
        }
        true
    }
}

async fn call(
    service: &ApiService,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> http::Response<ResponseBody> {
    let bytes = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let kind = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", kind);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(bytes)).expect("a request");
    match service.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Returns the output of a future and its duration on the paused clock, in seconds.
pub async fn elapsed<T>(future: impl Future<Output = T>) -> (T, u64) {
    #[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
    let now = Instant::now;
    let start = now();
    (future.await, (now() - start).as_secs())
}
