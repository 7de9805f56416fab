//! The fixture that the controllers' fixtures share: a sandbox, a fault injector in front of it, a paused clock and a client
//! that bypasses the fault injector.

use std::time::Duration;

use jiff::Timestamp;
use prometheus::proto::MetricFamily;
use serde_json::Value;
use steersman_controllers::hollow_kubelet::{self, Options};
use steersman_controllers::replicaset::{self, Metrics, REPLICA_SET};
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::client::{Client, ClientError, Delete, Fence, ListQuery, Patch, Transport, View};
use steersman_manager::controller::{self, Runnable};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::events::Recorder;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource, Uid};
use steersman_sandbox::{Builder, Env as SandboxEnv, InternalController, Sandbox};
use tokio_util::sync::CancellationToken;

use crate::fault_injector::FaultInjector;

pub const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
pub const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
pub const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
pub const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
pub const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");
pub const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
pub const CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

pub struct ApiFixture {
    pub env: Env,
    /// Passes through the fault injector.
    pub transport: Transport,
    /// Bypasses the fault injector.
    pub admin: Client,
    pub sandbox: Sandbox,
    pub api: FaultInjector,
    _tasks: TaskSet,
}

impl ApiFixture {
    pub fn new() -> Self {
        let (start, sandbox) = sandbox();
        Self::over(start, sandbox)
    }

    /// Returns a fixture in which an internal controller of the API server runs in steps only.
    pub fn with_delayed(controller: InternalController) -> Self {
        let (start, builder) = builder();
        let sandbox = builder.delayed(controller).start().expect("a sandbox");
        while sandbox.step(controller) {}
        Self::over(start, sandbox)
    }

    fn over(start: Timestamp, sandbox: Sandbox) -> Self {
        let tasks = TaskSet::new();
        let env = Env::starting_at(start, 7, &tasks);
        let api = FaultInjector::new(sandbox.service());
        Self {
            admin: direct_transport(&sandbox, &env).unfenced("admin", None),
            transport: api.transport(&env.clock),
            env,
            sandbox,
            api,
            _tasks: tasks,
        }
    }

    /// Returns a transport that bypasses the fault injector.
    pub fn direct_transport(&self) -> Transport {
        direct_transport(&self.sandbox, &self.env)
    }

    /// Runs nodes on which pods become ready after `delay`.
    pub fn run_hollow_kubelet(&self, delay: Duration) {
        let (transport, registry) = (self.direct_transport(), &Registry::new("steersman"));
        let caches = self.caches(&transport, "hollow-reader", registry);
        let how = controller::Options {
            workers: 4,
            ..controller::Options::default()
        };
        let options = Options {
            nodes: 3,
            delay,
            sandbox: true,
        };
        let client = transport.reader("hollow-kubelet", None);
        let hollow = hollow_kubelet::build(&self.env, &caches, client, registry, options, how);
        self.run(hollow.expect("a controller"));
    }

    pub fn run_replicaset_controller(&self) {
        let (transport, registry) = (self.direct_transport(), &Registry::new("steersman"));
        let caches = self.caches(&transport, "replica-reader", registry);
        let recorder = self.recorder(&transport, "replicas", registry);
        let metrics = Metrics::register(registry).expect("fresh series");
        let client = transport.reader("replicas", None);
        let (env, kind) = (&self.env, &REPLICA_SET);
        let controller = replicaset::build(env, &caches, client, registry, recorder, metrics, kind, 5);
        self.run(controller.expect("a controller"));
    }

    pub fn caches(&self, transport: &Transport, name: &'static str, registry: &Registry) -> Caches {
        let reader = transport.reader(name, None);
        Caches::new(&self.env, reader, Scope::default(), registry).expect("caches")
    }

    pub fn recorder(&self, transport: &Transport, source: &str, registry: &Registry) -> Recorder {
        let events = transport.unfenced("events", None);
        Recorder::start(&self.env, events, source, "test", registry).expect("a recorder")
    }

    /// Runs a controller until the returned token is cancelled.
    pub fn run(&self, controller: impl Runnable + 'static) -> CancellationToken {
        let fence = Fence::new(self.env.clock.clone());
        let term = fence.open_forever();
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

    /// Deletes an object with its uid as precondition.
    pub async fn delete(&self, resource: &Resource, object: &Value) {
        self.delete_with(resource, object, |it| it).await;
    }

    pub async fn delete_with(&self, resource: &Resource, object: &Value, how: impl FnOnce(Delete) -> Delete) {
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

    /// Returns whether a condition holds within two minutes.
    pub async fn eventually(&self, holds: impl AsyncFn() -> bool) -> bool {
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

/// Returns a sandbox with a fixed seed and its start time: the same requests give the same uids.
pub fn sandbox() -> (Timestamp, Sandbox) {
    let (start, builder) = builder();
    (start, builder.start().expect("a sandbox"))
}

fn builder() -> (Timestamp, Builder) {
    let start = Timestamp::from_second(1_800_000_000).expect("a timestamp");
    (start, Sandbox::builder().env(SandboxEnv::starting_at(start, 7)))
}

/// Returns the status and reason of a condition.
pub fn condition(object: &Value, type_: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|it| it["type"] == type_);
    let text = |field: &str| found.and_then(|it| it[field].as_str()).unwrap_or_default();
    (text("status").to_owned(), text("reason").to_owned())
}

/// Returns the memory that objects of a resource take in the caches.
pub fn cached_bytes(registry: &Registry, plural: &str) -> f64 {
    let families = registry.gather();
    let bytes = families.iter().find(|it| it.name() == "steersman_cache_bytes");
    let metrics = bytes.into_iter().flat_map(MetricFamily::get_metric);
    let of_resource = metrics.filter(|it| it.get_label().iter().any(|label| label.value() == plural));
    of_resource.map(|it| it.get_gauge().get_value()).sum()
}

fn direct_transport(sandbox: &Sandbox, env: &Env) -> Transport {
    let transport = Transport::from_service(
        sandbox.service(),
        "sandbox",
        "test",
        &env.clock,
        &Registry::new("steersman"),
    );
    transport.expect("unregistered metrics")
}

/// Applies a merge patch.
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    for (key, value) in patch {
        merge(&mut into[key], value);
    }
}
