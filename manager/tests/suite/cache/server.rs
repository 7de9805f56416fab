//! A fault injector: a service in front of the sandbox.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use coxswain_sandbox::{ApiService, BoxError};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use tokio::sync::{broadcast, watch};
use tower_service::Service;

/// A sandbox behind injected faults. Clones share it.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    service: Mutex<ApiService>,
    /// The first fault that matches a request applies.
    rules: Mutex<Vec<Rule>>,
    log: Mutex<Vec<RecordedRequest>>,
    /// The fault of the streams that were open at that generation.
    streams: watch::Sender<(u64, StreamFault)>,
    lines: broadcast::Sender<String>,
}

type Rule = Box<dyn FnMut(&RecordedRequest) -> Option<Fault> + Send>;

/// A recorded request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub verb: Verb,
    pub path: String,
    query: Vec<(String, String)>,
    accept: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    List,
    Watch,
    Other,
}

/// The fault of a request.
pub enum Fault {
    /// Returns this code and body, and Retry-After if it is not 0.
    Answer(u16, String, u64),
    /// Never responds.
    Hang,
    /// The connection fails.
    Refuse,
    /// Rewrites the response.
    Rewrite(fn(&str) -> String),
    /// Responds without a fault, after this future.
    First(BoxFuture<'static, ()>),
}

/// The fault of a watch stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The stream ends in order.
    End,
    /// The connection breaks.
    Drop,
    /// The stream stays open without data.
    Silence,
}

impl RecordedRequest {
    pub fn param(&self, name: &str) -> Option<&str> {
        let pair = self.query.iter().find(|(key, _)| key == name)?;
        Some(&pair.1)
    }

    /// Returns true if a server without `PartialObjectMetadata` can respond.
    pub fn accepts_json(&self) -> bool {
        let media_types = self.accept.split(',');
        let parameters_aside = |it: &str| it.trim().trim_end_matches(";q=0.9") == "application/json";
        media_types.into_iter().any(parameters_aside)
    }

    /// Returns true if the request only reads the current version.
    pub fn is_probe(&self) -> bool {
        self.verb == Verb::List && self.param("limit") == Some("1")
    }
}

/// Returns a `Status` with this code and reason.
pub fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","code":{code},"reason":"{reason}","message":"for the test"}}"#
    )
}

impl Server {
    pub fn new(service: ApiService) -> Self {
        Self(Arc::new(Inner {
            service: Mutex::new(service),
            rules: Mutex::default(),
            log: Mutex::default(),
            streams: watch::Sender::new((0, StreamFault::End)),
            lines: broadcast::Sender::new(64),
        }))
    }

    /// Applies `rule` to requests until [`Server::heal`].
    pub fn inject_fault(&self, rule: impl FnMut(&RecordedRequest) -> Option<Fault> + Send + 'static) {
        lock(&self.0.rules).push(Box::new(rule));
    }

    /// Injects a fault into the next `times` requests of a verb.
    pub fn next(&self, verb: Verb, mut times: usize, fault: impl Fn() -> Fault + Send + 'static) {
        self.inject_fault(move |recorded| {
            if recorded.verb != verb || times == 0 {
                return None;
            }
            times -= 1;
            Some(fault())
        });
    }

    pub fn heal(&self) {
        lock(&self.0.rules).clear();
    }

    /// Injects a fault into all open streams.
    pub fn streams(&self, fault: StreamFault) {
        self.0.streams.send_modify(|(generation, it)| {
            *generation += 1;
            *it = fault;
        });
    }

    /// Sends a line on all open streams.
    pub fn inject(&self, line: &str) {
        // There may be no stream.
        let _ = self.0.lines.send(format!("{line}\n"));
    }

    /// Replaces the server behind the faults.
    pub fn switch(&self, service: ApiService) {
        *lock(&self.0.service) = service;
    }

    pub fn log(&self) -> Vec<RecordedRequest> {
        lock(&self.0.log).clone()
    }

    /// Returns the Accept headers.
    pub fn accepts(&self) -> Vec<String> {
        self.log().into_iter().map(|recorded| recorded.accept).collect()
    }

    /// Returns the number of requests of a verb, without probes of the version.
    pub fn count(&self, verb: Verb) -> usize {
        let requests = self.log();
        requests
            .iter()
            .filter(|recorded| recorded.verb == verb && !recorded.is_probe())
            .count()
    }

    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        let recorded = record(&request);
        lock(&self.0.log).push(recorded.clone());
        let fault = lock(&self.0.rules).iter_mut().find_map(|rule| rule(&recorded));
        let mut rewrite: fn(&str) -> String = str::to_owned;
        match fault {
            None => {}
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::First(first)) => first.await,
            Some(Fault::Refuse) => return Err("connection refused".into()),
            Some(Fault::Answer(code, body, retry_after)) => {
                let mut response = Response::builder().status(StatusCode::from_u16(code)?);
                if retry_after > 0 {
                    response = response.header("retry-after", retry_after);
                }
                return Ok(response.body(whole(body))?);
            }
            Some(Fault::Rewrite(it)) => rewrite = it,
        }
        let mut service = lock(&self.0.service).clone();
        let (parts, body) = service.call(request).await?.into_parts();
        if recorded.verb == Verb::Watch && parts.status.is_success() {
            return Ok(Response::from_parts(parts, self.stream(body)));
        }
        let text = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
        Ok(Response::from_parts(parts, whole(rewrite(&text))))
    }

    fn stream(&self, body: coxswain_sandbox::ResponseBody) -> UnsyncBoxBody<Bytes, BoxError> {
        let streams = self.0.streams.subscribe();
        let born = streams.borrow().0;
        let lines = self.0.lines.subscribe();
        let frames = stream::unfold(
            (body, streams, lines, false),
            move |(mut body, mut streams, mut lines, ended)| async move {
                if ended {
                    return None;
                }
                loop {
                    let (generation, fault) = *streams.borrow_and_update();
                    match fault {
                        _ if generation == born => {}
                        StreamFault::End => return None,
                        StreamFault::Drop => {
                            let error: BoxError = "connection reset".into();
                            return Some((Err(error), (body, streams, lines, true)));
                        }
                        StreamFault::Silence => {
                            streams.changed().await.ok()?;
                            continue;
                        }
                    }
                    let frame = tokio::select! {
                        biased;
                        _ = streams.changed() => continue,
                        line = lines.recv() => Frame::data(Bytes::from(line.ok()?)),
                        frame = body.frame() => frame?.ok()?,
                    };
                    return Some((Ok(frame), (body, streams, lines, false)));
                }
            },
        );
        StreamBody::new(frames).boxed_unsync()
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

fn record(request: &Request<Body>) -> RecordedRequest {
    let query = request.uri().query().unwrap_or_default();
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let is_get = request.method() == http::Method::GET;
    let verb = match query.iter().any(|(key, _)| key == "watch") {
        true if is_get => Verb::Watch,
        false if is_get => Verb::List,
        _ => Verb::Other,
    };
    let accept = request
        .headers()
        .get("accept")
        .and_then(|value| value.to_str().ok());
    RecordedRequest {
        verb,
        path: request.uri().path().to_owned(),
        query,
        accept: accept.unwrap_or_default().to_owned(),
    }
}

fn whole(body: String) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(Bytes::from(body))
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
