//! A fault injector between the controller under test and the sandbox. It records the requests of the controller, of its
//! caches and of discovery, and fails, delays, duplicates or changes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use coxswain_manager::env::Clock;
use coxswain_sandbox::{ApiService, Lag, ResponseBody};
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;
use tower_service::Service as _;

use crate::intercept::{Intercept, Reply, StallingBody, respond, respond_status};

/// User agents of the controllers under test.
const CONTROLLERS: [&str; 2] = ["/controller", "/generic-garbage-collector"];

#[derive(Clone, Debug)]
pub enum Fault {
    None,
    /// The request is executed and the connection breaks before the response.
    ResponseLost,
    /// The request is executed twice in a row; the second response arrives.
    Duplicated,
    /// The request is executed again before the next write.
    Replayed,
    /// The body is changed before the request is executed, as by a webhook.
    Mutated(fn(&mut Value)),
    /// The connection breaks before the request arrives.
    RequestLost,
    /// The connection breaks, and the request arrives before the next POST.
    DelayedUntilPost,
    /// The request is not executed and no response arrives.
    RequestHangs,
    /// The request is executed and no response arrives.
    ResponseHangs,
    /// The request is executed and the response arrives after this time.
    SlowResponse(Duration),
    /// The request is not executed. The response is a Status with this code and these fields.
    Status(u16, Value),
    /// As `Status`, after this time.
    SlowStatus(Duration, u16),
    /// The request is not executed. The response has this code and text.
    Text(u16, &'static str),
}

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

type Decide = dyn Fn(&Recorded) -> Fault + Send + Sync;
type Transform = dyn Fn(&mut Value) + Send + Sync;

#[derive(Clone)]
pub struct FaultInjector {
    service: ApiService,
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    recorded: Vec<Recorded>,
    /// Number of requests by operation and `by_controller`.
    counts: BTreeMap<(String, bool), usize>,
    decide: Option<Arc<Decide>>,
    transform: Option<(&'static str, Arc<Transform>)>,
    /// Requests of the controller that contain this text are rejected with this code and Status.
    reject: Option<(String, u16, Value)>,
    rejection_latency: Option<Duration>,
    delayed: Option<(Instant, Request<Body>)>,
    replayed: Option<Request<Body>>,
    replacement: Option<(String, String)>,
    stalled: Option<&'static str>,
    /// Receives the requests instead of the first API server.
    other: Option<ApiService>,
    unaggregated: bool,
}

impl FaultInjector {
    pub fn new(service: ApiService, clock: &Clock) -> Self {
        Self {
            service,
            clock: clock.clone(),
            state: Arc::default(),
        }
    }

    pub fn lag(&self) -> &Lag {
        self.service.lag()
    }

