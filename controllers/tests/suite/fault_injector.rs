//! The sandbox's fault layer in front of the controller under test. The requests of the controller, of its caches and of
//! discovery are recorded by operation, and a function chooses their faults. A second layer behind the faults observes the
//! requests that are executed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Response};
use serde_json::{Value, json};
use steersman_manager::client::Transport;
use steersman_manager::env::Clock;
use steersman_manager::metrics::Registry;
use steersman_sandbox::faults::{Effect, FaultService, Faults, Matcher, RecordedRequest, WatchHold};
use steersman_sandbox::{ApiService, Lag};
use tokio::time::Instant;
use tower_service::Service as _;

/// User agents of the controllers under test.
const CONTROLLERS: [&str; 2] = ["/controller", "/generic-garbage-collector"];

/// The server drops a delayed request after this time.
const DELAY_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Recorded {
    /// Verb and resource: `DELETE configmaps`, `LIST pods`, `PATCH pods/status`, `DISCOVER /apis`.
    pub operation: String,
    pub method: Method,
    pub path: String,
    pub query: String,
    pub accept: String,
    pub content_type: String,
    /// Null without a JSON body.
    pub body: Value,
    pub at: Instant,
    /// Number of earlier requests with the same operation and sender.
    pub before: usize,
    /// Sent by the controller; otherwise by its caches or discovery.
    pub by_controller: bool,
}

type Decide = dyn Fn(&Recorded) -> Effect + Send + Sync;

#[derive(Clone)]
pub struct FaultInjector {
    faults: Faults,
    executed: Faults,
    service: FaultService<FaultService<ApiService>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    recorded: Vec<Recorded>,
    /// Number of requests by operation and `by_controller`.
    counts: BTreeMap<(String, bool), usize>,
    decide: Option<Arc<Decide>>,
    /// Requests of the controller that contain this text are rejected with this code and Status.
    reject: Option<(String, u16, Value)>,
    rejection_latency: Option<Duration>,
    delayed: Option<Arc<RecordedRequest>>,
    replayed: Option<Arc<RecordedRequest>>,
    replacement: Option<(String, String)>,
    stalled: Option<WatchHold>,
}

/// An answer with this code: a Status that has the fields of `more`. The request is not executed.
pub fn status_reply(code: u16, more: Value) -> Effect {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "code": code});
    if let Value::Object(fields) = more {
        for (field, value) in fields {
            status[field] = value;
        }
    }
    Effect::reply(code, status.to_string())
}

/// An answer with this code and text, without a content type. The request is not executed.
pub fn text_reply(code: u16, text: &'static str) -> Effect {
    let mut response = Response::new(text.into());
    *response.status_mut() = code.try_into().expect("a code");
    Effect::Reply(response)
}

impl FaultInjector {
    pub fn new(service: ApiService) -> Self {
        let (faults, executed) = (Faults::new(), Faults::new());
        let this = Self {
            service: faults.wrap(executed.wrap(service)),
            faults,
            executed,
            state: Arc::default(),
        };
        this.add_rules();
        this
    }

    fn add_rules(&self) {
        let (state, service) = (self.state.clone(), self.service.inner().clone());
        self.faults.on(Matcher::writes()).before(move |request| {
            let (state, mut service) = (state.clone(), service.clone());
            async move {
                for late in take_late(&state, &request) {
                    drop(service.call(late.to_request()).await);
                }
            }
        });
        let state = self.state.clone();
        self.faults
            .on(Matcher::any().user_agent("/reader"))
            .change_answer(move |value| {
                if let Some((stored, read)) = lock(&state).replacement.clone() {
                    let text = value.to_string().replace(&stored, &read);
                    *value = serde_json::from_str(&text).expect("JSON");
                }
            });
        let state = self.state.clone();
        self.faults
            .on(Matcher::any())
            .decide(move |request| decide(&state, request));
    }

    /// Returns a transport whose requests pass the faults.
    pub fn transport(&self, clock: &Clock) -> Transport {
        let (service, registry) = (self.service.clone(), Registry::new("steersman"));
        Transport::from_service(service, "sandbox", "test", clock, &registry).expect("unregistered metrics")
    }

    /// Returns the layer that observes the requests that are executed.
    pub fn executed(&self) -> &Faults {
        &self.executed
    }

