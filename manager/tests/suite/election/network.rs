//! The network of one candidate: the sandbox's fault layer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::time::Instant;

use steersman_manager::env::{Clock, Rng};
use steersman_manager::sync::watch;
use steersman_sandbox::ApiService;
use steersman_sandbox::faults::{Effect, FaultService, Faults, Matcher, RecordedRequest, Refusal, WatchHold};

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
    /// Faults of requests.
    requests: Faults,
    /// Faults of watches and responses, of requests that have arrived.
    arrived: Faults,
    service: FaultService<FaultService<ApiService>>,
    link: Link,
    /// Of a suspended machine, and of silent watches.
    holds: Arc<Mutex<[Option<WatchHold>; 2]>>,
}

/// The state that the rules read.
#[derive(Clone)]
struct Link {
    /// True time.
    clock: Clock,
    rng: Rng,
    state: Arc<Mutex<State>>,
    /// False while the machine is suspended: no traffic.
    running: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    fault: NetworkFault,
    watch_fault: WatchFault,
    latency: Duration,
    response_delay: Duration,
    /// The time at which the last renewal that was not lost was sent.
    renewed: Option<Instant>,
}

impl Network {
    /// `on_write` is called when a PATCH, which only workers send, is sent.
    pub fn new(service: ApiService, clock: Clock, seed: u64, on_write: Arc<dyn Fn() + Send + Sync>) -> Self {
        let link = Link {
            clock,
            rng: Rng::from_seed(seed),
            state: Arc::default(),
            running: watch::Sender::new(true),
        };
        let (requests, arrived) = (Faults::new(), Faults::new());
        let sent = link.clone();
        requests.on(Matcher::any()).before(move |request| {
            if request.method == Method::PATCH {
                on_write();
            }
            let sent = sent.clone();
            async move { sent.transit().await }
        });
        let decided = link.clone();
        requests.on(Matcher::any()).decide(move |it| decided.fault(it));
        let decided = link.clone();
        arrived
            .on(Matcher::verb("watch"))
            .decide(move |_| decided.watch_fault());
        let decided = link.clone();
        let unversioned = Matcher::verb("watch").when(|it| it.parameter("resourceVersion").is_none());
        arrived.on(unversioned).decide(move |_| decided.unversioned());
        let answered = link.clone();
        arrived.on(Matcher::any()).around(move |request| {
            let link = answered.clone();
            async move {
                async move |_: u16| {
                    let delay = link.state().response_delay;
                    if !delay.is_zero() && request.verb != "watch" {
                        link.clock.sleep(delay).await;
                    }
                    link.transit().await;
                }
            }
        });
        Self {
            service: requests.wrap(arrived.wrap(service)),
            requests,
            arrived,
            link,
            holds: Arc::default(),
        }
    }

    pub fn service(&self) -> FaultService<FaultService<ApiService>> {
        self.service.clone()
    }

    pub fn set_fault(&self, fault: NetworkFault) {
        self.link.state().fault = fault;
    }

    pub fn set_watch_fault(&self, fault: WatchFault) {
        self.link.state().watch_fault = fault;
        if fault == WatchFault::Rejected {
            self.arrived.end_watches(&Matcher::any());
        }
        self.hold(0, fault == WatchFault::Silent);
    }

    pub fn run(&self, running: bool) {
        self.link.running.send_replace(running);
        self.hold(1, !running);
    }

    fn hold(&self, number: usize, is_held: bool) {
        let watches = is_held.then(|| self.arrived.hold_watches(Matcher::any()));
        self.holds.lock().expect("no panic")[number] = watches;
    }

    /// Sets the maximum latency of requests and responses.
    pub fn latency(&self, latency: Duration) {
        self.link.state().latency = latency;
    }

    /// Stops the progress of watches at `revision`.
    pub fn hold_at(&self, revision: u64) {
        self.service.inner().lag().hold_all_at(revision);
    }

    pub fn catch_up(&self) {
        self.service.inner().lag().release();
    }

    /// Delays responses in addition.
    pub fn response_delay(&self, delay: Duration) {
        self.link.state().response_delay = delay;
    }

    /// Returns the true time at which the last renewal that arrived was sent.
    pub fn renewed(&self) -> Instant {
        self.link.state().renewed.expect("a renewal")
    }

    /// Takes the number of requests by verb.
    pub fn take_counts(&self) -> BTreeMap<&'static str, u32> {
        let mut counts = BTreeMap::new();
        for request in self.requests.requests(&Matcher::any()) {
            let verb = match request.method {
                _ if request.verb == "watch" => "WATCH",
                Method::GET => "GET",
                Method::PUT => "PUT",
                Method::POST => "POST",
                Method::PATCH => "PATCH",
                _ => "other",
            };
            *counts.entry(verb).or_default() += 1;
        }
        self.requests.forget();
        counts
    }
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    async fn transit(&self) {
        let latency = self.state().latency;
        if !latency.is_zero() {
            self.clock.sleep(self.rng.between(Duration::ZERO, latency)).await;
        }
        let _ = self.running.subscribe().wait_for(|running| *running).await;
    }

    fn fault(&self, request: &RecordedRequest) -> Effect {
        let mut state = self.state();
        let is_lost = matches!(state.fault, NetworkFault::RequestLost | NetworkFault::Unavailable);
        if request.method == Method::PUT && !is_lost {
            state.renewed = Some(self.clock.now());
        }
        match state.fault {
            NetworkFault::Unavailable => Effect::Refuse(Refusal::new(503)),
            NetworkFault::RequestLost => Effect::Hang,
            _ if !request.is_write() => Effect::Pass,
            NetworkFault::Conflict => Effect::Refuse(Refusal::new(409)),
            NetworkFault::Discarded => unheld_lease(),
            NetworkFault::ResponseLost => Effect::HangAnswer,
            NetworkFault::Reset => Effect::LoseAnswer,
            NetworkFault::None => Effect::Pass,
        }
    }

    fn watch_fault(&self) -> Effect {
        match self.state().watch_fault {
            WatchFault::Rejected => Effect::LoseRequest,
            WatchFault::Expired => error_event(410, "too old resource version"),
            WatchFault::Malformed => Effect::reply(200, "{\"type\":7}\n"),
            WatchFault::None | WatchFault::Silent | WatchFault::Unversioned => Effect::All(Vec::new()),
        }
    }

    fn unversioned(&self) -> Effect {
        match self.state().watch_fault {
            WatchFault::Unversioned => error_event(500, "progress requests are not supported"),
            _ => Effect::All(Vec::new()),
        }
    }
}

/// Returns a watch with one ERROR event.
fn error_event(code: u16, message: &str) -> Effect {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
    Effect::reply(200, format!("{}\n", json!({"type": "ERROR", "object": status})))
}

fn unheld_lease() -> Effect {
    let lease = json!({"metadata": {"name": "steersman", "resourceVersion": "1"}, "spec": {}});
    Effect::reply(200, lease.to_string())
}
