//! The collector's way to the API: it breaks what it is asked for, and has every write looked at.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::env::{Clock, Rng, Tasks};
use coxswain_manager::object::Resource;
use coxswain_sandbox::Door;
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
pub struct Way {
    door: Door,
    plain: Door,
    clock: Clock,
    tasks: Tasks,
    chance: Rng,
    audit: Audit,
    weather: Arc<Mutex<Weather>>,
    /// Ends all watches.
    cuts: Arc<Mutex<CancellationToken>>,
}

/// What goes wrong now.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// So many in a hundred requests of the collector.
    pub requests: u64,
    /// So many in a hundred lists and watches of its caches.
    pub caches: u64,
    /// Nobody may read this one.
    pub forbidden: Option<Resource>,
    /// The documents of a group cannot be read.
    pub dark: Option<&'static str>,
    /// What the collector has asked for.
    pub asked: Vec<String>,
}

/// What becomes of a request.
enum Fate {
    Done,
    /// It never arrives.
    Broken,
    /// It is done, and the answer is lost.
    Lost,
    /// It is done, and the answer never comes.
    Hangs,
    /// It is answered after this time.
    Slow(Duration),
    /// It arrives after this time, when nobody waits for it.
    Late(Duration),
    Refused(u16, &'static str),
    Plain(u16),
}

impl Way {
    pub fn new(door: Door, plain: Door, clock: &Clock, tasks: Tasks, chance: Rng, audit: &Audit) -> Self {
        Self {
            door,
            plain,
            clock: clock.clone(),
            tasks,
            chance,
            audit: audit.clone(),
            weather: Arc::default(),
            cuts: Arc::default(),
        }
    }

    pub fn with<T>(&self, with: impl FnOnce(&mut Weather) -> T) -> T {
        with(&mut self.weather.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the caches are shown of the store.
    pub fn lag(&self) -> &coxswain_sandbox::Lag {
        self.door.lag()
    }

    pub fn cut(&self) {
        let cut = std::mem::take(&mut *self.cuts.lock().unwrap_or_else(PoisonError::into_inner));
        cut.cancel();
    }

    /// All objects, as they are.
    pub async fn world(&self) -> Vec<Value> {
        let mut world = Vec::new();
        for kind in &KINDS {
            let request = Request::get(kind.collection("")).body(Body::empty());
            let response = self.plain.clone().call(request.expect("a request"));
            let response = response.await.expect("an answer");
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
                    world.push(item.take());
                }
            }
        }
        world
    }

    fn fate(&self, ours: bool, what: &str, method: &Method, kind: Option<&Resource>) -> Fate {
        let (chance, weather) = (&self.chance, self.with(|it| it.clone()));
        if kind.is_some() && weather.forbidden.as_ref() == kind && *method == Method::GET {
            return Fate::Refused(403, "Forbidden");
        }
        let percent = if ours { weather.requests } else { weather.caches };
        if chance.below(100) >= percent {
            return Fate::Done;
        }
        let write = *method != Method::GET;
        let fate = match chance.below(if write { 12 } else { 9 }) {
            0 => Fate::Broken,
            1 => Fate::Refused(500, "InternalError"),
            2 => Fate::Refused(503, "ServiceUnavailable"),
            3 => Fate::Refused(429, "TooManyRequests"),
            5 if write => Fate::Refused(410, "Expired"),
            4 | 5 => Fate::Plain(404),
            6 => Fate::Lost,
            7 => Fate::Slow(Duration::from_millis(chance.below(5000))),
            8 if ours => Fate::Hangs,
            8 if self.chance.below(2) == 0 => Fate::Refused(403, "Forbidden"),
            8 => Fate::Refused(410, "Expired"),
            9 => Fate::Refused(409, "Conflict"),
            _ => Fate::Late(Duration::from_millis(chance.below(20_000))),
        };
        if let (false, Some(kind)) = (ours, kind) {
            self.audit.disturb(&kind.kind);
        }
        if ours && what.starts_with("LIST") && !matches!(fate, Fate::Slow(_)) {
            self.audit.unlisted();
        }
        fate
    }