    pub fn lag(&self) -> &Lag {
        self.service.inner().lag()
    }

    /// Returns the requests of the controller.
    pub fn recorded(&self) -> Vec<Recorded> {
        let mut recorded = self.all_recorded();
        recorded.retain(|it| it.by_controller);
        recorded
    }

    /// Returns the requests of the controller, its caches and discovery.
    pub fn all_recorded(&self) -> Vec<Recorded> {
        lock(&self.state).recorded.clone()
    }

    pub fn recorded_of(&self, operation: &str) -> Vec<Recorded> {
        let mut recorded = self.recorded();
        recorded.retain(|it| it.operation == operation);
        recorded
    }

    pub fn operations(&self) -> Vec<String> {
        self.recorded().into_iter().map(|it| it.operation).collect()
    }

    /// Returns the number of requests of the controller by operation.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for operation in self.operations() {
            *counts.entry(operation).or_default() += 1;
        }
        counts
    }

    pub fn count(&self, operation: &str) -> usize {
        self.recorded_of(operation).len()
    }

    pub fn times(&self, operation: &str) -> Vec<Instant> {
        self.recorded_of(operation).iter().map(|it| it.at).collect()
    }

    /// Returns the JSON bodies of an operation's requests.
    pub fn bodies(&self, operation: &str) -> Vec<Value> {
        let bodies = self.recorded_of(operation).into_iter().map(|it| it.body);
        bodies.filter(|it| !it.is_null()).collect()
    }

    pub fn writes(&self) -> usize {
        let recorded = self.recorded();
        recorded.iter().filter(|it| it.method != Method::GET).count()
    }

    /// Forgets the recorded requests.
    pub fn reset(&self) {
        let mut state = lock(&self.state);
        state.recorded.clear();
        state.counts.clear();
    }

    /// Chooses the faults of the controller's requests by method, path and number of earlier requests of the same operation.
    pub fn inject(&self, decide: impl Fn(&Method, &str, usize) -> Effect + Send + Sync + 'static) {
        self.inject_all(move |it| {
            if it.by_controller {
                decide(&it.method, &it.path, it.before)
            } else {
                Effect::Pass
            }
        });
    }

    /// Chooses the faults of the requests of the controller, its caches and discovery.
    pub fn inject_all(&self, decide: impl Fn(&Recorded) -> Effect + Send + Sync + 'static) {
        lock(&self.state).decide = Some(Arc::new(decide));
    }

    /// Rejects requests of the controller that contain `text`. `NAME` in the status stands for the name of the object.
    pub fn reject(&self, text: &str, code: u16, status: &Value) {
        lock(&self.state).reject = Some((text.to_owned(), code, status.clone()));
    }

    /// Delays rejections, so that the paused clock advances in a hot loop.
    pub fn slow_rejections(&self, latency: Duration) {
        lock(&self.state).rejection_latency = Some(latency);
    }

    /// Executes a request again before the next write.
    pub fn replay(&self) -> Effect {
        let state = self.state.clone();
        Effect::around(move |request| {
            let state = state.clone();
            async move {
                async move |_: u16| {
                    lock(&state).replayed = Some(request);
                }
            }
        })
    }

    /// Breaks the connection, and executes the request before the next POST.
    pub fn delay_until_post(&self) -> Effect {
        let state = self.state.clone();
        let keep = Effect::around(move |request| {
            lock(&state).delayed = Some(request);
            async { async |_: u16| () }
        });
        Effect::All(vec![keep, Effect::LoseRequest])
    }

    /// Drops delayed requests: their sender has crashed.
    pub fn drop_delayed(&self) {
        lock(&self.state).delayed = None;
    }

    /// Replaces text in all responses to the caches, also on open watches.
    pub fn replace_in_reads(&self, stored: &str, read: &str) {
        lock(&self.state).replacement = Some((stored.to_owned(), read.to_owned()));
    }

    /// Changes the objects of a resource in responses to the caches.
    pub fn transform_reads(
        &self,
        plural: &'static str,
        transform: impl Fn(&mut Value) + Send + Sync + 'static,
    ) {
        let reads = Matcher::any().user_agent("/reader");
        let reads = reads.when(move |it| it.path.ends_with(plural));
        self.faults.on(reads).change_answer(move |value| {
            if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
                items.iter_mut().for_each(&transform);
            } else if value["type"] != "BOOKMARK" {
                transform(&mut value["object"]);
            }
        });
    }

    /// Stalls the open watches of a resource without ending them.
    pub fn stall_watches(&self, plural: Option<&'static str>) {
        let watches = |plural| Matcher::any().when(move |it| it.path.ends_with(plural));
        let hold = plural.map(|it| self.faults.hold_watches(watches(it)));
        lock(&self.state).stalled = hold;
    }

    /// Disables aggregated discovery.
    pub fn disable_aggregated_discovery(&self) {
        disable_aggregated_discovery(&self.faults);
    }

    /// Sends the requests to another API server.
    pub fn switch(&self, service: ApiService) {
        self.executed.on(Matcher::any()).send_to(service);
    }
}

