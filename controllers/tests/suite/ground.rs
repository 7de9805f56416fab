//! What controllers are tested on: an API in the same process with a door to it that is watched, a clock that does not pass
//! by itself, and hands to do something from outside. Each room builds its bed on it.

use std::time::Duration;

use coxswain_controllers::hollow_kubelet::{self, Options};
use coxswain_controllers::replicaset::{self, Metrics, REPLICA_SET};
use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::client::{Client, ClientError, Delete, Fence, ListQuery, Patch, Transport, View};
use coxswain_manager::controller::{self, Runnable};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::Recorder;
use coxswain_manager::object::{Key, Resource, Uid};
use coxswain_sandbox::{Env as SandboxEnv, Options as SandboxOptions, Sandbox};
use jiff::Timestamp;
use prometheus::Registry;
use prometheus::proto::MetricFamily;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::door::Watched;

pub const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
pub const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
pub const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");
pub const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
pub const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

pub struct Ground {
    pub env: Env,
    /// The way of what is under test, through the door that is watched.
    pub transport: Transport,
    /// What people do, is not held up.
    pub admin: Client,
    pub sandbox: Sandbox,
    pub door: Watched,
    _tasks: TaskSet,
}

impl Ground {
    pub fn new() -> Self {
        let start = Timestamp::from_second(1_800_000_000).expect("a time");
        let sandbox = Sandbox::new(SandboxOptions {
            env: SandboxEnv::starting_at(start, 7),
            ..SandboxOptions::default()
        });
        let tasks = TaskSet::new();
        let env = Env::starting_at(start, 7, &tasks);
        let door = Watched::new(sandbox.door(), &env.clock);
        let transport = Transport::over(door.clone(), "sandbox", "test", &env.clock, &Registry::new());
        Self {
            admin: plain(&sandbox, &env).unfenced("admin", None),
            transport: transport.expect("a way to the sandbox"),
            env,
            sandbox,
            door,
            _tasks: tasks,
        }
    }

    /// A way past the door that is watched.
    pub fn plain(&self) -> Transport {
        plain(&self.sandbox, &self.env)
    }

    /// Nodes on which pods come to serve after this time.
    pub fn cluster(&self, delay: Duration) {
        let (plain, registry) = (self.plain(), &Registry::new());
        let caches = self.caches(&plain, "hollow-reader", registry);
        let how = controller::Options {
            workers: 4,
            ..controller::Options::default()
        };
        let options = Options {
            nodes: 3,
            delay,
            sandbox: true,
        };
        let client = plain.client("hollow-kubelet", None);
        let hollow = hollow_kubelet::build(&self.env, &caches, client, registry, options, how);
        self.run(hollow.expect("a controller"));
    }

    /// What makes pods of replica sets.
    pub fn replicas(&self) {
        let (plain, registry) = (self.plain(), &Registry::new());
        let caches = self.caches(&plain, "replica-reader", registry);
        let recorder = self.recorder(&plain, "replicas", registry);
        let metrics = Metrics::register(registry).expect("fresh series");
        let client = plain.client("replicas", None);
        let (env, kind) = (&self.env, &REPLICA_SET);
        let engine = replicaset::build(env, &caches, client, registry, recorder, metrics, kind, 5);
        self.run(engine.expect("a controller"));
    }

    pub fn caches(&self, way: &Transport, name: &'static str, registry: &Registry) -> Caches {
        let reader = way.client(name, None);
        Caches::new(&self.env, reader, Scope::default(), registry).expect("caches")
    }

    pub fn recorder(&self, way: &Transport, source: &str, registry: &Registry) -> Recorder {
        let events = way.unfenced("events", None);
        Recorder::start(&self.env, events, source, "test", registry).expect("a recorder")
    }

    /// Runs a controller in a term that lasts until the answer is cancelled.
    pub fn run(&self, controller: impl Runnable + 'static) -> CancellationToken {
        let fence = Fence::new(self.env.clock.clone());
        let term = fence.open_for_ever();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let run = async move { controller.run(&fence, term, stopped).await };
        drop(self.env.tasks.spawn(run));
        stop
    }

    pub async fn try_create(&self, resource: &Resource, body: &Value) -> Result<Value, ClientError> {
        let namespace = if resource.namespaced { "default" } else { "" };
        let body = body.to_string().into();
        self.admin.create(resource, namespace, body).await
    }

    pub async fn create(&self, resource: &Resource, body: &Value) -> Value {
        self.try_create(resource, body).await.expect("created")
    }

    pub async fn read(&self, resource: &Resource, name: &str) -> Option<Value> {
        self.admin.get(resource, &Key::new("default", name)).await.ok()
    }

    pub async fn patch(&self, resource: &Resource, name: &str, patch: &Value) -> Value {
        let key = Key::new("default", name);
        let patched = self.admin.patch(resource, &key, Patch::merge(patch)).await;
        patched.expect("patched")
    }

    /// Deletes the object that is shown, and no other.
    pub async fn delete(&self, resource: &Resource, object: &Value) {
        self.delete_by(resource, object, |it| it).await;
    }

    pub async fn delete_by(&self, resource: &Resource, object: &Value, how: impl FnOnce(Delete) -> Delete) {
        let uid = Uid::from(object["metadata"]["uid"].as_str().expect("a uid"));
        let key = Key::new("default", object["metadata"]["name"].as_str().expect("a name"));
        let deleted = self.admin.delete(resource, &key, &how(Delete::of(uid))).await;
        deleted.expect("deleted");
    }

    pub async fn list(&self, resource: &Resource) -> Vec<Value> {
        let query = ListQuery::default();
        let page = self.admin.list(resource, "default", &query, View::Full).await;
        let list: Value = serde_json::from_slice(&page.expect("a list")).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits for something to come true within two minutes; whether it did.
    pub async fn comes_true(&self, holds: impl AsyncFn() -> bool) -> bool {
        for _ in 0..1200 {
            if holds().await {
                return true;
            }
            self.sleep(Duration::from_millis(100)).await;
        }
        false
    }

    pub async fn sleep(&self, time: Duration) {
        self.env.clock.sleep(time).await;
    }
}

/// Status and reason of a condition.
pub fn condition(object: &Value, type_: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|it| it["type"] == type_);
    let text = |field: &str| found.and_then(|it| it[field].as_str()).unwrap_or_default();
    (text("status").to_owned(), text("reason").to_owned())
}

/// Returns the memory that objects of a resource take in the caches.
pub fn cached_bytes(registry: &Registry, plural: &str) -> f64 {
    let families = registry.gather();
    let bytes = families.iter().find(|it| it.name() == "coxswain_cache_bytes");
    let metrics = bytes.into_iter().flat_map(MetricFamily::get_metric);
    let of_resource = metrics.filter(|it| it.get_label().iter().any(|label| label.value() == plural));
    of_resource.map(|it| it.get_gauge().get_value()).sum()
}

fn plain(sandbox: &Sandbox, env: &Env) -> Transport {
    let way = Transport::over(sandbox.door(), "sandbox", "test", &env.clock, &Registry::new());
    way.expect("a way to the sandbox")
}
