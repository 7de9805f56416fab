//! The connection of the product to the API: counts requests, adds latency, and fails during an outage.
//!
//! Bodies arrive as from a Go server over TLS: `<`, `>` and `&` are escaped, with six bytes for one, and a poll gets a part only.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use steersman_sandbox::{ApiService, Env, ResponseBody};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

use super::memory::{Outside, outside};
use super::requests::Requests;

/// The time that the API takes to answer.
const LATENCY: Duration = Duration::from_millis(5);
/// The bytes of a frame: those of a TLS record.
const FRAME_BYTES: usize = 16 << 10;
/// The frames that arrive without a pause.
const FRAMES_AT_ONCE: usize = 32;

/// The failure of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// The API answers 503.
    Unavailable,
    /// Nothing accepts connections.
    Refused,
}

/// The connection of the product. Clones are the same one.
#[derive(Clone)]
pub(super) struct Connection {
    service: ApiService,
    env: Env,
    requests: Requests,
    state: Arc<Mutex<State>>,
}

struct State {
    outage: Option<Outage>,
    /// The time that [`FRAMES_AT_ONCE`] take.
    frames_take: Duration,
    /// Cancelled when an outage begins: all open watches break.
    broken: CancellationToken,
}

impl Connection {
    pub(super) fn new(service: ApiService, env: Env, requests: Requests) -> Self {
        let state = State {
            outage: None,
            frames_take: Duration::ZERO,
            broken: CancellationToken::new(),
        };
        Self {
            service,
            env,
            requests,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Begins an outage, or ends it.
    pub(super) fn set_outage(&self, outage: Option<Outage>) {
        let mut state = self.state();
        state.outage = outage;
        if outage.is_some() {
            std::mem::take(&mut state.broken).cancel();
        }
    }

    /// Limits the bandwidth of later responses, in bytes per second.
    pub(super) fn limit_bandwidth(&self, bytes: u64) {
        let at_once = (FRAME_BYTES * FRAMES_AT_ONCE) as u64;
        self.state().frames_take = Duration::from_millis(1000 * at_once / bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn respond(self, parts: Parts, body: Bytes) -> io::Result<Response<ConnectionBody>> {
        outside(|| self.requests.count(&parts, self.env.instant()));
        self.env.sleep(LATENCY).await;
        let (outage, broken, frames_take) = {
            let state = self.state();
            (state.outage, state.broken.clone(), state.frames_take)
        };
        match outage {
            Some(Outage::Unavailable) => return Ok(unavailable()),
            Some(Outage::Refused) => return Err(io::ErrorKind::ConnectionRefused.into()),
            None => {}
        }
        let mut service = self.service.clone();
        let answer = Outside::new(|| service.call(copy_request(&parts, &body))).await;
        let Ok(answer) = answer;
        let (head, inner) = answer.into_parts();
        let mut response = Response::new(ConnectionBody::Copied(Copied {
            inner: Some(inner),
            broken: Some(Box::pin(broken.cancelled_owned())),
            rest: Bytes::new(),
            arrived: 0,
            frames_take,
            env: self.env,
            pause: None,
        }));
        *response.status_mut() = head.status;
        *response.headers_mut() = copy_headers(&head.headers);
        // The escaped body is longer. A Go server sends a large one without its length.
        response.headers_mut().remove(CONTENT_LENGTH);
        outside(|| drop(head));
        Ok(response)
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<ConnectionBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<ConnectionBody>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            this.respond(parts, body).await
        })
    }
}

fn copy_request(parts: &Parts, body: &Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.to_string().parse().unwrap_or_default();
    *request.headers_mut() = copy_headers(&parts.headers);
    request
}

/// Copies headers with their content, which a clone would share.
fn copy_headers(headers: &HeaderMap) -> HeaderMap {
    let copy = |(name, value): (&HeaderName, &HeaderValue)| {
        let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    headers.iter().filter_map(copy).collect()
}

fn unavailable() -> Response<ConnectionBody> {
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}"#;
    let mut response = Response::new(ConnectionBody::Whole(Some(Bytes::from_static(status.as_bytes()))));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// The body of a response to the product: a copy of the one of the API.
pub(super) enum ConnectionBody {
    Whole(Option<Bytes>),
    Copied(Copied),
}

/// The copy of a body.
pub(super) struct Copied {
    inner: Option<ResponseBody>,
    broken: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// The rest of a frame of the API, escaped.
    rest: Bytes,
    /// The frames since the last pause.
    arrived: usize,
    frames_take: Duration,
    env: Env,
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Copied {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(broken) = &mut self.broken
            && broken.as_mut().poll(context).is_ready()
        {
            self.broken = None;
            outside(|| drop(self.inner.take()));
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
        }
        if let Some(pause) = &mut self.pause {
            if outside(|| pause.as_mut().poll(context)).is_pending() {
                return Poll::Pending;
            }
            outside(|| drop(self.pause.take()));
        }
        if self.rest.is_empty() {
            let Some(inner) = &mut self.inner else {
                return Poll::Ready(None);
            };
            let frame = outside(|| match Pin::new(inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => Poll::Ready(frame.into_data().ok().map(|it| escaped(&it))),
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            match frame {
                Poll::Ready(Some(data)) => self.rest = data,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.arrived += 1;
        if self.arrived == FRAMES_AT_ONCE {
            self.arrived = 0;
            let (env, time) = (self.env.clone(), self.frames_take);
            self.pause = Some(outside(|| -> Pin<Box<dyn Future<Output = ()> + Send>> {
                Box::pin(async move {
                    tokio::task::yield_now().await;
                    env.sleep(time).await;
                })
            }));
        }
        let part = outside(|| self.rest.split_to(self.rest.len().min(FRAME_BYTES)));
        let copy = Bytes::copy_from_slice(&part);
        outside(|| {
            drop(part);
            if self.rest.is_empty() {
                self.rest = Bytes::new();
            }
        });
        Poll::Ready(Some(Ok(Frame::data(copy))))
    }
}

impl http_body::Body for ConnectionBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take().map(|it| Ok(Frame::data(it)))),
            Self::Copied(body) => body.poll_frame(context),
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        outside(|| {
            drop((self.inner.take(), self.pause.take()));
            self.rest = Bytes::new();
        });
    }
}

/// Returns JSON as Go writes it.
fn escaped(json: &[u8]) -> Bytes {
    let mut escaped = Vec::with_capacity(json.len());
    for byte in json {
        match byte {
            b'<' => escaped.extend_from_slice(br"\u003c"),
            b'>' => escaped.extend_from_slice(br"\u003e"),
            b'&' => escaped.extend_from_slice(br"\u0026"),
            byte => escaped.push(*byte),
        }
    }
    escaped.into()
}