/// Makes the API server answer discovery with the unaggregated documents.
pub fn disable_aggregated_discovery(faults: &Faults) {
    let is_root = |it: &RecordedRequest| it.path == "/api" || it.path == "/apis";
    let plain = HeaderValue::from_static("application/json");
    let change = move |headers: &mut HeaderMap| drop(headers.insert(ACCEPT, plain.clone()));
    faults.on(Matcher::any().when(is_root)).change_headers(change);
}

/// Takes the delayed and replayed requests that are executed before this one.
fn take_late(state: &Mutex<State>, request: &RecordedRequest) -> Vec<Arc<RecordedRequest>> {
    let mut state = lock(state);
    let delayed = (request.method == Method::POST).then(|| state.delayed.take());
    let delayed = delayed
        .flatten()
        .filter(|it| request.at.duration_since(it.at) < DELAY_MAX);
    delayed.into_iter().chain(state.replayed.take()).collect()
}

/// Records a request and chooses its effect.
fn decide(state: &Mutex<State>, request: &RecordedRequest) -> Effect {
    let agent = request.header("user-agent");
    let by_controller = CONTROLLERS.iter().any(|it| agent.ends_with(it));
    let discovers = agent.ends_with("/discovery");
    if !by_controller && !discovers && !agent.ends_with("/reader") {
        return Effect::All(Vec::new());
    }
    let operation = if discovers {
        format!("DISCOVER {}", request.path)
    } else {
        operation(request)
    };
    let (recorded, decide, reject, latency) = {
        let mut state = lock(state);
        let count = state.counts.entry((operation.clone(), by_controller));
        let count = count.or_default();
        let before = *count;
        *count += 1;
        let recorded = Recorded {
            operation,
            method: request.method.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            accept: request.header("accept").to_owned(),
            content_type: request.header("content-type").to_owned(),
            body: request.json(),
            at: request.at,
            before,
            by_controller,
        };
        state.recorded.push(recorded.clone());
        let (decide, reject) = (state.decide.clone(), state.reject.clone());
        (recorded, decide, reject, state.rejection_latency)
    };
    let rejection = reject.filter(|_| by_controller);
    let rejection = rejection.and_then(|it| rejection_of(&request.body, it));
    let effect = rejection.or_else(|| decide.map(|decide| decide(&recorded)));
    match (effect, latency) {
        // Later rules change the answer.
        (None | Some(Effect::Pass), _) => Effect::All(Vec::new()),
        (Some(reply @ Effect::Reply(_)), Some(latency)) => Effect::All(vec![Effect::Delay(latency), reply]),
        (Some(effect), _) => effect,
    }
}

fn operation(request: &RecordedRequest) -> String {
    let verb = match request.verb.as_str() {
        "list" | "watch" => request.verb.to_uppercase(),
        _ => request.method.to_string(),
    };
    if request.subresource.is_empty() {
        format!("{verb} {}", request.resource)
    } else {
        format!("{verb} {}/{}", request.resource, request.subresource)
    }
}

fn rejection_of(body: &[u8], (text, code, more): (String, u16, Value)) -> Option<Effect> {
    let body = std::str::from_utf8(body).ok().filter(|it| it.contains(&text))?;
    let object: Value = serde_json::from_str(body).ok()?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let more = serde_json::from_str(&more.to_string().replace("NAME", name)).ok()?;
    Some(status_reply(code, more))
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
