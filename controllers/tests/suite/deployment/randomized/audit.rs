//! Checks invariants after each write of the controller that is executed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use steersman_manager::env::Clock;
use steersman_sandbox::ApiService;
use steersman_sandbox::faults::Matcher;
use tower_service::Service as _;

use super::{FaultInjector, SYNC_MAX, size};
use crate::randomized::DesiredStates;

/// An API service that is not behind a fault layer.
#[derive(Clone)]
struct Direct(ApiService);

/// The desired states and the violations so far.
#[derive(Clone)]
pub struct Audit {
    pub clock: Clock,
    pub state: Arc<Mutex<State>>,
}

/// The bounds of a step.
#[derive(Clone, Copy, Debug)]
struct Limits {
    most: i64,
    /// None for Recreate.
    least: Option<i64>,
}

#[derive(Default)]
pub struct State {
    desired: DesiredStates<Limits>,
    /// Only the controller writes `ReplicaSets`, and pods never become unavailable.
    pub quiet: bool,
    /// Users change templates of `ReplicaSets`.
    pub edited: bool,
    pub wrong: Vec<String>,
    pub commits: usize,
}

struct Snapshot {
    deployment: Value,
    sets: Vec<Value>,
}

impl Snapshot {
    fn total(&self) -> i64 {
        self.sets.iter().map(size).sum()
    }

    /// Returns the number of available pods that remain when all sizes are observed.
    fn available(&self) -> i64 {
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
    pub fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks the state before and after each write that is executed.
    pub fn observe(&self, api: &FaultInjector, service: ApiService) {
        let writes = Matcher::writes().when(|it| it.path.contains("/apps/"));
        let (audit, direct) = (self.clone(), Direct(service));
        api.executed().on(writes).around(move |request| {
            let (audit, mut direct) = (audit.clone(), direct.clone());
            async move {
                let before = direct.snapshot().await;
                async move |_: u16| {
                    let after = direct.snapshot().await;
                    let operation = format!("{} {}", request.method, request.path);
                    audit.check(&operation, &before, &after);
                }
            }
        });
    }

    /// Records the desired state from now on.
    pub fn desire(&self, deployment: &Value) {
        let (now, limits) = (self.clock.now(), limits(deployment));
        self.with(|it| it.desired.push(now, limits));
    }

    pub fn set_lagging(&self, lagging: bool) {
        let now = self.clock.now();
        self.with(|it| it.desired.set_lagging(now, lagging));
    }

    /// Returns the widest limits of the desired states that a write may be based on.
    fn limits(&self) -> Limits {
        let now = self.clock.now();
        self.with(|it| {
            let all = it.desired.within(now, SYNC_MAX);
            all.reduce(|a, b| Limits {
                most: a.most.max(b.most),
                least: a.least.zip(b.least).map(|(a, b)| a.min(b)),
            })
            .expect("a desired state")
        })
    }

    fn wrong(&self, what: String) {
        self.with(|it| it.wrong.push(what));
    }

    /// Checks the effect of a write.
    fn check(&self, what: &str, before: &Snapshot, after: &Snapshot) {
        let Limits { most, least } = self.limits();
        let (quiet, edited) = self.with(|it| {
            it.commits += 1;
            (it.quiet, it.edited)
        });
        let (were, are) = (before.total(), after.total());
        if quiet && are > were && are > most {
            self.wrong(format!("{are} pods of at most {most}, by {what}"));
        }
        let (was, is) = (before.available(), after.available());
        if quiet && least.is_some_and(|least| is < was && is < least) {
            self.wrong(format!("{is} available of at least {least:?}, by {what}"));
        }
        let mut images: BTreeMap<String, usize> = BTreeMap::new();
        for set in &after.sets {
            *images.entry(image_of(set)).or_default() += 1;
        }
        if !edited && images.values().any(|it| *it > 1) {
            self.wrong(format!(
                "several ReplicaSets of a template, by {what}: {images:?}"
            ));
        }
        let observed = |it: &Snapshot| {
            it.deployment["status"]["observedGeneration"]
                .as_i64()
                .unwrap_or(0)
        };
        if observed(after) < observed(before)
            || observed(after) > after.deployment["metadata"]["generation"].as_i64().unwrap_or(0)
        {
            self.wrong(format!("invalid observed generation, by {what}"));
        }
        let is_deleted = |it: &&Value| {
            !after
                .sets
                .iter()
                .any(|that| that["metadata"]["uid"] == it["metadata"]["uid"])
        };
        for set in before.sets.iter().filter(is_deleted) {
            if size(set) + set["status"]["replicas"].as_i64().unwrap_or(0) > 0 {
                self.wrong(format!("a ReplicaSet with pods was deleted, by {what}"));
            }
        }
    }
}

/// Returns the limits of a Deployment.
fn limits(deployment: &Value) -> Limits {
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
    Limits {
        most: replicas + surge,
        least: (spec["strategy"]["type"] == "RollingUpdate").then_some(replicas - unavailable),
    }
}

pub fn image_of(object: &Value) -> String {
    let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap_or_default().to_owned()
}

impl Direct {
    async fn read(&mut self, path: &str) -> Value {
        let path = format!("/apis/apps/v1/namespaces/default/{path}");
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = self.0.call(request).await.expect("an answer");
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn snapshot(&mut self) -> Snapshot {
        let deployment = self.read("deployments/web").await;
        let uid = &deployment["metadata"]["uid"];
        let ours = |it: &Value| it["metadata"]["ownerReferences"][0]["uid"] == *uid;
        let list = self.read("replicasets").await;
        let sets = list["items"].as_array().cloned().unwrap_or_default();
        Snapshot {
            sets: sets.into_iter().filter(ours).collect(),
            deployment,
        }
    }
}
