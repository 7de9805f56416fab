//! The replica engine at the API, with hollow-kubelet for a cluster.

mod circles;
mod custom;
mod duplicates;
mod faults;
mod input;
mod large;
mod quota;
mod replacements;
mod replicas;
mod rules;
mod storm;
mod survival;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use coxswain_controllers::api::app_replica_set;
use coxswain_controllers::hollow_kubelet;
use coxswain_controllers::replicaset::{
    self, APP_REPLICA_SET, Kind, Metrics, REPLICA_SET, REPLICATION_CONTROLLER, ReplicaSetReconciler,
};
use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::client::{Delete, Fence, Patch};
use coxswain_manager::controller::{Controller, Runnable};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::object::Key;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fault_injector::{Fault, FaultInjector};
use crate::fixture::{ApiFixture, DEFINITIONS, EVENTS, PODS};

struct Fixture {
    ground: ApiFixture,
    kind: Kind,
    registry: Registry,
}

/// An API with a cluster and the engine for one kind.
async fn fixture(kind: Kind) -> Fixture {
    let f = bare(kind).await;
    f.run_hollow_kubelet(Duration::from_secs(1));
    f.engine();
    f
}

/// An API.
async fn bare(kind: Kind) -> Fixture {
    let ground = ApiFixture::new();
    if kind.resource == APP_REPLICA_SET.resource {
        let definition = app_replica_set::crd();
        ground.create(&DEFINITIONS, &definition).await;
    }
    Fixture {
        ground,
        kind,
        registry: Registry::new(),
    }
}

impl Deref for Fixture {
    type Target = ApiFixture;

    fn deref(&self) -> &ApiFixture {
        &self.ground
    }
}

impl DerefMut for Fixture {
    fn deref_mut(&mut self) -> &mut ApiFixture {
        &mut self.ground
    }
}

impl Fixture {
    fn engine(&self) {
        self.engine_in(Scope::default());
    }

    fn engine_in(&self, scope: Scope) {
        self.run(self.build(scope));
    }

    fn build(&self, scope: Scope) -> Controller<ReplicaSetReconciler> {
        self.build_in(&self.env, scope).0
    }

    fn build_in(&self, env: &Env, scope: Scope) -> (Controller<ReplicaSetReconciler>, Caches) {
        let registry = &self.registry;
        let reader = self.transport.client("reader", None);
        let caches = Caches::new(env, reader, scope, registry).expect("caches");
        let recorder = self.recorder(&self.transport, self.kind.source, registry);
        let metrics = Metrics::register(registry).expect("fresh series");
        let client = self.transport.client("controller", None);
        let engine = replicaset::build(env, &caches, client, registry, recorder, metrics, &self.kind, 5);
        (engine.expect("a controller"), caches)
    }

    fn owner(&self, name: &str, replicas: i64) -> Value {
        let labels = json!({"app": name});
        let selector = match &*self.kind.resource.kind {
            "ReplicationController" => labels.clone(),
            _ => json!({"matchLabels": labels}),
        };
        json!({
            "apiVersion": self.kind.resource.api_version(),
            "kind": self.kind.resource.kind,
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": selector,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
                },
            },
        })
    }

    async fn create_owner(&self, body: &Value) -> Value {
        self.create(&self.kind.resource, body).await
    }

    async fn get(&self, name: &str) -> Value {
        let owner = self.read(&self.kind.resource, name).await;
        owner.expect("it is there")
    }

    async fn scale(&self, name: &str, replicas: i64) {
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch(&self.kind.resource, name, &patch).await;
    }

    /// The active pods.
    async fn pods(&self) -> Vec<Value> {
        let mut pods = self.list(&PODS).await;
        pods.retain(|it| {
            let phase = it["status"]["phase"].as_str().unwrap_or_default();
            it["metadata"].get("deletionTimestamp").is_none() && !["Failed", "Succeeded"].contains(&phase)
        });
        pods
    }

    /// Waits until so many pods serve, and the status says so.
    async fn ready(&self, name: &str, replicas: i64) {
        self.until(async |f| {
            let owner = f.get(name).await;
            let count = |field: &str| owner["status"][field].as_i64().unwrap_or(0);
            owner["status"]["observedGeneration"] == owner["metadata"]["generation"]
                && [
                    "replicas",
                    "readyReplicas",
                    "availableReplicas",
                    "fullyLabeledReplicas",
                ]
                .iter()
                .all(|it| count(it) == replicas)
                && count("terminatingReplicas") == 0
        })
        .await;
    }

    /// From now on nobody is told of what becomes of pods.
    fn hold_pods(&self) {
        self.api.lag().hold_at("pods", self.sandbox.revision());
    }

    /// The value of a series, by the text of its line without the value.
    fn metric(&self, series: &str) -> Option<f64> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(series))?;
        line.trim().parse().ok()
    }

    /// Waits for something to come true.
    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        let holds = self.eventually(async || holds(self).await).await;
        assert!(holds, "it never comes true: {:#?}", self.api.counts());
    }

    /// The reasons of events, each as often as it was given.
    async fn reasons(&self) -> Vec<String> {
        let events = self.list(&EVENTS).await;
        let mut reasons: Vec<String> = events
            .iter()
            .map(|it| it["reason"].as_str().unwrap_or_default().to_owned())
            .collect();
        reasons.sort();
        reasons
    }
}

fn kinds() -> [Kind; 3] {
    [REPLICA_SET, REPLICATION_CONTROLLER, APP_REPLICA_SET]
}
