//! The sandbox's fault layer for the collector, and a layer behind it that has every executed write audited.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_manager::client::Transport;
use steersman_manager::env::{Clock, Rng};
use steersman_manager::metrics::Registry;
use steersman_manager::object::Resource;
use steersman_sandbox::ApiService;
use steersman_sandbox::faults::{Effect, FaultService, Faults, Matcher, RecordedRequest, Refusal};
use tower_service::Service as _;

use super::super::{MAPS, ROLES, WIDGETS, reference};
use super::GADGETS;
use super::audit::{Audit, is_terminating};
use crate::fault_injector::text_reply;

pub const KINDS: [Resource; 4] = [MAPS, WIDGETS, GADGETS, ROLES];

#[derive(Clone)]
pub struct FaultInjector {
    faults: Faults,
    service: FaultService<FaultService<ApiService>>,
    rules: Rules,
}

/// Chooses faults, and audits executed writes.
#[derive(Clone)]
struct Rules {
    direct: ApiService,
    rng: Rng,
    audit: Audit,
    settings: Arc<Mutex<Settings>>,
}

#[derive(Clone, Debug, Default)]
pub struct Settings {
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

impl FaultInjector {
    pub fn new(service: ApiService, direct: ApiService, rng: Rng, audit: &Audit) -> Self {
        let rules = Rules {
            direct,
            rng,
            audit: audit.clone(),
            settings: Arc::default(),
        };
        let (faults, executed) = (Faults::new(), Faults::new());
        let concerned = |it: &RecordedRequest| is_by_controller(it) || is_by_caches(it);
        let others = move |it: &RecordedRequest| !concerned(it);
        let chosen = rules.clone();
        faults
            .on(Matcher::any().when(others))
            .decide(move |it| chosen.discover(it));
        let chosen = rules.clone();
        faults
            .on(Matcher::any().when(concerned))
            .decide(move |it| chosen.choose_fault(it));
        let audited = rules.clone();
        executed.on(Matcher::writes()).around(move |request| {
            let rules = audited.clone();
            async move {
                if request.method == Method::DELETE
                    && rules.rng.below(100) < rules.with(|it| it.request_percent)
                {
                    rules.adopt_object(&request.path).await;
                }
                let before = rules.objects().await;
                async move |_: u16| {
                    let after = rules.objects().await;
                    let operation = operation(&request);
                    rules.audit.check_write(&operation, request.at, &before, &after);
                }
            }
        });
        Self {
            service: faults.wrap(executed.wrap(service)),
            faults,
            rules,
        }
    }

    pub fn transport(&self, clock: &Clock) -> Transport {
        let (service, registry) = (self.service.clone(), Registry::new("steersman"));
        Transport::from_service(service, "sandbox", "test", clock, &registry).expect("unregistered metrics")
    }

    pub fn with<T>(&self, with: impl FnOnce(&mut Settings) -> T) -> T {
        self.rules.with(with)
    }

    pub fn lag(&self) -> &steersman_sandbox::Lag {
        self.service.inner().lag()
    }

    pub fn end_watches(&self) {
        self.faults.end_watches(&Matcher::any());
    }

    /// Returns all objects in the store.
    pub async fn objects(&self) -> Vec<Value> {
        self.rules.objects().await
    }
}

impl Rules {
    fn with<T>(&self, with: impl FnOnce(&mut Settings) -> T) -> T {
        with(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn objects(&self) -> Vec<Value> {
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

    fn choose_fault(&self, request: &RecordedRequest) -> Effect {
        let (rng, settings) = (&self.rng, self.with(|it| it.clone()));
        let mut kinds = KINDS.into_iter();
        let kind = kinds.find(|it| it.plural == request.resource);
        let kind = kind.as_ref();
        let by_controller = is_by_controller(request);
        let (operation, is_watch) = (operation(request), request.verb == "watch");
        if by_controller {
            let line = format!("{:?} {operation}", request.at);
            self.with(|it| it.sent.push(line));
        }
        if kind.is_some() && settings.forbidden.as_ref() == kind && !request.is_write() {
            return refusal(403, "Forbidden");
        }
        let percent = if by_controller {
            settings.request_percent
        } else {
            settings.cache_percent
        };
        let answer_after = |latency: Duration| {
            let audit = self.audit.clone();
            let read = move |it: &mut Value| audit.read(it, latency);
            let mut effects = vec![Effect::DelayAnswer(latency)];
            if request.verb == "get" {
                effects.push(Effect::ChangeAnswer(Arc::new(read)));
            }
            Effect::All(effects)
        };
        if rng.below(100) >= percent {
            return answer_after(Duration::ZERO);
        }
        let write = request.is_write();
        let fault = match rng.below(if write { 12 } else { 9 }) {
            0 => Effect::LoseRequest,
            1 => refusal(500, "InternalError"),
            2 => refusal(503, "ServiceUnavailable"),
            3 => refusal(429, "TooManyRequests"),
            5 if write => refusal(410, "Expired"),
            4 | 5 => text_reply(404, "404 page not found\n"),
            6 => Effect::LoseAnswer,
            7 if is_watch => Effect::Delay(Duration::from_millis(rng.below(5000))),
            7 => answer_after(Duration::from_millis(rng.below(5000))),
            8 if by_controller => Effect::HangAnswer,
            8 if self.rng.below(2) == 0 => refusal(403, "Forbidden"),
            8 => refusal(410, "Expired"),
            9 => refusal(409, "Conflict"),
            _ => Effect::DeliverLate(Duration::from_millis(rng.below(20_000))),
        };
        if let (false, Some(kind)) = (by_controller, kind) {
            self.audit.mark_stale(&kind.kind);
        }
        if by_controller && operation.starts_with("LIST") && !matches!(fault, Effect::All(_)) {
            self.audit.list_failed();
        }
        fault
    }

    /// Gives an object a live owner just before its deletion.
    async fn adopt_object(&self, path: &str) {
        let objects = self.objects().await;
        let owner = objects
            .iter()
            .find(|it| it["metadata"].get("namespace").is_none() && !is_terminating(it));
        let Some(owner) =
            owner.filter(|it| !path.ends_with(it["metadata"]["name"].as_str().unwrap_or_default()))
        else {
            return;
        };
        let change = json!({"metadata": {"ownerReferences": [reference(owner)]}}).to_string();
        let request = Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(change.into_bytes()));
        drop(self.direct.clone().call(request.expect("a request")).await);
    }

    /// Discovery reads an API server that does not lag.
    fn discover(&self, request: &RecordedRequest) -> Effect {
        let undiscoverable = self.with(|it| it.undiscoverable);
        if undiscoverable.is_some_and(|group| request.path.contains(group)) {
            return refusal(503, "ServiceUnavailable");
        }
        Effect::SendTo(self.direct.clone())
    }
}

fn refusal(code: u16, reason: &str) -> Effect {
    let refusal = Refusal::new(code).reason(reason);
    Effect::Refuse(match code {
        429 => refusal.details(json!({"retryAfterSeconds": 1})),
        _ => refusal,
    })
}

fn operation(request: &RecordedRequest) -> String {
    let verb = match request.verb.as_str() {
        "list" | "watch" => "LIST",
        _ => request.method.as_str(),
    };
    format!("{verb} {}", request.path)
}

fn is_by_controller(request: &RecordedRequest) -> bool {
    request
        .header("user-agent")
        .ends_with("/generic-garbage-collector")
}

fn is_by_caches(request: &RecordedRequest) -> bool {
    request.header("user-agent").ends_with("/reader")
}