    /// Does it, and has it looked at.
    async fn commit(&self, request: Request<Body>, what: &str, sent: Instant) -> Reply {
        let mut door = self.door.clone();
        if request.method() == Method::GET {
            return Ok(door.call(request).await?);
        }
        if request.method() == Method::DELETE && self.chance.below(100) < self.with(|it| it.requests) {
            self.adopt(request.uri().path()).await?;
        }
        let before = self.world().await;
        let response = door.call(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let after = self.world().await;
        self.audit.look(what, sent, &before, &after);
        Ok(Response::from_parts(head, Full::new(body).boxed_unsync()))
    }

    /// Does it, and answers after this time.
    async fn answer(&self, request: Request<Body>, what: &str, latency: Duration) -> Reply {
        let answer = self.commit(request, what, self.clock.now()).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        if what.starts_with("GET") {
            self.audit
                .read(&serde_json::from_slice(&body).unwrap_or_default(), latency);
        }
        if !latency.is_zero() {
            self.clock.sleep(latency).await;
        }
        Ok(Response::from_parts(head, Full::new(body).boxed_unsync()))
    }

    /// At the last moment somebody else becomes the owner of an object.
    async fn adopt(&self, path: &str) -> Result<(), BoxError> {
        let world = self.world().await;
        let owner = world
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
        drop(self.plain.clone().call(request).await?);
        Ok(())
    }

    async fn watch(&self, request: Request<Body>) -> Reply {
        let cut = self.cuts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let response = self.door.clone().call(request).await?;
        Ok(response.map(|body| {
            let lines = BodyStream::new(body).take_until(Box::pin(cut.cancelled_owned()));
            StreamBody::new(lines).boxed_unsync()
        }))
    }

    async fn discover(&self, request: Request<Body>) -> Reply {
        let dark = self.with(|it| it.dark);
        if dark.is_some_and(|group| request.uri().path().contains(group)) {
            return refused(503, "ServiceUnavailable");
        }
        Ok(self.plain.clone().call(request).await?)
    }
}

fn refused(code: u16, reason: &str) -> Reply {
    let mut status = json!({"reason": reason});
    if code == 429 {
        status["details"] = json!({"retryAfterSeconds": 1});
    }
    respond_status(code, &status)
}

impl Intercept for Way {
    async fn handle(self, request: Request<Body>) -> Reply {
        let agent = request.headers()["user-agent"].to_str()?.to_owned();
        let ours = agent.ends_with("/generic-garbage-collector");
        if !ours && !agent.ends_with("/reader") {
            return self.discover(request).await;
        }
        let path = request.uri().path().to_owned();
        let mut kinds = KINDS.into_iter();
        let kind = kinds.find(|it| path.split('/').any(|part| part == it.plural));
        let kind = kind.as_ref();
        let watches = request.uri().query().is_some_and(|it| it.contains("watch="));
        let verb = match *request.method() {
            Method::GET if kind.is_some_and(|it| path.ends_with(&*it.plural)) => "LIST",
            ref method => method.as_str(),
        };
        let what = format!("{verb} {path}");
        let sent = self.clock.now();
        if ours {
            self.with(|it| it.asked.push(format!("{sent:?} {what}")));
        }
        match self.fate(ours, &what, request.method(), kind) {
            Fate::Done if watches => self.watch(request).await,
            Fate::Done => self.answer(request, &what, Duration::ZERO).await,
            Fate::Broken => Err("the connection broke".into()),
            Fate::Lost => {
                if !watches {
                    drop(self.commit(request, &what, sent).await);
                }
                Err("the answer was lost".into())
            }
            Fate::Hangs => {
                drop(self.commit(request, &what, sent).await);
                std::future::pending().await
            }
            Fate::Slow(time) if watches => {
                self.clock.sleep(time).await;
                self.watch(request).await
            }
            Fate::Slow(time) => self.answer(request, &what, time).await,
            Fate::Late(time) => {
                let later = self.clone();
                drop(self.tasks.spawn(async move {
                    later.clock.sleep(time).await;
                    drop(later.commit(request, &format!("{what}, late"), sent).await);
                }));
                Err("the connection broke".into())
            }
            Fate::Refused(code, reason) => refused(code, reason),
            Fate::Plain(code) => respond(code, format!("{code} page not found\n")),
        }
    }
}
