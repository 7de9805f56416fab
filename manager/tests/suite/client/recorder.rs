//! A test double of an API server that records requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use tower_service::Service;

/// The response to a request.
pub enum CannedResponse {
    /// Status code, headers and body.
    Respond(u16, Vec<(&'static str, &'static str)>, String),
    /// Never responds.
    Hang,
    /// Breaks the connection.
    Break,
    /// Returns 200 and a body that never ends.
    Stall,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    pub method: String,
    pub uri: String,
    pub agent: String,
    pub accept: String,
    pub body: String,
}

/// Returns 200 and `{}` unless a response is queued.
#[derive(Clone, Default)]
pub struct RecordingServer {
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    answers: Arc<Mutex<VecDeque<CannedResponse>>>,
}

impl RecordingServer {
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Queues the response to the next request.
    pub fn answer(&self, answer: CannedResponse) {
        self.answers.lock().expect("no panic").push_back(answer);
    }

    pub fn status(&self, code: u16, reason: &str, more: &str) {
        let body = format!(
            r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"said the server","reason":"{reason}","code":{code}{more}}}"#
        );
        self.answer(CannedResponse::Respond(code, vec![], body));
    }
}

impl Service<Request<Body>> for RecordingServer {
    type Response = Response<UnsyncBoxBody<Bytes, std::io::Error>>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            let header = |name: &str| {
                let value = parts.headers.get(name).map(|v| v.to_str().expect("text"));
                value.unwrap_or_default().to_owned()
            };
            server.requests.lock().expect("no panic").push(RecordedRequest {
                method: parts.method.to_string(),
                uri: parts.uri.to_string(),
                agent: header("user-agent"),
                accept: header("accept"),
                body: String::from_utf8(body.to_vec()).expect("text"),
            });
            let answer = server.answers.lock().expect("no panic").pop_front();
            match answer.unwrap_or_else(|| CannedResponse::Respond(200, vec![], "{}".to_owned())) {
                CannedResponse::Hang => std::future::pending().await,
                CannedResponse::Break => Err(std::io::ErrorKind::ConnectionReset.into()),
                CannedResponse::Stall => {
                    let body = StreamBody::new(futures_util::stream::pending());
                    Ok(Response::new(body.boxed_unsync()))
                }
                CannedResponse::Respond(code, headers, body) => {
                    let mut response = Response::builder().status(code);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    let body = Full::from(body).map_err(|never| match never {});
                    Ok(response.body(body.boxed_unsync()).expect("a response"))
                }
            }
        })
    }
}
