//! The controllers of `ReplicaSets`, `ReplicationControllers` and `AppReplicaSets` on the sandbox, with hollow-kubelet.

mod custom;
mod duplicates;
mod faults;
mod hot_loops;
mod input;
mod large;
mod quota;
mod randomized;
mod replacements;
mod replicas;
mod rules;
mod survival;
mod throttling;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::api::app_replica_set;
use steersman_controllers::hollow_kubelet;
use steersman_controllers::replicaset::{
    self, APP_REPLICA_SET, Metrics, OwnerKind, REPLICA_SET, REPLICATION_CONTROLLER, ReplicaSetReconciler,
};
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::client::{Delete, Fence, Patch, Reader};
use steersman_manager::controller::{QueueController, Runnable};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_sandbox::faults::Effect;
use tokio_util::sync::CancellationToken;

use crate::fault_injector::{FaultInjector, status_reply};
use crate::fixture::{ApiFixture, CRDS, EVENTS, PODS};

struct Fixture {
    base: ApiFixture,
    kind: OwnerKind,
    registry: Registry,
}

/// A sandbox with hollow-kubelet and the controller of one kind.
async fn fixture(kind: OwnerKind) -> Fixture {
    let f = bare(kind).await;
    f.run_hollow_kubelet(Duration::from_secs(1));
    f.start();
    f
}

/// A sandbox without a running controller.
async fn bare(kind: OwnerKind) -> Fixture {
    let base = ApiFixture::new();
    if kind.resource == APP_REPLICA_SET.resource {
        let definition = app_replica_set::crd();
        base.create(&CRDS, &definition).await;
    }
    Fixture {
        base,
        kind,
        registry: Registry::new("steersman"),
    }
}

impl Deref for Fixture {
    type Target = ApiFixture;

    fn deref(&self) -> &ApiFixture {
        &self.base
    }
}

impl DerefMut for Fixture {
    fn deref_mut(&mut self) -> &mut ApiFixture {
        &mut self.base
    }
}

impl Fixture {
    fn start(&self) {
        self.start_in(Scope::default());
    }

    fn start_in(&self, scope: Scope) {
        self.run(self.build(scope));
    }

    fn build(&self, scope: Scope) -> QueueController<ReplicaSetReconciler> {
        self.build_in(&self.env, scope).0
    }

    fn build_in(&self, env: &Env, scope: Scope) -> (QueueController<ReplicaSetReconciler>, Caches) {
        let client = self.transport.reader("controller", None);
        self.build_with(env, scope, client, 5)
    }

    fn build_with(
        &self,
        env: &Env,
        scope: Scope,
        client: Reader,
        workers: usize,
    ) -> (QueueController<ReplicaSetReconciler>, Caches) {
        let registry = &self.registry;
        let reader = self.transport.reader("reader", None);
        let caches = Caches::new(env, reader, scope, registry).expect("caches");
        let recorder = self.recorder(&self.transport, self.kind.component, registry);
        let metrics = Metrics::register(registry).expect("fresh series");
        let kind = &self.kind;
        let controller = replicaset::build(env, &caches, client, registry, recorder, metrics, kind, workers);
        (controller.expect("a controller"), caches)
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

    /// Creates an owner and waits until its pods are ready.
    async fn create_ready(&self, name: &str, replicas: i64) -> Value {
        let owner = self.create_owner(&self.owner(name, replicas)).await;
        self.ready(name, replicas).await;
        owner
    }

    async fn get(&self, name: &str) -> Value {
        let owner = self.read(&self.kind.resource, name).await;
        owner.expect("the owner exists")
    }

    async fn scale_ready(&self, name: &str, replicas: i64) {
        self.scale(name, replicas).await;
        self.ready(name, replicas).await;
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

    /// Waits until the status reports this number of replicas, all available.
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

    /// Holds back all watch events of pods.
    fn hold_pods(&self) {
        self.api.lag().hold_at("pods", self.sandbox.revision());
    }

    /// Returns the value of a metric; `series` is its line without the value.
    fn metric(&self, series: &str) -> Option<f64> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(series))?;
        line.trim().parse().ok()
    }

    /// Waits until a condition holds.
    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        let holds = self.eventually(async || holds(self).await).await;
        assert!(holds, "timed out: {:#?}", self.api.counts());
    }

    /// Returns the reasons of all events, sorted.
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

fn kinds() -> [OwnerKind; 3] {
    [REPLICA_SET, REPLICATION_CONTROLLER, APP_REPLICA_SET]
}
