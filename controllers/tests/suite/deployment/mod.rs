//! The Deployment controller at the API, with the replica engine and hollow-kubelet beside it.

mod adoption;
mod faults;
mod input;
mod rollouts;
mod storm;
mod survival;
mod webhook;

use std::time::Duration;

use coxswain_controllers::deployment;
use coxswain_controllers::hollow_kubelet::{self, Options};
use coxswain_controllers::replicaset::{self, Metrics, REPLICA_SET};
use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::client::{Client, Delete, Fence, ListQuery, Patch, Transport, View};
use coxswain_manager::controller::{self, Runnable};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::Recorder;
use coxswain_manager::object::{Key, Resource, Uid};
use coxswain_sandbox::{Env as SandboxEnv, Options as SandboxOptions, Sandbox};
use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::door::{Answer, Watched};

const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");

const REVISION: &str = "deployment.kubernetes.io/revision";

struct Bed {
    env: Env,
    transport: Transport,
    admin: Client,
    sandbox: Sandbox,
    door: Watched,
    _tasks: TaskSet,
}

/// An API with a cluster, the replica engine and the Deployment controller.
fn bed() -> Bed {
    let bed = bare();
    bed.cluster(Duration::from_secs(1));
    bed.replicas();
    bed.deployments();
    bed
}

