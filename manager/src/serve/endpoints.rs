//! Routing of requests to handlers, and the headers that all responses share.
//!
//! The body of a PUT or DELETE is read after authorization, up to 64 KiB and ten seconds. Bodies of other requests are not
//! read. A handler that panics returns 500 and affects no other request.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::Registry;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use prometheus::TextEncoder;
use prometheus::proto::MetricFamily;
use serde_json::Value;

use super::access::{Access, Authorized};
use super::connection::{HttpHandler, HttpResponse, Peer};
use super::slis::{self, Slis};
use super::{ServeError, health};
use crate::env::Clock;
use crate::health::Checks;
use crate::panics;

type Handler = Box<dyn Fn(Request<Bytes>) -> BoxFuture<'static, HttpResponse> + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The paths that are allowed by default: the probes of the kubelet.
pub const ALWAYS_ALLOW_PATHS: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// A larger request body is rejected with 413.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// A request body that takes longer to arrive is rejected with 408.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const PLAIN: &str = "text/plain; charset=utf-8";
/// The Prometheus text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes and their authorization.
pub struct Endpoints {
    /// A path with a trailing slash matches all paths below it.
    routes: BTreeMap<String, Route>,
    access: Access,
    clock: Clock,
}

/// The handlers of one path.
#[derive(Default)]
struct Route {
    /// Also handles HEAD.
    get: Option<Handler>,
    put: Option<Handler>,
    delete: Option<Handler>,
}

impl Endpoints {
    /// Returns the health and metrics endpoints.
    pub fn new(
        checks: &Checks,
        registry: Registry,
        access: Access,
        clock: &Clock,
    ) -> Result<Self, ServeError> {
        let mut endpoints = Self {
            routes: BTreeMap::new(),
            access,
            clock: clock.clone(),
        };
        let slis = Arc::new(Slis::new()?);
        for (name, probe) in slis::PROBES {
            let (of_all, of_one) = (checks.clone(), checks.clone());
            let slis = slis.clone();
            let below = format!("/{name}/");
            endpoints = endpoints
                .mount(format!("/{name}"), move |request| {
                    let query = request.uri().query().unwrap_or_default();
                    let authorized = request.extensions().get::<Authorized>().is_some();
                    let (status, body) = health::all(name, &of_all, probe, query, authorized, &slis);
                    std::future::ready(text(status, body))
                })
                .mount(below.clone(), move |request| {
                    let check = request.uri().path().strip_prefix(&below);
                    let response = check.and_then(|check| health::one(check, &of_one, probe));
                    std::future::ready(response.map_or_else(not_found, |(status, body)| text(status, body)))
                });
        }
        let (reset, checks) = (slis.clone(), checks.clone());
        Ok(endpoints
            .mount("/metrics", move |_| {
                std::future::ready(metrics(&registry.gather()))
            })
            .mount("/metrics/slis", move |_| std::future::ready(slis.page(&checks)))
            .mount_delete("/metrics/slis", move |_| std::future::ready(reset.reset())))
    }

