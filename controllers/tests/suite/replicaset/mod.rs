//! The replica engine at the API, with hollow-kubelet for a cluster.

mod circles;
mod custom;
mod faults;
mod input;
mod replicas;
mod rules;
mod storm;
mod survival;

use std::time::Duration;

use coxswain_controllers::hollow_kubelet::{self, Options};
use coxswain_controllers::replicaset::{
    self, APP_REPLICA_SET, Engine, Kind, Metrics, REPLICA_SET, REPLICATION_CONTROLLER,
};
use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::client::{Client, Delete, Fence, ListQuery, Patch, Transport, View};
use coxswain_manager::controller::{self, Controller, Runnable};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::Recorder;
use coxswain_manager::object::{Key, Resource, Uid};
use coxswain_sandbox::{Env as SandboxEnv, Options as SandboxOptions, Sandbox};
use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::door::{Answer, Watched};

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");

struct Bed {
    env: Env,
    kind: Kind,
    transport: Transport,
    admin: Client,
    sandbox: Sandbox,
    door: Watched,
    registry: Registry,
    _tasks: TaskSet,
}

/// An API with a cluster and the engine for one kind.
async fn bed(kind: Kind) -> Bed {
    let bed = bare(kind).await;
    bed.cluster(Duration::from_secs(1));
    bed.engine();
    bed
}

/// An API.
async fn bare(kind: Kind) -> Bed {
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    let sandbox = Sandbox::new(SandboxOptions {
        env: SandboxEnv::starting_at(start, 7),
        ..SandboxOptions::default()
    });
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let door = Watched::new(sandbox.door(), &env.clock);
    let over = |registry: &Registry| {
        Transport::over(door.clone(), "sandbox", "test", &env.clock, registry).expect("a way to the sandbox")
    };
    let admin = over(&Registry::new()).unfenced("admin", None);
    if kind.resource == APP_REPLICA_SET.resource {
        let definition = replicaset::app_replica_set::definition().to_string();
        let defined: Result<Value, _> = admin.create(&DEFINITIONS, "", definition.into()).await;
        defined.expect("defined");
        door.reset();
    }
    Bed {
        admin,
        transport: over(&Registry::new()),
        env: env.clone(),
        kind,
        sandbox,
        door: door.clone(),
        registry: Registry::new(),
        _tasks: tasks,
    }
}

impl Bed {
    fn cluster(&self, delay: Duration) {
        let registry = Registry::new();
        let caches = Caches::new(&self.env, self.admin.clone(), Scope::default(), &registry).expect("caches");
        let how = controller::Options {
            workers: 4,
            ..controller::Options::default()
        };
        let options = Options {
            nodes: 3,
            delay,
            sandbox: true,
        };
        let client = self.transport.client("hollow-kubelet", None);
        let hollow = hollow_kubelet::build(&self.env, &caches, client, &registry, options, how);
        self.run(hollow.expect("a controller"));
    }

    fn engine(&self) {
        self.engine_in(Scope::default());
    }

    fn engine_in(&self, scope: Scope) {
        self.run(self.build(scope));
    }

    fn build(&self, scope: Scope) -> Controller<Engine> {
        self.build_in(&self.env, scope).0
    }

    fn build_in(&self, env: &Env, scope: Scope) -> (Controller<Engine>, Caches) {
        let registry = &self.registry;
        let reader = self.transport.client("reader", None);
        let caches = Caches::new(env, reader, scope, registry).expect("caches");
        let events = self.transport.unfenced("events", None);
        let recorder = Recorder::start(env, events, self.kind.source, "test", registry).expect("a recorder");
        let metrics = Metrics::register(registry).expect("fresh series");
        let client = self.transport.client("engine", None);
        let engine = replicaset::build(env, &caches, client, registry, recorder, metrics, &self.kind, 5);
        (engine.expect("a controller"), caches)
    }

    /// Runs a controller in a term that does not end.
    fn run(&self, controller: impl Runnable + 'static) {
        let fence = Fence::new(self.env.clock.clone());
        let term = fence.open_for_ever();
        let run = async move { controller.run(&fence, term, CancellationToken::new()).await };
        drop(self.env.tasks.spawn(run));
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

    async fn create(&self, resource: &Resource, body: &Value) -> Value {
        let created = self.admin.create(resource, "default", body.to_string().into());
        created.await.expect("created")
    }

    async fn create_owner(&self, body: &Value) -> Value {
        self.create(&self.kind.resource, body).await
    }

    async fn get(&self, name: &str) -> Value {
        let key = Key::new("default", name);
        self.admin
            .get(&self.kind.resource, &key)
            .await
            .expect("it is there")
    }

    async fn patch(&self, resource: &Resource, name: &str, patch: &Value) -> Value {
        let key = Key::new("default", name);
        let patched = self.admin.patch(resource, &key, Patch::merge(patch)).await;
        patched.expect("patched")
    }

    async fn scale(&self, name: &str, replicas: i64) {
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch(&self.kind.resource, name, &patch).await;
    }

    async fn list(&self, resource: &Resource) -> Vec<Value> {
        let query = ListQuery::default();
        let page = self.admin.list(resource, "default", &query, View::Full).await;
        let list: Value = serde_json::from_slice(&page.expect("a list")).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
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

    async fn delete(&self, resource: &Resource, object: &Value) {
        let uid = Uid::from(object["metadata"]["uid"].as_str().expect("a uid"));
        let key = Key::new("default", object["metadata"]["name"].as_str().expect("a name"));
        let deleted = self.admin.delete(resource, &key, &Delete::of(uid)).await;
        deleted.expect("deleted");
    }

    /// Waits until so many pods serve, and the status says so.
    async fn ready(&self, name: &str, replicas: i64) {
        self.until(async |bed| {
            let owner = bed.get(name).await;
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
        self.door.lag().hold_at("pods", self.sandbox.revision());
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
        for _ in 0..600 {
            if holds(self).await {
                return;
            }
            self.sleep(Duration::from_millis(100)).await;
        }
        panic!("it never comes true: {:#?}", self.door.counts());
    }

    async fn sleep(&self, time: Duration) {
        self.env.clock.sleep(time).await;
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