/// An API with a cluster and the replica engine, which have a door of their own: what is done to the other one, nobody but
/// the Deployment controller notices.
fn apart() -> Bed {
    let mut bed = bare();
    let plain = Transport::over(
        bed.sandbox.door(),
        "sandbox",
        "test",
        &bed.env.clock,
        &Registry::new(),
    );
    let plain = plain.expect("a way to the sandbox");
    bed.admin = plain.unfenced("admin", None);
    let held = std::mem::replace(&mut bed.transport, plain);
    bed.cluster(Duration::from_secs(1));
    bed.replicas();
    bed.transport = held;
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
    Bed {
        admin: over(&Registry::new()).unfenced("admin", None),
        transport: over(&Registry::new()),
        env: env.clone(),
        sandbox,
        door: door.clone(),
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

    fn replicas(&self) {
        let (env, registry) = (&self.env, &Registry::new());
        let caches = self.caches("replica-reader", registry);
        let events = self.transport.unfenced("replica-events", None);
        let recorder = Recorder::start(env, events, "replicas", "test", registry).expect("a recorder");
        let metrics = Metrics::register(registry).expect("fresh series");
        let client = self.transport.client("replicas", None);
        let engine = replicaset::build(env, &caches, client, registry, recorder, metrics, &REPLICA_SET, 5);
        self.run(engine.expect("a controller"));
    }

    /// Begins a term of the controller, which lasts until the answer is cancelled.
    fn deployments(&self) -> CancellationToken {
        let (env, registry) = (&self.env, &Registry::new());
        let caches = self.caches("reader", registry);
        let events = self.transport.unfenced("events", None);
        let recorder = Recorder::start(env, events, "deployment-controller", "test", registry);
        let client = self.transport.client("engine", None);
        let recorder = recorder.expect("a recorder");
        let controller = deployment::build(env, &caches, client, registry, recorder, 5);
        self.run(controller.expect("a controller"))
    }

    fn caches(&self, name: &'static str, registry: &Registry) -> Caches {
        let reader = self.transport.client(name, None);
        Caches::new(&self.env, reader, Scope::default(), registry).expect("caches")
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

    async fn create(&self, resource: &Resource, body: &Value) -> Value {
        let created = self.admin.create(resource, "default", body.to_string().into());
        created.await.expect("created")
    }

    /// Creates a Deployment, and waits until all its pods serve.
    async fn deploy(&self, body: &Value) -> Value {
        self.create(&DEPLOYMENTS, body).await;
        let name = body["metadata"]["name"].as_str().expect("a name");
        self.complete(name).await
    }

    async fn read(&self, resource: &Resource, name: &str) -> Option<Value> {
        self.admin.get(resource, &Key::new("default", name)).await.ok()
    }

    async fn get(&self, name: &str) -> Value {
        self.read(&DEPLOYMENTS, name).await.expect("it is there")
    }

    async fn patch(&self, resource: &Resource, name: &str, patch: &Value) -> Value {
        let key = Key::new("default", name);
        let patched = self.admin.patch(resource, &key, Patch::merge(patch)).await;
        patched.expect("patched")
    }

    /// Changes what a Deployment wants.
    async fn want(&self, name: &str, spec: &Value) -> Value {
        self.patch(&DEPLOYMENTS, name, &json!({"spec": spec})).await
    }

    async fn delete(&self, resource: &Resource, object: &Value) {
        let uid = Uid::from(object["metadata"]["uid"].as_str().expect("a uid"));
        let key = Key::new("default", object["metadata"]["name"].as_str().expect("a name"));
        let deleted = self.admin.delete(resource, &key, &Delete::of(uid)).await;
        deleted.expect("deleted");
    }

    async fn list(&self, resource: &Resource) -> Vec<Value> {
        let query = ListQuery::default();
        let page = self.admin.list(resource, "default", &query, View::Full).await;
        let list: Value = serde_json::from_slice(&page.expect("a list")).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The sets, by revision.
    async fn sets(&self) -> Vec<Value> {
        let mut sets = self.list(&SETS).await;
        sets.sort_by_key(|it| {
            it["metadata"]["annotations"][REVISION]
                .as_str()
                .and_then(|it| it.parse::<i64>().ok())
        });
        sets
    }

    /// The images of active pods.
    async fn images(&self) -> Vec<String> {
        let mut pods = self.list(&PODS).await;
        pods.retain(|it| it["metadata"].get("deletionTimestamp").is_none());
        let image = |it: &Value| {
            it["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let mut images: Vec<String> = pods.iter().map(image).collect();
        images.sort();
        images
    }

    /// Waits until a rollout is at its end, and answers the Deployment.
    async fn complete(&self, name: &str) -> Value {
        self.until(async |bed| {
            let it = bed.get(name).await;
            let count = |field: &str| it["status"][field].as_i64().unwrap_or(0);
            let all = it["spec"]["replicas"].as_i64().unwrap_or(0);
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && [
                    "replicas",
                    "updatedReplicas",
                    "availableReplicas",
                    "readyReplicas",
                ]
                .iter()
                .all(|it| count(it) == all)
                && count("unavailableReplicas") + count("terminatingReplicas") == 0
        })
        .await;
        self.get(name).await
    }

    /// Waits for something to come true.
    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        for _ in 0..1200 {
            if holds(self).await {
                return;
            }
            self.sleep(Duration::from_millis(100)).await;
        }
        let deployments = self.list(&DEPLOYMENTS).await;
        let sets = self.list(&SETS).await;
        panic!(
            "it never comes true: {:#?} {deployments:#?} {sets:#?}",
            self.door.counts()
        );
    }

    async fn sleep(&self, time: Duration) {
        self.env.clock.sleep(time).await;
    }

    /// The reasons and messages of the events about Deployments.
    async fn events(&self) -> Vec<(String, String)> {
        let events = self.list(&EVENTS).await;
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let ours = events
            .iter()
            .filter(|it| it["involvedObject"]["kind"] == "Deployment");
        ours.map(|it| (text(&it["reason"]), text(&it["message"])))
            .collect()
    }

    async fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self
            .events()
            .await
            .into_iter()
            .map(|(reason, _)| reason)
            .collect();
        reasons.sort();
        reasons
    }
}

/// A Deployment called web.
fn web(replicas: i64, image: &str) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

/// What makes of it a Deployment with another image.
fn image(image: &str) -> Value {
    json!({"template": {"spec": {"containers": [{"name": "main", "image": image}]}}})
}

fn condition(deployment: &Value, type_: &str) -> (String, String) {
    let conditions = deployment["status"]["conditions"]
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

fn revision(object: &Value) -> &str {
    object["metadata"]["annotations"][REVISION]
        .as_str()
        .unwrap_or_default()
}

fn size(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap_or(0)
}
