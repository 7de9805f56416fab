//! A door that writes down what the collector asks for, and can break it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use coxswain_manager::env::Clock;
use coxswain_sandbox::{Door, Lag, ResponseBody};
use futures_util::future::BoxFuture;
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower_service::Service;

use crate::door::duplicate;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It is done and answered.
    Done,
    /// It is done, and the answer is lost.
    Lost,
    /// It is applied twice in a row; the answer to the second one arrives.
    Twice,
    /// It is done and answered, and applied once more before the next write.
    Repeated,
    /// It never arrives, and nobody says so.
    Broken,
    /// Nobody answers.
    Hangs,
    /// It is answered after this time.
    Slow(std::time::Duration),
    /// It is not done, and refused with this code after this time.
    LateRefusal(std::time::Duration, u16),
    /// It is refused with this code and status.
    Refused(u16, Value),
    /// It is answered with this code and text.
    Plain(u16, &'static str),
}

/// A request, as it was sent.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `DELETE configmaps`, `LIST pods`, `PATCH pods/status`, `DISCOVER /apis`.
    pub what: String,
    pub path: String,
    pub query: String,
    pub accept: String,
    pub content_type: String,
    pub body: Value,
    pub at: Instant,
    /// How many of that kind there were before.
    pub before: usize,
    /// By the collector; otherwise by what fills its caches.
    pub ours: bool,
}

type Judge = dyn Fn(&Asked) -> Answer + Send + Sync;

#[derive(Clone)]
pub struct Watched {
    door: Door,
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    /// The number of requests of each kind, by what was asked and whether the collector did.
    counts: BTreeMap<(String, bool), usize>,
    judge: Option<Arc<Judge>>,
    /// Leads elsewhere.
    other: Option<Door>,
    /// Discovery is answered in the plain form.
    plain: bool,
    /// A copy of a write, which is applied before the next one.
    repeated: Option<Request<Body>>,
}

impl Watched {
    pub fn new(door: Door, clock: &Clock) -> Self {
        Self {
            door,
            clock: clock.clone(),
            state: Arc::default(),
        }
    }

    /// What it shows of the store.
    pub fn lag(&self) -> &Lag {
        self.door.lag()
    }

