//! The `AppService` controller at the API, with all that makes its Deployments come alive beside it.

mod claims;
mod costs;
mod drift;
mod faults;
mod input;
mod kinds;
mod policies;
mod renaming;
mod schema;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coxswain_controllers::appservice;
use coxswain_controllers::deployment;
use coxswain_controllers::garbage_collector::kinds::{Kind, Kinds};
use coxswain_controllers::garbage_collector::{self, GarbageCollector, Known};
use coxswain_controllers::hollow_kubelet::{self, Options};
use coxswain_controllers::replicaset::{self, Metrics, REPLICA_SET};
use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::client::{
    Client, ClientError, Delete, Fence, ListQuery, Patch, Propagation, Transport, View,
};
use coxswain_manager::controller::{self, Runnable};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::Recorder;
use coxswain_manager::object::{Key, Resource, Uid};
use coxswain_sandbox::{Env as SandboxEnv, Options as SandboxOptions, Sandbox};
use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::door::{Answer, Watched};

const APPS: Resource = appservice::APP_SERVICES;
const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");
const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
const CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
const FINALIZER: &str = appservice::policy::FINALIZER;

struct Bed {
    env: Env,
    transport: Transport,
    admin: Client,
    sandbox: Sandbox,
    door: Watched,
    _tasks: TaskSet,
}

/// An API with the kind, a cluster, and all controllers.
async fn bed() -> Bed {
    let bed = apart().await;
    bed.apps();
    bed
}

/// The same without the controller under test.
async fn apart() -> Bed {
    let bed = bare();
    bed.define(&appservice::definition()).await;
    bed.cluster();
    bed
}

/// An API.
fn bare() -> Bed {
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
    let plain = Transport::over(sandbox.door(), "sandbox", "test", &env.clock, &Registry::new());
    Bed {
        admin: plain.expect("a way to the sandbox").unfenced("admin", None),
        transport: over(&Registry::new()),
        env: env.clone(),
        sandbox,
        door: door.clone(),
        _tasks: tasks,
    }
}

impl Bed {
    /// Has a kind served.
    async fn define(&self, definition: &Value) {
        let body = definition.to_string().into();
        let _: Value = self.admin.create(&CRDS, "", body).await.expect("defined");
        let served = async |bed: &Self| {
            let query = ListQuery::default();
            bed.admin.list(&APPS, "default", &query, View::Full).await.is_ok()
        };
        self.until(served).await;
    }

    /// All that makes pods of Deployments; they have a door of their own, so that what is done to the other one nobody
    /// else notices.
    fn cluster(&self) {
        let plain = Transport::over(
            self.sandbox.door(),
            "sandbox",
            "test",
            &self.env.clock,
            &Registry::new(),
        );
        let plain = plain.expect("a way to the sandbox");
        let (env, registry) = (&self.env, &Registry::new());
        let caches = Caches::new(env, plain.client("rest-reader", None), Scope::default(), registry);
        let caches = caches.expect("caches");
        let recorder = |name: &str| {
            let events = plain.unfenced("rest-events", None);
            Recorder::start(env, events, name, "test", registry).expect("a recorder")
        };
        let how = controller::Options {
            workers: 4,
            ..controller::Options::default()
        };
        let options = Options {
            nodes: 3,
            delay: Duration::from_secs(1),
            sandbox: true,
        };
        let client = plain.client("hollow-kubelet", None);
        let hollow = hollow_kubelet::build(env, &caches, client, registry, options, how);
        self.run(hollow.expect("a controller"));
        let metrics = Metrics::register(registry).expect("fresh series");
        let client = plain.client("replicas", None);
        let events = recorder("replicas");
        let engine = replicaset::build(env, &caches, client, registry, events, metrics, &REPLICA_SET, 5);
        self.run(engine.expect("a controller"));
        let client = plain.client("deployments", None);
        let roller = deployment::build(env, &caches, client, registry, recorder("deployments"), 5);
        self.run(roller.expect("a controller"));
    }