    /// Returns the requests of the controller.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.with(|it| {
            it.recorded
                .iter()
                .filter(|it| it.by_controller)
                .cloned()
                .collect()
        })
    }

    /// Returns the requests of the controller, its caches and discovery.
    pub fn all_recorded(&self) -> Vec<Recorded> {
        self.with(|it| it.recorded.clone())
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
        self.with(|it| {
            it.recorded.clear();
            it.counts.clear();
        });
    }

    /// Chooses the faults of the controller's requests by method, path and number of earlier requests of the same operation.
    pub fn inject(&self, decide: impl Fn(&Method, &str, usize) -> Fault + Send + Sync + 'static) {
        self.inject_all(move |it| {
            if it.by_controller {
                decide(&it.method, &it.path, it.before)
            } else {
                Fault::None
            }
        });
    }

    /// Chooses the faults of the requests of the controller, its caches and discovery.
    pub fn inject_all(&self, decide: impl Fn(&Recorded) -> Fault + Send + Sync + 'static) {
        self.with(|it| it.decide = Some(Arc::new(decide)));
    }

    /// Rejects requests of the controller that contain `text`. `NAME` in the status stands for the name of the object.
    pub fn reject(&self, text: &str, code: u16, status: &Value) {
        self.with(|it| it.reject = Some((text.to_owned(), code, status.clone())));
    }

    /// Delays rejections, so that the paused clock advances in a hot loop.
    pub fn slow_rejections(&self, latency: Duration) {
        self.with(|it| it.rejection_latency = Some(latency));
    }

    /// Drops delayed requests: their sender has crashed.
    pub fn drop_delayed(&self) {
        self.with(|it| it.delayed = None);
    }

    /// Replaces text in all responses to the caches, also on open watches.
    pub fn replace_in_reads(&self, stored: &str, read: &str) {
        self.with(|it| it.replacement = Some((stored.to_owned(), read.to_owned())));
    }

    /// Changes the objects of a resource in responses to the caches.
    pub fn transform_reads(
        &self,
        plural: &'static str,
        transform: impl Fn(&mut Value) + Send + Sync + 'static,
    ) {
        self.with(|it| it.transform = Some((plural, Arc::new(transform))));
    }

    /// Stalls the open watches of a resource without ending them.
    pub fn stall_watches(&self, plural: Option<&'static str>) {
        self.with(|it| it.stalled = plural);
    }

    /// Disables aggregated discovery.
    pub fn disable_aggregated_discovery(&self) {
        self.with(|it| it.unaggregated = true);
    }

    /// Sends the requests to another API server.
    pub fn switch(&self, service: ApiService) {
        self.with(|it| it.other = Some(service));
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, request: &Parts, agent: &str, body: &[u8]) -> Fault {
        let by_controller = CONTROLLERS.iter().any(|it| agent.ends_with(it));
        let discovers = agent.ends_with("/discovery");
        if !by_controller && !discovers && !agent.ends_with("/reader") {
            return Fault::None;
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
        let operation = match parts {
            [plural, _, sub] => format!("{verb} {plural}/{sub}"),
            [plural, ..] => format!("{verb} {plural}"),
            [] => verb.to_owned(),
        };
        let (recorded, decide) = self.with(|it| {
            let count = it.counts.entry((operation.clone(), by_controller)).or_default();
            let before = *count;
            *count += 1;
            let recorded = Recorded {
                operation,
                method: request.method.clone(),
                accept: header(request, "accept"),
                content_type: header(request, "content-type"),
                path,
                query,
                body: serde_json::from_slice(body).unwrap_or_default(),
                at: self.clock.now(),
                before,
                by_controller,
            };
            it.recorded.push(recorded.clone());
            (recorded, it.decide.clone())
        });
        let rejection = by_controller.then(|| self.rejection(body)).flatten();
        rejection.unwrap_or_else(|| decide.map_or(Fault::None, |decide| decide(&recorded)))
    }

    fn rejection(&self, body: &[u8]) -> Option<Fault> {
        let (text, code, status) = self.with(|it| it.reject.clone())?;
        let body = std::str::from_utf8(body).ok().filter(|it| it.contains(&text))?;
        let object: Value = serde_json::from_str(body).ok()?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let status = serde_json::from_str(&status.to_string().replace("NAME", name)).ok()?;
        Some(Fault::Status(code, status))
    }

    /// Changes a response to the caches.
    fn read(&self, path: &str, is_watch: bool, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let this = self.clone();
        let replace = move |data: Bytes| match this.with(|it| it.replacement.clone()) {
            Some((stored, read)) => String::from_utf8_lossy(&data).replace(&stored, &read).into(),
            None => data,
        };
        let mut response = response.map(|body| {
            body.map_frame(move |frame| frame.map_data(&replace))
                .boxed_unsync()
        });
        if is_watch {
            let (this, path) = (self.clone(), path.to_owned());
            let stalled = move || this.with(|it| it.stalled).is_some_and(|it| path.ends_with(it));
            response = response.map(|body| StallingBody { body, stalled }.boxed_unsync());
        }
        match self.with(|it| it.transform.clone()) {
            Some((plural, transform)) if path.ends_with(plural) => response.map(|body| {
                body.map_frame(move |frame| frame.map_data(|data| transformed(&data, &*transform)))
                    .boxed_unsync()
            }),
            _ => response,
        }
    }
}

