//! A request as the fault layer sees it: the request info of kube-apiserver, without authentication.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use http_body_util::Full;
use serde_json::Value;
use tokio::time::Instant;

use crate::authz::Attributes;
use crate::endpoints::request::Query;

/// A recorded request. Texts that do not apply are empty.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The verb of authorization, such as `get`, `watch` or `deletecollection`. For a path that is not a resource, the
    /// method in lower case.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Subresource, such as `status`.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name in the path or in a field selector. A create has its name in the body: see [`object_name`](Self::object_name).
    pub name: String,
    /// HTTP method.
    pub method: Method,
    /// Path, without the query.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
    /// The impersonated user, or the subject of a service account's token.
    pub user: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// Time of arrival. Behind another fault layer, the time of arrival at that layer.
    pub at: Instant,
}

/// The extension of a request that has the time of its arrival at an outer fault layer.
#[derive(Clone, Copy)]
pub(super) struct ArrivedAt(pub Instant);

impl RecordedRequest {
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's clock, which a test may have paused"
    )]
    pub(super) fn new(parts: &Parts, body: Bytes) -> Self {
        let path = parts.uri.path();
        let wanted = Attributes::of(&parts.method, path, &Query::parse(&parts.uri));
        Self {
            verb: wanted.verb,
            group: wanted.group,
            resource: wanted.resource,
            subresource: wanted.subresource,
            namespace: wanted.namespace,
            name: wanted.name,
            method: parts.method.clone(),
            path: path.to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            user: user(&parts.headers),
            headers: parts.headers.clone(),
            body,
            at: parts
                .extensions
                .get()
                .map_or_else(Instant::now, |ArrivedAt(at)| *at),
        }
    }

    /// Returns the request, to execute it again. Its method, path, query, headers and body are sent.
    #[must_use]
    pub fn to_request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        request.method_mut().clone_from(&self.method);
        request.headers_mut().clone_from(&self.headers);
        *request.uri_mut() = self.uri().parse().unwrap_or_default();
        request
    }

    /// Returns the path with the query.
    #[must_use]
    pub fn uri(&self) -> String {
        if self.query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, self.query)
        }
    }

    /// Returns the JSON body, or null.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the name of the object: from the path, or from the body of a create.
    #[must_use]
    pub fn object_name(&self) -> String {
        if self.name.is_empty() && self.verb == "create" {
            self.json()["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        } else {
            self.name.clone()
        }
    }

    /// Returns a header, or an empty text.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|it| it.to_str().ok());
        value.unwrap_or_default()
    }

    /// Returns the first value of a query parameter.
    #[must_use]
    pub fn parameter(&self, key: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs
            .find(|(it, _)| it == key)
            .map(|(_, value)| value.into_owned())
    }

    /// Returns the resource in the form of [`Matcher::resource`](super::Matcher::resource).
    #[must_use]
    pub fn full_resource(&self) -> String {
        let mut text = self.resource.clone();
        if !self.group.is_empty() {
            text = format!("{text}.{}", self.group);
        }
        if !self.subresource.is_empty() {
            text = format!("{text}/{}", self.subresource);
        }
        text
    }

    /// Reports whether the request changes objects.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }
}

fn user(headers: &HeaderMap) -> String {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    if let Some(user) = header("impersonate-user") {
        return user.to_owned();
    }
    let token = header("authorization").and_then(|it| it.strip_prefix("Bearer "));
    let claims = token.and_then(|it| it.split('.').nth(1));
    let claims = claims.and_then(|it| BASE64_URL_SAFE_NO_PAD.decode(it).ok());
    let claims: Value = claims
        .and_then(|it| serde_json::from_slice(&it).ok())
        .unwrap_or_default();
    claims["sub"].as_str().unwrap_or_default().to_owned()
}