    /// Has what nobody owns any more collected.
    async fn collect(&self) {
        let plain = Transport::over(
            self.sandbox.door(),
            "sandbox",
            "test",
            &self.env.clock,
            &Registry::new(),
        );
        let plain = plain.expect("a way to the sandbox");
        let (env, registry) = (&self.env, &Registry::new());
        let caches = Caches::new(env, plain.client("gc-reader", None), Scope::default(), registry);
        let events = plain.unfenced("gc-events", None);
        let recorder = Recorder::start(env, events, "gc", "test", registry).expect("a recorder");
        let resources = [APPS, DEPLOYMENTS, SERVICES, SETS, PODS];
        let served = resources.iter().map(|it| Kind::new(it.clone(), *it == APPS));
        let collected: BTreeSet<Resource> = resources.iter().cloned().collect();
        let kinds = Kinds::new(served.collect::<Vec<_>>(), &collected);
        let known = Known {
            kinds: watch::Sender::new(Some(Arc::new(kinds))).subscribe(),
            problems: Box::new(Vec::new),
        };
        let options = garbage_collector::Options::default();
        let client = plain.client("gc", None);
        let collector = GarbageCollector::build(
            env,
            &caches.expect("caches"),
            client,
            registry,
            recorder,
            known,
            options,
        );
        self.run(collector.expect("a collector"));
        self.sleep(Duration::from_secs(2)).await;
    }

    /// Begins a term of the controller, which lasts until the answer is cancelled.
    fn apps(&self) -> CancellationToken {
        let (env, registry) = (&self.env, &Registry::new());
        let reader = self.transport.client("reader", None);
        let caches = Caches::new(env, reader, Scope::default(), registry).expect("caches");
        let events = self.transport.unfenced("events", None);
        let recorder = Recorder::start(env, events, "appservice-controller", "test", registry);
        let client = self.transport.client("engine", None);
        let recorder = recorder.expect("a recorder");
        let controller = appservice::build(env, &caches, client, registry, recorder, 5);
        self.run(controller.expect("a controller"))
    }

    /// Runs a controller in a term that lasts until it is stopped.
    fn run(&self, controller: impl Runnable + 'static) -> CancellationToken {
        let fence = Fence::new(self.env.clock.clone());
        let term = fence.open_for_ever();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let run = async move { controller.run(&fence, term, stopped).await };
        drop(self.env.tasks.spawn(run));
        stop
    }

    async fn try_create(&self, resource: &Resource, body: &Value) -> Result<Value, ClientError> {
        let namespace = if resource.namespaced { "default" } else { "" };
        self.admin
            .create(resource, namespace, body.to_string().into())
            .await
    }

    async fn create(&self, resource: &Resource, body: &Value) -> Value {
        self.try_create(resource, body).await.expect("created")
    }

    /// Creates an `AppService`, and waits until it is ready.
    async fn serve(&self, body: &Value) -> Value {
        self.create(&APPS, body).await;
        self.ready(body["metadata"]["name"].as_str().expect("a name"))
            .await
    }

    async fn read(&self, resource: &Resource, name: &str) -> Option<Value> {
        self.admin.get(resource, &Key::new("default", name)).await.ok()
    }

    async fn get(&self, resource: &Resource, name: &str) -> Value {
        self.read(resource, name).await.expect("it is there")
    }

    async fn exists(&self, resource: &Resource, name: &str) -> bool {
        self.read(resource, name).await.is_some()
    }

    async fn patch(&self, resource: &Resource, name: &str, patch: &Value) -> Value {
        let key = Key::new("default", name);
        let patched = self.admin.patch(resource, &key, Patch::merge(patch)).await;
        patched.expect("patched")
    }

    /// Changes what an `AppService` wants.
    async fn want(&self, name: &str, spec: &Value) -> Value {
        self.patch(&APPS, name, &json!({"spec": spec})).await
    }

