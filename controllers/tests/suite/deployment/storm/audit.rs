//! Looks at what each write of the controller has done, and remembers what may not be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use coxswain_manager::env::Clock;
use coxswain_sandbox::Door;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tower_service::Service as _;

use super::{FaultInjector, SYNC, size};
use crate::intercept::{Intercept, Reply};
use crate::randomized::{self, DesiredStates};

/// The controller's way to the API, with somebody who looks at what each write has done.
#[derive(Clone)]
pub struct Audited {
    pub way: FaultInjector,
    pub plain: Door,
    pub audit: Audit,
}

/// What may be, and what was wrong.
#[derive(Clone)]
pub struct Audit {
    pub clock: Clock,
    pub book: Arc<Mutex<Book>>,
}

/// How far a step may go.
#[derive(Clone, Copy, Debug)]
struct Reach {
    most: i64,
    /// None if all may go at once.
    least: Option<i64>,
}

#[derive(Default)]
pub struct Book {
    wants: DesiredStates<Reach>,
    /// Nobody but the controller touches sets, and pods only come to serve.
    pub quiet: bool,
    /// Templates of sets are changed by hand.
    pub edited: bool,
    pub wrong: Vec<String>,
    pub commits: usize,
}

/// What there is.
struct World {
    deployment: Value,
    sets: Vec<Value>,
}

impl World {
    fn total(&self) -> i64 {
        self.sets.iter().map(size).sum()
    }

    /// How many pods serve, and will when all have followed.
    fn serving(&self) -> i64 {
        let of = |it: &Value| {
            it["status"]["availableReplicas"]
                .as_i64()
                .unwrap_or(0)
                .min(size(it))
        };
        self.sets.iter().map(of).sum()
    }
}

impl Audit {
    pub fn with<T>(&self, with: impl FnOnce(&mut Book) -> T) -> T {
        with(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A Deployment is what is asked for from now on.
    pub fn wants(&self, deployment: &Value) {
        let (now, reach) = (self.clock.now(), reach(deployment));
        self.with(|it| it.wants.push(now, reach));
    }

    pub fn held(&self, held: bool) {
        let now = self.clock.now();
        self.with(|it| it.wants.set_lagging(now, held));
    }

    /// How far a write that arrives now may have been made to go.
    fn reach(&self) -> Reach {
        let now = self.clock.now();
        self.with(|it| {
            let all = it.wants.within(now, SYNC);
            all.reduce(|a, b| Reach {
                most: a.most.max(b.most),
                least: a.least.zip(b.least).map(|(a, b)| a.min(b)),
            })
            .expect("something is asked for")
        })
    }

    fn wrong(&self, what: String) {
        self.with(|it| it.wrong.push(what));
    }

    /// Looks at what a write has done.
    fn look(&self, what: &str, before: &World, after: &World) {
        let Reach { most, least } = self.reach();
        let (quiet, edited) = self.with(|it| {
            it.commits += 1;
            (it.quiet, it.edited)
        });
        let (were, are) = (before.total(), after.total());
        if quiet && are > were && are > most {
            self.wrong(format!("{are} pods of at most {most}, by {what}"));
        }
        let (served, serve) = (before.serving(), after.serving());
        if quiet && least.is_some_and(|least| serve < served && serve < least) {
            self.wrong(format!("{serve} serve of at least {least:?}, by {what}"));
        }
        let mut images: BTreeMap<String, usize> = BTreeMap::new();
        for set in &after.sets {
            *images.entry(image_of(set)).or_default() += 1;
        }
        if !edited && images.values().any(|it| *it > 1) {
            self.wrong(format!("more than one of a template, by {what}: {images:?}"));
        }
        let observed = |it: &World| {
            it.deployment["status"]["observedGeneration"]
                .as_i64()
                .unwrap_or(0)
        };
        if observed(after) < observed(before)
            || observed(after) > after.deployment["metadata"]["generation"].as_i64().unwrap_or(0)
        {
            self.wrong(format!("the observed generation goes astray, by {what}"));
        }
        let went = |it: &&Value| {
            !after
                .sets
                .iter()
                .any(|that| that["metadata"]["uid"] == it["metadata"]["uid"])
        };
        for set in before.sets.iter().filter(went) {
            if size(set) + set["status"]["replicas"].as_i64().unwrap_or(0) > 0 {
                self.wrong(format!("a set that has pods went, by {what}"));
            }
        }
    }
}

/// How far a Deployment may go.
fn reach(deployment: &Value) -> Reach {
    let spec = &deployment["spec"];
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let rolling = &spec["strategy"]["rollingUpdate"];
    let amount = |field: &str, round: i64| match &rolling[field] {
        Value::String(share) => {
            let share: i64 = share.trim_end_matches('%').parse().expect("a percentage");
            (share * replicas + round) / 100
        }
        number => number.as_i64().unwrap_or(0),
    };
    let (surge, unavailable) = (amount("maxSurge", 99), amount("maxUnavailable", 0));
    let unavailable = if surge + unavailable == 0 { 1 } else { unavailable };
    Reach {
        most: replicas + surge,
        least: (spec["strategy"]["type"] == "RollingUpdate").then_some(replicas - unavailable),
    }
}

pub fn image_of(object: &Value) -> String {
    let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap_or_default().to_owned()
}

impl Audited {
    async fn read(&mut self, path: &str) -> Value {
        let path = format!("/apis/apps/v1/namespaces/default/{path}");
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = self.plain.call(request).await.expect("an answer");
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn world(&mut self) -> World {
        let deployment = self.read("deployments/web").await;
        let uid = &deployment["metadata"]["uid"];
        let ours = |it: &Value| it["metadata"]["ownerReferences"][0]["uid"] == *uid;
        let list = self.read("replicasets").await;
        let sets = list["items"].as_array().cloned().unwrap_or_default();
        World {
            sets: sets.into_iter().filter(ours).collect(),
            deployment,
        }
    }
}

impl Intercept for Audited {
    async fn handle(mut self, request: Request<Body>) -> Reply {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if method == Method::GET || !path.contains("/apps/") {
            return self.way.clone().handle(request).await;
        }
        let before = self.world().await;
        let answer = randomized::unless_hanging(self.way.clone().handle(request)).await;
        let after = self.world().await;
        self.audit.look(&format!("{method} {path}"), &before, &after);
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}