impl Intercept for FaultInjector {
    async fn handle(self, request: Request<Body>) -> Reply {
        let (mut parts, body) = request.into_parts();
        if self.with(|it| it.unaggregated) && ["/api", "/apis"].contains(&parts.uri.path()) {
            let plain = HeaderValue::from_static("application/json");
            parts.headers.insert(ACCEPT, plain);
        }
        let body = body.collect().await?.to_bytes();
        let agent = header(&parts, "user-agent");
        let fault = self.record(&parts, &agent, &body);
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let is_watch = parts.uri.query().is_some_and(|it| it.contains("watch="));
        let copy = || Request::from_parts(parts.clone(), Body::from(body.to_vec()));
        let request = copy();
        let service = &mut self
            .with(|it| it.other.clone())
            .unwrap_or_else(|| self.service.clone());
        let delayed = (method == Method::POST).then(|| self.with(|it| it.delayed.take()));
        if let Some((at, delayed)) = delayed.flatten()
            && self.clock.now().duration_since(at) < DELAY_MAX
        {
            drop(service.call(delayed).await?);
        }
        let replayed = (method != Method::GET).then(|| self.with(|it| it.replayed.take()));
        if let Some(replayed) = replayed.flatten() {
            drop(service.call(replayed).await?);
        }
        match fault {
            Fault::None => {
                let response = service.call(request).await?;
                if agent.ends_with("/reader") {
                    Ok(self.read(&path, is_watch, response))
                } else {
                    Ok(response)
                }
            }
            Fault::SlowResponse(time) => {
                let response = service.call(request).await?;
                self.clock.sleep(time).await;
                Ok(response)
            }
            Fault::Mutated(change) => {
                let mut object: Value = serde_json::from_slice(&body)?;
                change(&mut object);
                let body = Body::from(object.to_string().into_bytes());
                Ok(service.call(request.map(|_| body)).await?)
            }
            Fault::Duplicated => {
                drop(service.call(copy()).await?);
                Ok(service.call(request).await?)
            }
            Fault::Replayed => {
                let response = service.call(request).await?;
                self.with(|it| it.replayed = Some(copy()));
                Ok(response)
            }
            Fault::ResponseLost => {
                let response = service.call(request).await?;
                drop(response.into_body().collect().await);
                Err("connection lost before the response".into())
            }
            Fault::DelayedUntilPost => {
                let now = self.clock.now();
                self.with(|it| it.delayed = Some((now, request)));
                Err("connection lost".into())
            }
            Fault::ResponseHangs => {
                let response = service.call(request).await?;
                drop(response.into_body().collect().await);
                std::future::pending().await
            }
            Fault::RequestHangs => std::future::pending().await,
            Fault::RequestLost => Err("connection lost".into()),
            Fault::Status(code, more) => {
                if let Some(latency) = self.with(|it| it.rejection_latency) {
                    self.clock.sleep(latency).await;
                }
                respond_status(code, &more)
            }
            Fault::SlowStatus(time, code) => {
                self.clock.sleep(time).await;
                respond_status(code, &Value::Null)
            }
            Fault::Text(code, text) => respond(code, text),
        }
    }
}

fn header(request: &Parts, name: &str) -> String {
    let value = request.headers.get(name).and_then(|it| it.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Changes the objects of a list or of the lines of a watch.
fn transformed(data: &Bytes, transform: &Transform) -> Bytes {
    let mut lines = Vec::new();
    for line in data.split(|it| *it == b'\n').filter(|it| !it.is_empty()) {
        let mut value: Value = serde_json::from_slice(line).expect("complete lines");
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            items.iter_mut().for_each(transform);
        } else if value["type"] != "BOOKMARK" {
            transform(&mut value["object"]);
        }
        lines.extend(value.to_string().into_bytes());
        lines.push(b'\n');
    }
    lines.into()
}
