//! Routing of requests to handlers, and the headers that all responses share.
//!
//! Request bodies are never read. A handler that panics returns 500 and affects no other request.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use prometheus::{Registry, TextEncoder};

use super::access::{self, Access};
use super::checks::{Checks, Probes};
use super::connection::{HttpHandler, HttpResponse};
use super::{ServeError, health};
use crate::panics;

/// Marks a request of a local client.
#[derive(Clone, Copy, Debug)]
struct Local;

type Handler = Box<dyn Fn(Request<()>) -> BoxFuture<'static, HttpResponse> + Send + Sync>;

/// The paths that are allowed by default: the probes of the kubelet.
pub const ALWAYS_ALLOW_PATHS: [&str; 3] = ["/healthz", "/readyz", "/livez"];

const PLAIN: &str = "text/plain; charset=utf-8";
/// The Prometheus text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes and their authorization.
pub struct Endpoints {
    /// Handlers by path. A path with a trailing slash matches all paths below it.
    routes: BTreeMap<String, Handler>,
    access: Access,
}

impl Endpoints {
    /// Returns the health and metrics endpoints. Remote clients may access `always_allow_paths` only: exact paths, or
    /// prefixes with a trailing `*`.
    pub fn new(
        checks: &Checks,
        registry: Registry,
        always_allow_paths: impl IntoIterator<Item: Into<String>>,
    ) -> Result<Self, ServeError> {
        let mut endpoints = Self {
            routes: BTreeMap::new(),
            access: Access::new(always_allow_paths.into_iter().map(Into::into))?,
        };
        for (name, probe) in [
            ("healthz", Probes::HEALTHZ),
            ("livez", Probes::LIVEZ),
            ("readyz", Probes::READYZ),
        ] {
            let (of_all, of_one) = (checks.clone(), checks.clone());
            let below = format!("/{name}/");
            endpoints = endpoints
                .mount(format!("/{name}"), move |request| {
                    let query = request.uri().query().unwrap_or_default();
                    let local = request.extensions().get::<Local>().is_some();
                    let (status, body) = health::all(name, &of_all, probe, query, local);
                    std::future::ready(text(status, body))
                })
                .mount(below.clone(), move |request| {
                    let check = request.uri().path().strip_prefix(&below);
                    let response = check.and_then(|check| health::one(check, &of_one, probe));
                    std::future::ready(response.map_or_else(not_found, |(status, body)| text(status, body)))
                });
        }
        Ok(endpoints.mount("/metrics", move |_| std::future::ready(metrics(&registry))))
    }

    /// Adds a handler for GET, or replaces the one at this path. A path with a trailing slash matches all paths below it
    /// that have no longer match.
    #[must_use]
    pub fn mount<F, A>(mut self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<()>) -> A + Send + Sync + 'static,
        A: Future<Output = HttpResponse> + Send + 'static,
    {
        self.routes
            .insert(path.into(), Box::new(move |request| handler(request).boxed()));
        self
    }

    async fn handle_any<B: Body>(&self, peer: IpAddr, request: Request<B>) -> HttpResponse {
        let (parts, body) = request.into_parts();
        let (head, http1) = (parts.method == Method::HEAD, parts.version < Version::HTTP_2);
        let unread = !body.is_end_stream();
        let mut response = self.route(peer, Request::from_parts(parts, ())).await;
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if unread && http1 {
            // The next request on the connection would follow the unread body.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if head {
            let length = response.body().size_hint().exact().unwrap_or_default();
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
            *response.body_mut() = Full::default();
        }
        response
    }

    async fn route(&self, peer: IpAddr, mut request: Request<()>) -> HttpResponse {
        if access::is_local(peer) {
            request.extensions_mut().insert(Local);
        }
        let path = request.uri().path();
        if !self.access.allows(path, peer) {
            return forbidden(request.method(), path);
        }
        let Some(handler) = self.handler(path) else {
            return not_found();
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let path = path.to_owned();
        // The call itself may panic, not only its future.
        let response = AssertUnwindSafe(async { handler(request).await }).catch_unwind();
        response.await.unwrap_or_else(|panic| {
            tracing::error!(path, panic = panics::message(&*panic), "HTTP handler panicked");
            text(StatusCode::INTERNAL_SERVER_ERROR, "500 internal server error\n")
        })
    }

    /// Returns the handler with the longest match.
    fn handler(&self, path: &str) -> Option<&Handler> {
        let exact = self.routes.get(path);
        exact.or_else(|| {
            let above = self
                .routes
                .iter()
                .filter(|(route, _)| route.ends_with('/') && path.starts_with(*route));
            above
                .max_by_key(|(route, _)| route.len())
                .map(|(_, handler)| handler)
        })
    }
}

impl HttpHandler for Endpoints {
    async fn handle(&self, peer: IpAddr, request: Request<Incoming>) -> HttpResponse {
        self.handle_any(peer, request).await
    }
}

fn metrics(registry: &Registry) -> HttpResponse {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(series) => response(StatusCode::OK, METRICS, series),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot encode the metrics: {error}\n"),
        ),
    }
}

/// Returns the `Status` that an API server returns.
fn forbidden(method: &Method, path: &str) -> HttpResponse {
    let verb = method.as_str().to_ascii_lowercase();
    let status = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("forbidden: User \"system:anonymous\" cannot {verb} path {path:?}"),
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    });
    response(StatusCode::FORBIDDEN, "application/json", status.to_string())
}

fn not_found() -> HttpResponse {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns a plain text response.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    response(status, PLAIN, body)
}

pub(crate) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> HttpResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    use http_body_util::{BodyExt as _, Empty};
    use std::net::Ipv4Addr;

    async fn get(endpoints: &Endpoints, path: &str) -> (StatusCode, Bytes) {
        let request = Request::get(path).body(Empty::<Bytes>::new()).expect("a request");
        let response = endpoints.handle_any(Ipv4Addr::LOCALHOST.into(), request).await;
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body");
        (status, body.to_bytes())
    }

    fn endpoints() -> Endpoints {
        Endpoints::new(&Checks::new(), Registry::new(), ALWAYS_ALLOW_PATHS).expect("valid paths")
    }

    #[tokio::test]
    async fn request_is_routed_to_the_longest_match() {
        let mut endpoints = endpoints();
        for path in ["/debug/", "/debug/controllers/", "/debug/controllers/gc"] {
            endpoints = endpoints.mount(path, move |_| std::future::ready(text(StatusCode::OK, path)));
        }
        for (path, by) in [
            ("/debug/", "/debug/"),
            ("/debug/x/y", "/debug/"),
            ("/debug/controllers", "/debug/"),
            ("/debug/controllers/", "/debug/controllers/"),
            ("/debug/controllers/gc/graph", "/debug/controllers/"),
            ("/debug/controllers/gc", "/debug/controllers/gc"),
        ] {
            assert_eq!(get(&endpoints, path).await, (StatusCode::OK, by.into()), "{path}");
        }
        assert_eq!(get(&endpoints, "/debug").await.0, StatusCode::NOT_FOUND);
        assert_eq!(get(&endpoints, "/").await.0, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn panic_in_a_handler_future_returns_500() {
        let endpoints = endpoints().mount("/late", |_| async {
            tokio::task::yield_now().await;
            panic!("for the test")
        });
        let (status, body) = get(&endpoints, "/late").await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body, "500 internal server error\n");
    }
}
