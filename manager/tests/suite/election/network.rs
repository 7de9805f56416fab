//! The network of one candidate, with fault injection.

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
use coxswain_sandbox::{ApiService, BoxError, ResponseBody};

/// A fault of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkFault {
    #[default]
    None,
    /// The API server is overloaded.
    Unavailable,
    /// Requests are lost.
    RequestLost,
    /// Writes are executed, and their responses are lost.
    ResponseLost,
    /// Writes are executed, and the connection is reset before the response.
    Reset,
    /// Writes fail with 409.
    Conflict,
    /// Writes are discarded, and a Lease without a holder is returned.
    Discarded,
}

/// A fault of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchFault {
    #[default]
    None,
    /// No watch can be opened, and open ones end.
    Rejected,
    /// Watches stay open without events.
    Silent,
    /// A watch without a resourceVersion gets an ERROR event, as from an API server whose etcd has no progress requests.
    Unversioned,
    /// Every watch gets an ERROR event: too old resource version.
    Expired,
    /// Every watch gets a malformed line.
    Malformed,
}

/// The connection of one candidate to the API server. Clones share the state.
#[derive(Clone)]
pub struct Network {
    service: ApiService,
    /// True time.
    clock: Clock,
    rng: Rng,
    state: Arc<Mutex<State>>,
    /// False while the machine is suspended: no traffic.
    running: watch::Sender<bool>,
    watches: watch::Sender<WatchFault>,
    on_write: Arc<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    fault: NetworkFault,
    latency: Duration,
    response_delay: Duration,
    /// The time at which the last renewal that was not lost was sent.
    renewed: Option<Instant>,
    counts: BTreeMap<&'static str, u32>,
}

impl Network {
    /// `on_write` is called when a PATCH, which only workers send, is sent.
    pub fn new(service: ApiService, clock: Clock, seed: u64, on_write: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self {
            service,
            clock,
            rng: Rng::from_seed(seed),
            state: Arc::default(),
            running: watch::Sender::new(true),
            watches: watch::Sender::new(WatchFault::None),
            on_write,
        }
    }

    pub fn set_fault(&self, fault: NetworkFault) {
        self.state.lock().expect("no panic").fault = fault;
    }

    pub fn set_watch_fault(&self, fault: WatchFault) {
        self.watches.send_replace(fault);
    }

    pub fn run(&self, running: bool) {
        self.running.send_replace(running);
    }

    /// Sets the maximum latency of requests and responses.
    pub fn latency(&self, latency: Duration) {
        self.state.lock().expect("no panic").latency = latency;
    }

    /// Stops the progress of watches at `revision`.
    pub fn hold_at(&self, revision: u64) {
        self.service.lag().hold_all_at(revision);
    }

    pub fn catch_up(&self) {
        self.service.lag().release();
    }

    /// Delays responses in addition.
    pub fn response_delay(&self, delay: Duration) {
        self.state.lock().expect("no panic").response_delay = delay;
    }

    /// Returns the true time at which the last renewal that arrived was sent.
    pub fn renewed(&self) -> Instant {
        self.state.lock().expect("no panic").renewed.expect("a renewal")
    }

    /// Takes the number of requests by verb.
    pub fn take_counts(&self) -> BTreeMap<&'static str, u32> {
        std::mem::take(&mut self.state.lock().expect("no panic").counts)
    }

    async fn transit(&self) {
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
        let fault = {
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
            if verb == "PUT" && !matches!(state.fault, NetworkFault::RequestLost | NetworkFault::Unavailable)
            {
                state.renewed = Some(self.clock.now());
            }
            state.fault
        };
        if request.method() == Method::PATCH {
            (self.on_write)();
        }
        self.transit().await;
        let lost = || Err("connection reset".into());
        match fault {
            NetworkFault::Unavailable => return Ok(status(503, "ServiceUnavailable")),
            NetworkFault::RequestLost => return std::future::pending().await,
            NetworkFault::Conflict if is_write => return Ok(status(409, "Conflict")),
            NetworkFault::Discarded if is_write => return Ok(unheld_lease()),
            _ => {}
        }
        if is_watch {
            let is_versioned = request
                .uri()
                .query()
                .unwrap_or_default()
                .contains("&resourceVersion=");
            let fault = *self.watches.borrow();
            match fault {
                WatchFault::Rejected => return lost(),
                WatchFault::Unversioned if !is_versioned => {
                    return Ok(error_event(500, "progress requests are not supported"));
                }
                WatchFault::Expired => return Ok(error_event(410, "too old resource version")),
                WatchFault::Malformed => return Ok(body("{\"type\":7}\n".to_owned())),
                _ => {}
            }
        }
        let response = self.service.call(request).await?;
        let delay = self.state.lock().expect("no panic").response_delay;
        if !delay.is_zero() && !is_watch {
            self.clock.sleep(delay).await;
        }
        self.transit().await;
        match fault {
            NetworkFault::ResponseLost if is_write => std::future::pending().await,
            NetworkFault::Reset if is_write => lost(),
            _ if is_watch => Ok(self.guard(response)),
            _ => Ok(response),
        }
    }

    /// Wraps a watch, so that it stops with the machine and with a watch fault.
    fn guard(&self, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let (parts, body) = response.into_parts();
        let (running, watches) = (self.running.subscribe(), self.watches.subscribe());
        let frames = stream::unfold(
            (body, running, watches),
            |(mut body, mut running, mut watches)| async move {
                let frame = tokio::select! {
                    biased;
                    _ = watches.wait_for(|fault| *fault == WatchFault::Rejected) => None,
                    frame = async {
                        let frame = body.frame().await;
                        let _ = running.wait_for(|running| *running).await;
                        frame
                    } => frame,
                };
                while *watches.borrow() == WatchFault::Silent {
                    watches.changed().await.ok()?;
                }
                Some((frame?, (body, running, watches)))
            },
        );
        Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
    }
}

/// Returns a watch with one ERROR event.
fn error_event(code: u16, message: &str) -> Response<ResponseBody> {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
    body(format!("{}\n", json!({"type": "ERROR", "object": status})))
}

fn body(text: String) -> Response<ResponseBody> {
    let body: UnsyncBoxBody<Bytes, _> = Full::new(text.into()).boxed_unsync();
    Response::new(body)
}

fn unheld_lease() -> Response<ResponseBody> {
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

impl tower_service::Service<Request<Body>> for Network {
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
