//! A fault injector for the collector that has every write audited.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::env::{Clock, Rng, Tasks};
use coxswain_manager::object::Resource;
use coxswain_sandbox::ApiService;
use futures_util::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use super::super::{MAPS, ROLES, WIDGETS, reference};
use super::GADGETS;
use super::audit::{Audit, is_terminating};
use crate::intercept::{BoxError, Intercept, Reply, respond, respond_status};

pub const KINDS: [Resource; 4] = [MAPS, WIDGETS, GADGETS, ROLES];

#[derive(Clone)]
pub struct FaultInjector {
    service: ApiService,
    direct: ApiService,
    clock: Clock,
    tasks: Tasks,
    rng: Rng,
    audit: Audit,
    faults: Arc<Mutex<Faults>>,
    /// Ends all open watches.
    watch_end: Arc<Mutex<CancellationToken>>,
}

#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Percentage of the requests of the collector that fail.
    pub request_percent: u64,
    /// Percentage of the lists and watches of its caches that fail.
    pub cache_percent: u64,
    /// Reads of this resource are forbidden.
    pub forbidden: Option<Resource>,
    /// Discovery of this group fails.
    pub undiscoverable: Option<&'static str>,
    /// Requests of the collector.
    pub sent: Vec<String>,
}

enum Fault {
    None,
    /// The connection breaks before the request arrives.
    RequestLost,
    /// The request is executed and the connection breaks before the response.
    ResponseLost,
    /// The request is executed and no response arrives.
    ResponseHangs,
    /// The request is executed and the response arrives after this time.
    SlowResponse(Duration),
    /// The connection breaks and the request arrives after this time.
    Delayed(Duration),
    Status(u16, &'static str),
    Text(u16),
}

impl FaultInjector {
    pub fn new(
        service: ApiService,
        direct: ApiService,
        clock: &Clock,
        tasks: Tasks,
        rng: Rng,
        audit: &Audit,
    ) -> Self {
        Self {
            service,
            direct,
            clock: clock.clone(),
            tasks,
            rng,
            audit: audit.clone(),
            faults: Arc::default(),
            watch_end: Arc::default(),
        }
    }