    async fn delete(&self, resource: &Resource, name: &str, propagation: Propagation) {
        let object = self.get(resource, name).await;
        let uid = Uid::from(object["metadata"]["uid"].as_str().expect("a uid"));
        let delete = Delete::of(uid).propagating(propagation);
        let deleted = self
            .admin
            .delete(resource, &Key::new("default", name), &delete)
            .await;
        deleted.expect("deleted");
    }

    async fn list(&self, resource: &Resource) -> Vec<Value> {
        let query = ListQuery::default();
        let page = self.admin.list(resource, "default", &query, View::Full).await;
        let list: Value = serde_json::from_slice(&page.expect("a list")).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    async fn names(&self, resource: &Resource) -> Vec<String> {
        let all = self.list(resource).await;
        all.iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits until all that an `AppService` asks for is there, and it says so. Answers it.
    async fn ready(&self, name: &str) -> Value {
        self.until(async |bed| {
            let it = bed.get(&APPS, name).await;
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && condition(&it, "Ready").0 == "True"
        })
        .await;
        self.get(&APPS, name).await
    }

    /// Waits until something stops an `AppService`. Answers what.
    async fn stalled(&self, name: &str) -> String {
        self.until(async |bed| condition(&bed.get(&APPS, name).await, "Stalled").0 == "True")
            .await;
        condition(&self.get(&APPS, name).await, "Stalled").1
    }

    /// Waits for something to come true.
    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        for _ in 0..1200 {
            if holds(self).await {
                return;
            }
            self.sleep(Duration::from_millis(100)).await;
        }
        let (apps, deployments) = (self.list(&APPS).await, self.list(&DEPLOYMENTS).await);
        panic!(
            "it never comes true: {:#?} {apps:#?} {deployments:#?}",
            self.door.counts()
        );
    }

    async fn sleep(&self, time: Duration) {
        self.env.clock.sleep(time).await;
    }

    /// The reasons of the events about `AppServices`, and how often each was told.
    async fn told(&self) -> Vec<(String, i64)> {
        self.sleep(Duration::from_secs(1)).await;
        let events = self.list(&EVENTS).await;
        let ours = events
            .iter()
            .filter(|it| it["involvedObject"]["kind"] == "AppService");
        let mut told: Vec<(String, i64)> = ours
            .map(|it| {
                (
                    it["reason"].as_str().unwrap_or_default().to_owned(),
                    it["count"].as_i64().unwrap_or(1),
                )
            })
            .collect();
        told.sort();
        told
    }

    /// How often this was told.
    async fn told_of(&self, reason: &str) -> i64 {
        let told = self.told().await;
        told.iter()
            .filter(|(it, _)| it == reason)
            .map(|(_, count)| count)
            .sum()
    }
}

/// An `AppService` called shop, with a Deployment called web.
fn shop(more: &Value) -> Value {
    app("shop", "web", more)
}

fn app(name: &str, deployment: &str, more: &Value) -> Value {
    let mut spec = json!({"deploymentName": deployment, "replicas": 2});
    crate::door::merge(&mut spec, more);
    json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": name}, "spec": spec})
}

/// A Deployment that is nobody's.
fn foreign(name: &str) -> Value {
    let labels = json!({"app": "foreign"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "theirs"}]}}},
    })
}

/// Status and reason of a condition.
fn condition(object: &Value, type_: &str) -> (String, String) {
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions.iter().find(|it| it["type"] == type_);
    let text = |field: &str| {
        found
            .and_then(|it| it[field].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"))
}

fn owners(object: &Value) -> usize {
    object["metadata"]["ownerReferences"]
        .as_array()
        .map_or(0, Vec::len)
}

fn image(deployment: &Value) -> &str {
    let containers = &deployment["spec"]["template"]["spec"]["containers"];
    containers[0]["image"].as_str().unwrap_or_default()
}
