//! A stand-in for an API server: it notes what it is asked, and answers as it was told to.

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

/// How a request is answered.
pub enum Answer {
    /// With this code, headers and body.
    With(u16, Vec<(&'static str, &'static str)>, String),
    /// Never.
    Hang,
    /// By a broken connection.
    Break,
    /// With 200 and a body that never ends.
    Stall,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub method: String,
    pub uri: String,
    pub agent: String,
    pub accept: String,
    pub body: String,
}

/// Answers `{}` with 200, unless told otherwise.
#[derive(Clone, Default)]
pub struct Spy {
    asked: Arc<Mutex<Vec<Asked>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Spy {
    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// The answer to the next request that has none yet.
    pub fn answer(&self, answer: Answer) {
        self.answers.lock().expect("no panic").push_back(answer);
    }

    pub fn status(&self, code: u16, reason: &str, more: &str) {
        let body = format!(
            r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"said the server","reason":"{reason}","code":{code}{more}}}"#
        );
        self.answer(Answer::With(code, vec![], body));
    }
}

impl Service<Request<Body>> for Spy {
    type Response = Response<UnsyncBoxBody<Bytes, std::io::Error>>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let spy = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            let header = |name: &str| {
                let value = parts.headers.get(name).map(|v| v.to_str().expect("text"));
                value.unwrap_or_default().to_owned()
            };
            spy.asked.lock().expect("no panic").push(Asked {
                method: parts.method.to_string(),
                uri: parts.uri.to_string(),
                agent: header("user-agent"),
                accept: header("accept"),
                body: String::from_utf8(body.to_vec()).expect("text"),
            });
            let answer = spy.answers.lock().expect("no panic").pop_front();
            match answer.unwrap_or_else(|| Answer::With(200, vec![], "{}".to_owned())) {
                Answer::Hang => std::future::pending().await,
                Answer::Break => Err(std::io::ErrorKind::ConnectionReset.into()),
                Answer::Stall => {
                    let body = StreamBody::new(futures_util::stream::pending());
                    Ok(Response::new(body.boxed_unsync()))
                }
                Answer::With(code, headers, body) => {
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
