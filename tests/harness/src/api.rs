//! Plain HTTP to the cluster. Requests and answers are not changed.
//!
//! An HTTP status is not an error. A broken connection and a missing answer within [`time::ANSWER`] panic with the request.

use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use crate::{Reply, Watch, time};

/// A request body: JSON, unchanged text (for malformed input), or `()` for none.
pub struct Payload(Vec<u8>);

/// Sends requests with the credentials of its client.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
}

impl Api {
    /// Wraps a client.
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// Returns the client.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Sends `GET path`. A query is part of the path.
    pub async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path, &[], ()).await
    }

    /// Sends `POST path`.
    pub async fn post(&self, path: &str, body: impl Into<Payload>) -> Reply {
        self.request(Method::POST, path, &[], body).await
    }

    /// Sends `PUT path`.
    pub async fn put(&self, path: &str, body: impl Into<Payload>) -> Reply {
        self.request(Method::PUT, path, &[], body).await
    }

    /// Sends `PATCH path`. The content type names the kind of patch.
    pub async fn patch(&self, path: &str, content_type: &str, body: impl Into<Payload>) -> Reply {
        self.request(Method::PATCH, path, &[("content-type", content_type)], body)
            .await
    }

    /// Sends `DELETE path` with delete options or `()`.
    pub async fn delete(&self, path: &str, body: impl Into<Payload>) -> Reply {
        self.request(Method::DELETE, path, &[], body).await
    }

    /// Sends a request. `headers` replace the defaults, which send and accept JSON.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Payload>,
    ) -> Reply {
        let reply = self.try_request(method, path, headers, body).await;
        reply.unwrap_or_else(|error| panic!("{error}"))
    }

    /// [`Api::request`] that returns an error if the server closes the connection without an answer.
    pub async fn try_request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Payload>,
    ) -> Result<Reply, String> {
        let line = format!("{method} {path}");
        let work = async {
            let response = self.send(method, path, headers, body.into()).await?;
            let (parts, body) = response.into_parts();
            let body = body
                .collect()
                .await
                .unwrap_or_else(|error| panic!("{line}: the answer broke off: {error}"));
            Ok::<_, String>((parts, body.to_bytes()))
        };
        let (parts, body) = time::within(time::ANSWER, work)
            .await
            .unwrap_or_else(|| panic!("{line}: no answer within {:?}", time::ANSWER))?;
        Ok(Reply {
            request: line,
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        })
    }

    /// Opens a watch by a `GET` with `?watch=1`. Panics unless the status is 200.
    pub async fn watch(&self, path: &str) -> Watch {
        self.watch_with(path, &[]).await
    }

    /// [`Api::watch`] with headers.
    pub async fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> Watch {
        let line = format!("GET {path}");
        let open = self.send(Method::GET, path, headers, Payload(Vec::new()));
        let response = time::within(time::ANSWER, open)
            .await
            .unwrap_or_else(|| panic!("{line}: no answer within {:?}", time::ANSWER));
        let (parts, body) = response.unwrap_or_else(|error| panic!("{error}")).into_parts();
        if parts.status != http::StatusCode::OK {
            let body = time::within(time::ANSWER, body.collect())
                .await
                .and_then(Result::ok);
            let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let reply = Reply {
                request: line,
                status: parts.status.as_u16(),
                headers: parts.headers,
                body,
            };
            panic!("the watch was refused\n{reply}");
        }
        Watch::new(line, parts.headers, body)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        Payload(body): Payload,
    ) -> Result<Response<Body>, String> {
        let line = format!("{method} {path}");
        let mut request = Request::builder().method(method).uri(path);
        let has = |wanted: http::HeaderName| headers.iter().any(|(name, _)| wanted == *name);
        if !has(header::ACCEPT) {
            request = request.header(header::ACCEPT, "application/json");
        }
        if !body.is_empty() && !has(header::CONTENT_TYPE) {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Body::from(body))
            .unwrap_or_else(|error| panic!("{line}: invalid request: {error}"));
        let sent = self.client.send(request).await;
        sent.map_err(|error| format!("{line}: no answer: {error}"))
    }
}

/// The value of a header that is text.
pub(crate) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

// === impl Payload ===

impl From<()> for Payload {
    fn from((): ()) -> Self {
        Self(Vec::new())
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl From<&Value> for Payload {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into_bytes())
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}