    pub fn with<T>(&self, with: impl FnOnce(&mut Faults) -> T) -> T {
        with(&mut self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn lag(&self) -> &coxswain_sandbox::Lag {
        self.service.lag()
    }

    pub fn end_watches(&self) {
        let end = std::mem::take(&mut *self.watch_end.lock().unwrap_or_else(PoisonError::into_inner));
        end.cancel();
    }

    /// Returns all objects in the store.
    pub async fn objects(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        for kind in &KINDS {
            let request = Request::get(kind.collection("")).body(Body::empty());
            let response = self.direct.clone().call(request.expect("a request"));
            let response = response.await.expect("a response");
            if !response.status().is_success() {
                continue;
            }
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let mut list: Value = serde_json::from_slice(&body).expect("JSON");
            for item in list["items"].as_array_mut().into_iter().flatten() {
                let role = item["metadata"]["labels"].get("kubernetes.io/bootstrapping");
                if role.is_none() {
                    item["apiVersion"] = json!(kind.api_version());
                    item["kind"] = json!(kind.kind);
                    objects.push(item.take());
                }
            }
        }
        objects
    }

    fn choose_fault(
        &self,
        by_controller: bool,
        operation: &str,
        method: &Method,
        kind: Option<&Resource>,
    ) -> Fault {
        let (rng, faults) = (&self.rng, self.with(|it| it.clone()));
        if kind.is_some() && faults.forbidden.as_ref() == kind && *method == Method::GET {
            return Fault::Status(403, "Forbidden");
        }
        let percent = if by_controller {
            faults.request_percent
        } else {
            faults.cache_percent
        };
        if rng.below(100) >= percent {
            return Fault::None;
        }
        let write = *method != Method::GET;
        let fault = match rng.below(if write { 12 } else { 9 }) {
            0 => Fault::RequestLost,
            1 => Fault::Status(500, "InternalError"),
            2 => Fault::Status(503, "ServiceUnavailable"),
            3 => Fault::Status(429, "TooManyRequests"),
            5 if write => Fault::Status(410, "Expired"),
            4 | 5 => Fault::Text(404),
            6 => Fault::ResponseLost,
            7 => Fault::SlowResponse(Duration::from_millis(rng.below(5000))),
            8 if by_controller => Fault::ResponseHangs,
            8 if self.rng.below(2) == 0 => Fault::Status(403, "Forbidden"),
            8 => Fault::Status(410, "Expired"),
            9 => Fault::Status(409, "Conflict"),
            _ => Fault::Delayed(Duration::from_millis(rng.below(20_000))),
        };
        if let (false, Some(kind)) = (by_controller, kind) {
            self.audit.mark_stale(&kind.kind);
        }
        if by_controller && operation.starts_with("LIST") && !matches!(fault, Fault::SlowResponse(_)) {
            self.audit.list_failed();
        }
        fault
    }

    /// Executes a request and audits its effect.
    async fn execute(&self, request: Request<Body>, operation: &str, sent: Instant) -> Reply {
        let mut service = self.service.clone();
        if request.method() == Method::GET {
            return Ok(service.call(request).await?);
        }
        if request.method() == Method::DELETE && self.rng.below(100) < self.with(|it| it.request_percent) {
            self.adopt_object(request.uri().path()).await?;
        }
        let before = self.objects().await;
        let response = service.call(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let after = self.objects().await;
        self.audit.check_write(operation, sent, &before, &after);
        Ok(Response::from_parts(head, Full::new(body).boxed_unsync()))
    }

    /// Executes a request and responds after `latency`.
    async fn respond_after(&self, request: Request<Body>, operation: &str, latency: Duration) -> Reply {
        let response = self.execute(request, operation, self.clock.now()).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        if operation.starts_with("GET") {
            self.audit
                .read(&serde_json::from_slice(&body).unwrap_or_default(), latency);
        }
        if !latency.is_zero() {
            self.clock.sleep(latency).await;
        }
        Ok(Response::from_parts(head, Full::new(body).boxed_unsync()))
    }

    /// Gives an object a live owner just before its deletion.
    async fn adopt_object(&self, path: &str) -> Result<(), BoxError> {
        let objects = self.objects().await;
        let owner = objects
            .iter()
            .find(|it| it["metadata"].get("namespace").is_none() && !is_terminating(it));
        let Some(owner) =
            owner.filter(|it| !path.ends_with(it["metadata"]["name"].as_str().unwrap_or_default()))
        else {
            return Ok(());
        };
        let change = json!({"metadata": {"ownerReferences": [reference(owner)]}}).to_string();
        let request = Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(change.into_bytes()))?;
        drop(self.direct.clone().call(request).await?);
        Ok(())
    }

    async fn watch(&self, request: Request<Body>) -> Reply {
        let end = self
            .watch_end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let response = self.service.clone().call(request).await?;
        Ok(response.map(|body| {
            let lines = BodyStream::new(body).take_until(Box::pin(end.cancelled_owned()));
            StreamBody::new(lines).boxed_unsync()
        }))
    }

    async fn discover(&self, request: Request<Body>) -> Reply {
        let undiscoverable = self.with(|it| it.undiscoverable);
        if undiscoverable.is_some_and(|group| request.uri().path().contains(group)) {
            return status(503, "ServiceUnavailable");
        }
        Ok(self.direct.clone().call(request).await?)
    }
}

fn status(code: u16, reason: &str) -> Reply {
    let mut status = json!({"reason": reason});
    if code == 429 {
        status["details"] = json!({"retryAfterSeconds": 1});
    }
    respond_status(code, &status)
}

impl Intercept for FaultInjector {
    async fn handle(self, request: Request<Body>) -> Reply {
        let agent = request.headers()["user-agent"].to_str()?.to_owned();
        let by_controller = agent.ends_with("/generic-garbage-collector");
        if !by_controller && !agent.ends_with("/reader") {
            return self.discover(request).await;
        }
        let path = request.uri().path().to_owned();
        let mut kinds = KINDS.into_iter();
        let kind = kinds.find(|it| path.split('/').any(|part| part == it.plural));
        let kind = kind.as_ref();
        let is_watch = request.uri().query().is_some_and(|it| it.contains("watch="));
        let verb = match *request.method() {
            Method::GET if kind.is_some_and(|it| path.ends_with(&*it.plural)) => "LIST",
            ref method => method.as_str(),
        };
        let operation = format!("{verb} {path}");
        let sent = self.clock.now();
        if by_controller {
            self.with(|it| it.sent.push(format!("{sent:?} {operation}")));
        }
        match self.choose_fault(by_controller, &operation, request.method(), kind) {
            Fault::None if is_watch => self.watch(request).await,
            Fault::None => self.respond_after(request, &operation, Duration::ZERO).await,
            Fault::RequestLost => Err("connection lost".into()),
            Fault::ResponseLost => {
                if !is_watch {
                    drop(self.execute(request, &operation, sent).await);
                }
                Err("connection lost before the response".into())
            }
            Fault::ResponseHangs => {
                drop(self.execute(request, &operation, sent).await);
                std::future::pending().await
            }
            Fault::SlowResponse(time) if is_watch => {
                self.clock.sleep(time).await;
                self.watch(request).await
            }
            Fault::SlowResponse(time) => self.respond_after(request, &operation, time).await,
            Fault::Delayed(time) => {
                let later = self.clone();
                drop(self.tasks.spawn(async move {
                    later.clock.sleep(time).await;
                    drop(
                        later
                            .execute(request, &format!("{operation}, delayed"), sent)
                            .await,
                    );
                }));
                Err("connection lost".into())
            }
            Fault::Status(code, reason) => status(code, reason),
            Fault::Text(code) => respond(code, format!("{code} page not found\n")),
        }
    }
}