    /// What the collector has sent, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.with(|it| it.asked.iter().filter(|it| it.ours).cloned().collect())
    }

    /// What it and its caches have sent, in order.
    pub fn all(&self) -> Vec<Asked> {
        self.with(|it| it.asked.clone())
    }

    /// What it has sent of one kind.
    pub fn of(&self, what: &str) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(|it| it.what == what);
        asked
    }

    /// How many requests of each kind it has sent.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for asked in self.asked() {
            *counts.entry(asked.what).or_default() += 1;
        }
        counts
    }

    pub fn count(&self, what: &str) -> usize {
        self.of(what).len()
    }

    pub fn writes(&self) -> usize {
        let reads = ["GET", "LIST", "WATCH"];
        let is_write = |it: &Asked| !reads.contains(&it.what.split(' ').next().unwrap_or_default());
        self.asked().into_iter().filter(is_write).count()
    }

    pub fn reset(&self) {
        self.with(|it| {
            it.asked.clear();
            it.counts.clear();
        });
    }

    /// From now on `judge` says what becomes of requests of the collector and of its caches.
    pub fn judge(&self, judge: impl Fn(&Asked) -> Answer + Send + Sync + 'static) {
        self.with(|it| it.judge = Some(Arc::new(judge)));
    }

    /// From now on the server does not know aggregated discovery.
    pub fn plain(&self) {
        self.with(|it| it.plain = true);
    }

    /// From now on it leads to another store.
    pub fn switch(&self, door: Door) {
        self.with(|it| it.other = Some(door));
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn see(&self, request: &Parts, body: &[u8]) -> Answer {
        let header = |name: &str| {
            let value = request.headers.get(name);
            value
                .and_then(|it| it.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let agent = header("user-agent");
        let ours = agent.ends_with("/generic-garbage-collector");
        let discovers = agent.ends_with("/discovery");
        if !ours && !discovers && !agent.ends_with("/reader") {
            return Answer::Done;
        }
        let path = request.uri.path().to_owned();
        let query = request.uri.query().unwrap_or_default().to_owned();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let depth = if parts[0] == "api" { 2 } else { 3 };
        let mut parts = if discovers { &[&*path] } else { &parts[depth..] };
        if parts[0] == "namespaces" && parts.len() > 2 {
            parts = &parts[2..];
        }
        let verb = match request.method {
            Method::GET if discovers => "DISCOVER",
            Method::GET if query.contains("watch=") => "WATCH",
            Method::GET if parts.len() == 1 => "LIST",
            ref method => method.as_str(),
        };
        let what = match parts {
            [plural, _, sub] => format!("{verb} {plural}/{sub}"),
            [plural, ..] => format!("{verb} {plural}"),
            [] => verb.to_owned(),
        };
        let (asked, judge) = self.with(|it| {
            let count = it.counts.entry((what.clone(), ours)).or_default();
            let before = *count;
            *count += 1;
            let asked = Asked {
                what: what.clone(),
                accept: header("accept"),
                content_type: header("content-type"),
                path,
                query,
                body: serde_json::from_slice(body).unwrap_or_default(),
                at: self.clock.now(),
                before,
                ours,
            };
            it.asked.push(asked.clone());
            (asked, it.judge.clone())
        });
        judge.map_or(Answer::Done, |judge| judge(&asked))
    }
}

impl Service<Request<Body>> for Watched {
    type Response = Response<ResponseBody>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            if this.with(|it| it.plain) && ["/api", "/apis"].contains(&parts.uri.path()) {
                let plain = HeaderValue::from_static("application/json");
                parts.headers.insert(ACCEPT, plain);
            }
            let body = body.collect().await?.to_bytes();
            let answer = this.see(&parts, &body);
            let request = Request::from_parts(parts, Body::from(body.to_vec()));
            let other = this.with(|it| it.other.clone());
            let door = &mut other.unwrap_or_else(|| this.door.clone());
            let repeated = (request.method() != Method::GET).then(|| this.with(|it| it.repeated.take()));
            if let Some(copy) = repeated.flatten() {
                drop(door.call(copy).await?);
            }
            let full = |code: u16, text: String| {
                let body = Full::new(Bytes::from(text)).boxed_unsync();
                Ok(Response::builder().status(code).body(body)?)
            };
            match answer {
                Answer::Done => Ok(door.call(request).await?),
                Answer::Slow(time) => {
                    let response = door.call(request).await?;
                    this.clock.sleep(time).await;
                    Ok(response)
                }
                Answer::Twice => {
                    let (copy, request) = duplicate(request).await?;
                    drop(door.call(copy).await?);
                    Ok(door.call(request).await?)
                }
                Answer::Repeated => {
                    let (copy, request) = duplicate(request).await?;
                    let response = door.call(request).await?;
                    this.with(|it| it.repeated = Some(copy));
                    Ok(response)
                }
                Answer::Lost => {
                    let response = door.call(request).await?;
                    drop(response.into_body().collect().await);
                    Err("the answer was lost".into())
                }
                Answer::Broken => Err("the connection broke".into()),
                Answer::Hangs => std::future::pending().await,
                Answer::LateRefusal(time, code) => {
                    this.clock.sleep(time).await;
                    full(
                        code,
                        json!({"kind": "Status", "apiVersion": "v1", "code": code}).to_string(),
                    )
                }
                Answer::Refused(code, more) => {
                    let mut status = json!({"kind": "Status", "apiVersion": "v1", "code": code});
                    for (key, value) in more.as_object().into_iter().flatten() {
                        status[key] = value.clone();
                    }
                    full(code, status.to_string())
                }
                Answer::Plain(code, text) => full(code, text.to_owned()),
            }
        })
    }
}
