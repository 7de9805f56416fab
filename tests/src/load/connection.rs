//! The connection of the product to the API: counts requests, adds latency, and fails during an outage.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use steersman_sandbox::{ApiService, Env, ResponseBody};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

use super::memory::{Outside, outside};
use super::requests::Requests;

/// The time that the API takes to answer.
const LATENCY: Duration = Duration::from_millis(5);

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
    /// Cancelled when an outage begins: all open watches break.
    broken: CancellationToken,
}

impl Connection {
    pub(super) fn new(service: ApiService, env: Env, requests: Requests) -> Self {
        let state = State {
            outage: None,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn respond(self, parts: Parts, body: Bytes) -> io::Result<Response<ConnectionBody>> {
        outside(|| self.requests.count(&parts, self.env.instant()));
        self.env.sleep(LATENCY).await;
        let (outage, broken) = {
            let state = self.state();
            (state.outage, state.broken.clone())
        };
        match outage {
            Some(Outage::Unavailable) => return Ok(unavailable()),
            Some(Outage::Refused) => return Err(io::ErrorKind::ConnectionRefused.into()),
            None => {}
        }
        let mut service = self.service;
        let answer = Outside::new(|| service.call(copy_request(&parts, &body))).await;
        let Ok(answer) = answer;
        let (head, inner) = answer.into_parts();
        let mut response = Response::new(ConnectionBody {
            whole: None,
            inner: Some(inner),
            broken: Some(Box::pin(broken.cancelled_owned())),
        });
        *response.status_mut() = head.status;
        *response.headers_mut() = copy_headers(&head.headers);
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
    let mut response = Response::new(ConnectionBody {
        whole: Some(Bytes::from_static(status.as_bytes())),
        inner: None,
        broken: None,
    });
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// The body of a response to the product: a copy of the one of the API.
pub(super) struct ConnectionBody {
    whole: Option<Bytes>,
    inner: Option<ResponseBody>,
    broken: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl http_body::Body for ConnectionBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if let Some(whole) = this.whole.take() {
            return Poll::Ready(Some(Ok(Frame::data(whole))));
        }
        if let Some(broken) = &mut this.broken
            && broken.as_mut().poll(context).is_ready()
        {
            this.broken = None;
            outside(|| drop(this.inner.take()));
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
        }
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let frame = outside(|| Pin::new(inner).poll_frame(context));
        let Poll::Ready(frame) = frame else {
            return Poll::Pending;
        };
        let data = match frame {
            Some(Ok(frame)) => frame.into_data().ok(),
            None => None,
        };
        let copy = data.as_deref().map(Bytes::copy_from_slice);
        outside(|| drop(data));
        Poll::Ready(copy.map(|it| Ok(Frame::data(it))))
    }
}

impl Drop for ConnectionBody {
    fn drop(&mut self) {
        outside(|| drop(self.inner.take()));
    }
}