    /// Adds a handler for GET and HEAD, or replaces the one at this path. A path with a trailing slash matches all paths
    /// below it that have no longer match, except `/`, which matches only itself.
    #[must_use]
    pub fn mount<F, A>(mut self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = HttpResponse> + Send + 'static,
    {
        self.route_mut(path).get = Some(boxed(handler));
        self
    }

    /// Adds a handler for PUT; see [`Endpoints::mount`]. The handler gets the complete body.
    #[must_use]
    pub fn mount_put<F, A>(mut self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = HttpResponse> + Send + 'static,
    {
        self.route_mut(path).put = Some(boxed(handler));
        self
    }

    /// Adds a handler for DELETE; see [`Endpoints::mount`].
    #[must_use]
    pub fn mount_delete<F, A>(mut self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = HttpResponse> + Send + 'static,
    {
        self.route_mut(path).delete = Some(boxed(handler));
        self
    }

    /// Returns the mounted paths in order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.routes.keys().map(String::as_str)
    }

    fn route_mut(&mut self, path: impl Into<String>) -> &mut Route {
        self.routes.entry(path.into()).or_default()
    }

    async fn handle_any<B>(&self, peer: &Peer, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let (head, http1) = (
            request.method() == Method::HEAD,
            request.version() < Version::HTTP_2,
        );
        let mut unread = !request.body().is_end_stream();
        let mut response = self.respond(peer, request, &mut unread).await;
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

    /// Authorizes a request, reads its body if the handler needs it, and calls the handler. Sets `unread` to false when the
    /// body has been read to its end.
    async fn respond<B>(&self, peer: &Peer, request: Request<B>, unread: &mut bool) -> HttpResponse
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let (mut parts, body) = request.into_parts();
        if let Err(response) = self.access.authorize(peer, &mut parts).await {
            return *response;
        }
        let Some(route) = self.route(parts.uri.path()) else {
            return not_found();
        };
        let Some(handler) = route.handler(&parts.method) else {
            return route.method_not_allowed();
        };
        let body = match parts.method {
            Method::PUT | Method::DELETE => match self.read(body).await {
                Ok(body) => {
                    *unread = false;
                    body
                }
                Err((status, message)) => return text(status, message),
            },
            _ => Bytes::new(),
        };
        let path = parts.uri.path().to_owned();
        let request = Request::from_parts(parts, body);
        // The call itself may panic, not only its future.
        let response = AssertUnwindSafe(async { handler(request).await }).catch_unwind();
        response.await.unwrap_or_else(|panic| {
            tracing::error!(path, panic = panics::message(&*panic), "HTTP handler panicked");
            text(StatusCode::INTERNAL_SERVER_ERROR, "500 internal server error\n")
        })
    }

    async fn read<B>(&self, body: B) -> Result<Bytes, (StatusCode, String)>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let read = Limited::new(body, MAX_BODY_BYTES).collect();
        match self.clock.timeout(BODY_TIMEOUT, read).await {
            Some(Ok(body)) => Ok(body.to_bytes()),
            Some(Err(error)) if error.is::<LengthLimitError>() => Err((
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the request body exceeds {MAX_BODY_BYTES} bytes\n"),
            )),
            Some(Err(_)) => Err((
                StatusCode::BAD_REQUEST,
                "the request body is truncated\n".to_owned(),
            )),
            None => Err((
                StatusCode::REQUEST_TIMEOUT,
                format!(
                    "the request body is not complete after {} s\n",
                    BODY_TIMEOUT.as_secs()
                ),
            )),
        }
    }

    /// Returns the route with the longest match.
    fn route(&self, path: &str) -> Option<&Route> {
        let exact = self.routes.get(path);
        exact.or_else(|| {
            let above = self
                .routes
                .iter()
                .filter(|(route, _)| *route != "/" && route.ends_with('/') && path.starts_with(*route));
            above.max_by_key(|(route, _)| route.len()).map(|(_, route)| route)
        })
    }
}

impl Route {
    fn handler(&self, method: &Method) -> Option<&Handler> {
        match *method {
            Method::GET | Method::HEAD => self.get.as_ref(),
            Method::PUT => self.put.as_ref(),
            Method::DELETE => self.delete.as_ref(),
            _ => None,
        }
    }

    fn method_not_allowed(&self) -> HttpResponse {
        let all = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
        let allowed: Vec<&str> = all
            .iter()
            .filter(|&method| self.handler(method).is_some())
            .map(Method::as_str)
            .collect();
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
        if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
            response.headers_mut().insert(ALLOW, allowed);
        }
        response
    }
}

impl HttpHandler for Endpoints {
    async fn handle(&self, peer: &Peer, request: Request<Incoming>) -> HttpResponse {
        self.handle_any(peer, request).await
    }
}

fn boxed<F, A>(handler: F) -> Handler
where
    F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = HttpResponse> + Send + 'static,
{
    Box::new(move |request| handler(request).boxed())
}

/// Returns metrics in the Prometheus text format.
pub(super) fn metrics(families: &[MetricFamily]) -> HttpResponse {
    match TextEncoder::new().encode_to_string(families) {
        Ok(series) => response(StatusCode::OK, METRICS, series),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot encode the metrics: {error}\n"),
        ),
    }
}

