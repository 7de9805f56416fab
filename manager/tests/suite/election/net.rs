//! The network of one candidate, and what can go wrong with it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use coxswain_manager::env::{Clock, Rng};
use coxswain_sandbox::{BoxError, Door, ResponseBody};

/// What becomes of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    #[default]
    None,
    /// The server is overloaded.
    Unavailable,
    /// Requests are lost on the way.
    RequestLost,
    /// Writes are done, and the answer is lost.
    AnswerLost,
    /// Writes are done, and the connection breaks before the answer.
    Reset,
    /// Writes are refused as overtaken, whatever they say.
    Conflict,
    /// Writes are not done, and answered as if they were, with the Lease as nobody holds it.
    Swallowed,
}

/// What becomes of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchTrouble {
    #[default]
    None,
    /// None can be opened, and those that are open end.
    Refused,
    /// They stay open, and nothing comes.
    Silent,
    /// A watch without a resourceVersion gets an ERROR event, as from a server whose etcd has no progress requests.
    Unversioned,
    /// Every watch gets an ERROR event that says that its version is too old.
    Expired,
    /// Every watch gets a line that is not an event.
    Malformed,
}

/// The wires between one candidate and the server. Clones are the same.
#[derive(Clone)]
pub struct Net {
    door: Door,
    /// True time.
    clock: Clock,
    rng: Rng,
    state: Arc<Mutex<State>>,
    /// While false, nothing comes or goes: the machine stands still.
    running: watch::Sender<bool>,
    watches: watch::Sender<WatchTrouble>,
    on_write: Arc<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    trouble: Trouble,
    latency: Duration,
    answer_delay: Duration,
    /// When the last replacement was sent that was not lost.
    renewed: Option<Instant>,
    counts: BTreeMap<&'static str, u32>,
}

impl Net {
    /// `on_write` is called when a patch, which only workers send, leaves the machine.
    pub fn new(door: Door, clock: Clock, seed: u64, on_write: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self {
            door,
            clock,
            rng: Rng::from_seed(seed),
            state: Arc::default(),
            running: watch::Sender::new(true),
            watches: watch::Sender::new(WatchTrouble::None),
            on_write,
        }
    }

    pub fn trouble(&self, trouble: Trouble) {
        self.state.lock().expect("no panic").trouble = trouble;
    }

    pub fn watches(&self, trouble: WatchTrouble) {
        self.watches.send_replace(trouble);
    }

    pub fn run(&self, running: bool) {
        self.running.send_replace(running);
    }

    /// Requests and answers take up to that long each.
    pub fn latency(&self, latency: Duration) {
        self.state.lock().expect("no panic").latency = latency;
    }

    /// The server behind it falls behind with its watches.
    pub fn hold_at(&self, revision: u64) {
        self.door.lag().hold_all_at(revision);
    }

    pub fn catch_up(&self) {
        self.door.lag().release();
    }

    /// Answers take that long on top.
    pub fn answer_delay(&self, delay: Duration) {
        self.state.lock().expect("no panic").answer_delay = delay;
    }

    /// When the last renewal was sent that arrived, in true time.
    pub fn renewed(&self) -> Instant {
        self.state
            .lock()
            .expect("no panic")
            .renewed
            .expect("there was one")
    }

    /// How many requests of each verb were sent since the last time.
    pub fn take_counts(&self) -> BTreeMap<&'static str, u32> {
        std::mem::take(&mut self.state.lock().expect("no panic").counts)
    }

    async fn way(&self) {
        let latency = self.state.lock().expect("no panic").latency;
        if !latency.is_zero() {
            self.clock.sleep(self.rng.between(Duration::ZERO, latency)).await;
        }
        let _ = self.running.subscribe().wait_for(|running| *running).await;
    }

    async fn send(mut self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        use tower_service::Service as _;
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        let is_write = request.method() != Method::GET;
        let trouble = {
            let mut state = self.state.lock().expect("no panic");
            let verb = match *request.method() {
                Method::GET if is_watch => "WATCH",
                Method::GET => "GET",
                Method::PUT => "PUT",
                Method::POST => "POST",
                Method::PATCH => "PATCH",
                _ => "other",
            };
            *state.counts.entry(verb).or_default() += 1;
            if verb == "PUT" && !matches!(state.trouble, Trouble::RequestLost | Trouble::Unavailable) {
                state.renewed = Some(self.clock.now());
            }
            state.trouble
        };
        if request.method() == Method::PATCH {
            (self.on_write)();
        }
        self.way().await;
        let lost = || Err("the connection was reset".into());
        match trouble {
            Trouble::Unavailable => return Ok(status(503, "ServiceUnavailable")),
            Trouble::RequestLost => return std::future::pending().await,
            Trouble::Conflict if is_write => return Ok(status(409, "Conflict")),
            Trouble::Swallowed if is_write => return Ok(nobody_s()),
            _ => {}
        }
        if is_watch {
            let is_versioned = request
                .uri()
                .query()
                .unwrap_or_default()
                .contains("&resourceVersion=");
            let trouble = *self.watches.borrow();
            match trouble {
                WatchTrouble::Refused => return lost(),
                WatchTrouble::Unversioned if !is_versioned => {
                    return Ok(error_event(500, "progress requests are not supported"));
                }
                WatchTrouble::Expired => return Ok(error_event(410, "too old resource version")),
                WatchTrouble::Malformed => return Ok(body("{\"type\":7}\n".to_owned())),
                _ => {}
            }
        }
        let response = self.door.call(request).await?;
        let delay = self.state.lock().expect("no panic").answer_delay;
        if !delay.is_zero() && !is_watch {
            self.clock.sleep(delay).await;
        }
        self.way().await;
        match trouble {
            Trouble::AnswerLost if is_write => std::future::pending().await,
            Trouble::Reset if is_write => lost(),
            _ if is_watch => Ok(self.guard(response)),
            _ => Ok(response),
        }
    }

    /// A watch that stops when the machine does, and when watches are in trouble.
    fn guard(&self, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let (parts, body) = response.into_parts();
        let (running, watches) = (self.running.subscribe(), self.watches.subscribe());
        let frames = stream::unfold(
            (body, running, watches),
            |(mut body, mut running, mut watches)| async move {
                let frame = tokio::select! {
                    biased;
                    _ = watches.wait_for(|trouble| *trouble == WatchTrouble::Refused) => None,
                    frame = async {
                        let frame = body.frame().await;
                        let _ = running.wait_for(|running| *running).await;
                        frame
                    } => frame,
                };
                while *watches.borrow() == WatchTrouble::Silent {
                    watches.changed().await.ok()?;
                }
                Some((frame?, (body, running, watches)))
            },
        );
        Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
    }
}

/// A watch that ends with one ERROR event.
fn error_event(code: u16, message: &str) -> Response<ResponseBody> {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
    body(format!("{}\n", json!({"type": "ERROR", "object": status})))
}

fn body(text: String) -> Response<ResponseBody> {
    let body: UnsyncBoxBody<Bytes, _> = Full::new(text.into()).boxed_unsync();
    Response::new(body)
}

fn nobody_s() -> Response<ResponseBody> {
    let body = json!({"metadata": {"name": "coxswain", "resourceVersion": "1"}, "spec": {}}).to_string();
    let body: UnsyncBoxBody<Bytes, _> = Full::new(body.into()).boxed_unsync();
    Response::new(body)
}

fn status(code: u16, reason: &str) -> Response<ResponseBody> {
    let body = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason}).to_string();
    let body: UnsyncBoxBody<Bytes, _> = Full::new(body.into()).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
    response
}

impl tower_service::Service<Request<Body>> for Net {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}
