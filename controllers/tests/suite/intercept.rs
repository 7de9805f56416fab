//! Interceptors between a client under test and the sandbox.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use coxswain_manager::client::Transport;
use coxswain_manager::env::Clock;
use coxswain_sandbox::ResponseBody;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};
use tower_service::Service;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Reply = Result<Response<ResponseBody>, BoxError>;

pub trait Intercept: Clone + Send + 'static {
    fn handle(self, request: Request<Body>) -> impl Future<Output = Reply> + Send;
}

/// Returns a transport whose requests pass through an interceptor.
pub fn transport(interceptor: impl Intercept, clock: &Clock, registry: &Registry) -> Transport {
    let transport = Transport::from_service(Intercepted(interceptor), "sandbox", "test", clock, registry);
    transport.expect("unregistered metrics")
}

struct Intercepted<T>(T);

impl<T: Intercept> Service<Request<Body>> for Intercepted<T> {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Reply>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.clone().handle(request))
    }
}

pub fn respond(code: u16, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).boxed_unsync();
    Ok(Response::builder().status(code).body(body)?)
}

/// Responds with a Status that has the fields of `more`.
pub fn respond_status(code: u16, more: &Value) -> Reply {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "code": code});
    for (key, value) in more.as_object().into_iter().flatten() {
        status[key] = value.clone();
    }
    respond(code, status.to_string())
}

/// A response body that is pending while `stalled` returns true, without an error and without an end.
pub struct StallingBody<F> {
    pub body: ResponseBody,
    pub stalled: F,
}

impl<F: Fn() -> bool + Unpin> http_body::Body for StallingBody<F> {
    type Data = Bytes;
    type Error = <ResponseBody as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if (self.stalled)() {
            return Poll::Pending;
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}
