//! An API server that goes wrong when told: the sandbox behind a service that answers, hangs, cuts and silences.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use coxswain_sandbox::{BoxError, Door};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use tokio::sync::{broadcast, watch};
use tower_service::Service;

/// What a client sees of the API. Clones are the same server.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    door: Mutex<Door>,
    /// The first one that has something to say about a request decides.
    rules: Mutex<Vec<Rule>>,
    log: Mutex<Vec<Ask>>,
    /// What has become of the streams that were opened before.
    streams: watch::Sender<(u64, Fate)>,
    lines: broadcast::Sender<String>,
}

type Rule = Box<dyn FnMut(&Ask) -> Option<Act> + Send>;

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
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

/// What is done instead of answering.
pub enum Act {
    /// Answers with this code and body; with Retry-After if it is not 0.
    Answer(u16, String, u64),
    /// Never answers.
    Hang,
    /// The connection fails.
    Refuse,
    /// Answers with what is made of the true answer.
    Rewrite(fn(&str) -> String),
    /// Answers as it should, after something else has happened.
    First(BoxFuture<'static, ()>),
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ends as it should.
    End,
    /// The connection is lost.
    Drop,
    /// Nothing comes any more, and no end.
    Silence,
}

impl Ask {
    pub fn param(&self, name: &str) -> Option<&str> {
        let pair = self.query.iter().find(|(key, _)| key == name)?;
        Some(&pair.1)
    }

    /// Whether a server that has no metadata-only form can answer it.
    pub fn accepts_json(&self) -> bool {
        let media_types = self.accept.split(',');
        let parameters_aside = |it: &str| it.trim().trim_end_matches(";q=0.9") == "application/json";
        media_types.into_iter().any(parameters_aside)
    }

    /// Whether it only asks how far the store is.
    pub fn is_probe(&self) -> bool {
        self.verb == Verb::List && self.param("limit") == Some("1")
    }
}

/// A `Status` with this code and reason.
pub fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","code":{code},"reason":"{reason}","message":"for the test"}}"#
    )
}

impl Server {
    pub fn new(door: Door) -> Self {
        Self(Arc::new(Inner {
            door: Mutex::new(door),
            rules: Mutex::default(),
            log: Mutex::default(),
            streams: watch::Sender::new((0, Fate::End)),
            lines: broadcast::Sender::new(64),
        }))
    }

    /// Does to requests what `rule` says, until [`Server::heal`].
    pub fn rule(&self, rule: impl FnMut(&Ask) -> Option<Act> + Send + 'static) {
        lock(&self.0.rules).push(Box::new(rule));
    }

    /// Does this to the next `times` requests of a verb.
    pub fn next(&self, verb: Verb, mut times: usize, act: impl Fn() -> Act + Send + 'static) {
        self.rule(move |ask| {
            if ask.verb != verb || times == 0 {
                return None;
            }
            times -= 1;
            Some(act())
        });
    }

    pub fn heal(&self) {
        lock(&self.0.rules).clear();
    }

    /// All streams that are open meet this fate.
    pub fn streams(&self, fate: Fate) {
        self.0.streams.send_modify(|(generation, it)| {
            *generation += 1;
            *it = fate;
        });
    }

    /// A line appears in all streams that are open.
    pub fn inject(&self, line: &str) {
        // Nobody may be listening.
        let _ = self.0.lines.send(format!("{line}\n"));
    }

    /// From now on, another server answers.
    pub fn switch(&self, door: Door) {
        *lock(&self.0.door) = door;
    }

    /// The requests so far.
    pub fn log(&self) -> Vec<Ask> {
        lock(&self.0.log).clone()
    }

    /// The forms that were asked for.
    pub fn accepts(&self) -> Vec<String> {
        self.log().into_iter().map(|ask| ask.accept).collect()
    }

    /// How many requests there were of a verb, not counting those that only ask how far the store is.
    pub fn count(&self, verb: Verb) -> usize {
        let asks = self.log();
        asks.iter()
            .filter(|ask| ask.verb == verb && !ask.is_probe())
            .count()
    }

    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        let ask = ask(&request);
        lock(&self.0.log).push(ask.clone());
        let act = lock(&self.0.rules).iter_mut().find_map(|rule| rule(&ask));
        let mut rewrite: fn(&str) -> String = str::to_owned;
        match act {
            None => {}
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::First(first)) => first.await,
            Some(Act::Refuse) => return Err("connection refused".into()),
            Some(Act::Answer(code, body, retry_after)) => {
                let mut response = Response::builder().status(StatusCode::from_u16(code)?);
                if retry_after > 0 {
                    response = response.header("retry-after", retry_after);
                }
                return Ok(response.body(whole(body))?);
            }
            Some(Act::Rewrite(it)) => rewrite = it,
        }
        let mut door = lock(&self.0.door).clone();
        let (parts, body) = door.call(request).await?.into_parts();
        if ask.verb == Verb::Watch && parts.status.is_success() {
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
                    let (generation, fate) = *streams.borrow_and_update();
                    match fate {
                        _ if generation == born => {}
                        Fate::End => return None,
                        Fate::Drop => {
                            let error: BoxError = "connection reset".into();
                            return Some((Err(error), (body, streams, lines, true)));
                        }
                        Fate::Silence => {
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

fn ask(request: &Request<Body>) -> Ask {
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
    Ask {
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