fn not_found() -> HttpResponse {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns a JSON response.
pub(super) fn json(value: &Value) -> HttpResponse {
    response(StatusCode::OK, "application/json", pretty(value))
}

/// Encodes JSON for readers.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
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

    use futures_util::{StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::{Empty, StreamBody};
    use jiff::Timestamp;
    use std::net::Ipv4Addr;

    async fn get(endpoints: &Endpoints, path: &str) -> (StatusCode, Bytes) {
        let request = Request::get(path).body(Empty::<Bytes>::new()).expect("a request");
        let response = endpoints
            .handle_any(&Peer::at(Ipv4Addr::LOCALHOST.into()), request)
            .await;
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body");
        (status, body.to_bytes())
    }

    /// Sends a PUT of `body`; returns the status, the `Connection` and `Allow` headers and the body.
    async fn put<B>(
        endpoints: &Endpoints,
        path: &str,
        body: B,
    ) -> (u16, Option<String>, Option<String>, Bytes)
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
    {
        let request = Request::put(path).body(body).expect("a request");
        let response = endpoints
            .handle_any(&Peer::at(Ipv4Addr::LOCALHOST.into()), request)
            .await;
        let header = |name| {
            let value = response.headers().get(name)?;
            Some(value.to_str().expect("text").to_owned())
        };
        let (connection, allow) = (header(CONNECTION), header(ALLOW));
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body");
        (status, connection, allow, body.to_bytes())
    }

    fn endpoints() -> Endpoints {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let access = Access::new(ALWAYS_ALLOW_PATHS).expect("valid paths");
        Endpoints::new(
            &Checks::new(),
            Registry::new("test"),
            access.allow_loopback(),
            &clock,
        )
        .expect("metrics")
    }

    fn echo() -> Endpoints {
        endpoints().mount_put("/echo", |request| {
            std::future::ready(text(StatusCode::OK, request.into_body()))
        })
    }

    #[tokio::test]
    async fn put_handler_gets_a_body_of_up_to_64_kib() {
        let endpoints = echo();
        for length in [0, 1, 64 * 1024] {
            let body = Bytes::from(vec![b'x'; length]);
            let answer = put(&endpoints, "/echo", Full::new(body.clone())).await;
            assert_eq!(answer, (200, None, None, body));
        }
        let body = Full::new(Bytes::from(vec![b'x'; 64 * 1024 + 1]));
        let (status, connection, _, text) = put(&endpoints, "/echo", body).await;
        assert_eq!((status, connection.as_deref()), (413, Some("close")));
        assert_eq!(text, "the request body exceeds 65536 bytes\n");
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_body_is_rejected() {
        let endpoints = echo();
        let first = || Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"5")));
        let slow = StreamBody::new(stream::iter([first()]).chain(stream::pending()));
        let (status, connection, _, _) = put(&endpoints, "/echo", slow).await;
        assert_eq!((status, connection.as_deref()), (408, Some("close")));
        let broken = StreamBody::new(stream::iter([first(), Err("reset".into())]));
        let (status, connection, _, _) = put(&endpoints, "/echo", broken).await;
        assert_eq!((status, connection.as_deref()), (400, Some("close")));
    }

    #[tokio::test]
    async fn other_method_returns_405_with_the_allowed_methods_and_no_body_is_read() {
        let endpoints = echo()
            .mount("/both", |_| std::future::ready(text(StatusCode::OK, "")))
            .mount_delete("/both", |_| std::future::ready(text(StatusCode::OK, "")));
        let body = || StreamBody::new(stream::pending::<Result<Frame<Bytes>, BoxError>>());
        let (status, connection, allow, _) = put(&endpoints, "/both", body()).await;
        assert_eq!((status, connection.as_deref()), (405, Some("close")));
        assert_eq!(allow.as_deref(), Some("GET, HEAD, DELETE"));
        let (status, _, allow, _) = put(&endpoints, "/metrics", body()).await;
        assert_eq!((status, allow.as_deref()), (405, Some("GET, HEAD")));
        assert_eq!(get(&endpoints, "/echo").await.0, StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn request_is_routed_to_the_longest_match() {
        let mut endpoints = endpoints();
        for path in ["/", "/debug/", "/debug/controllers/", "/debug/controllers/gc"] {
            endpoints = endpoints.mount(path, move |_| std::future::ready(text(StatusCode::OK, path)));
        }
        for (path, by) in [
            ("/", "/"),
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
        assert_eq!(get(&endpoints, "/other").await.0, StatusCode::NOT_FOUND);
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
