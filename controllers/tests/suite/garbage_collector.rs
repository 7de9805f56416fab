//! The garbage collector: the requests that it sends, and its handling of the responses.

mod cold_start;
mod conflicts;
mod duplicates;
mod faults;
mod graph_metrics;
mod isolation;
mod large_objects;
mod live_lists;
mod orphaning;
mod outages;
mod randomized;
mod request_counts;
mod rules;
mod slow_server;
mod startup;
mod unreadable_resources;
mod unresolvable_owners;
mod virtual_owners;
mod warm_standby;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::garbage_collector::discovery::Discovery;
use steersman_controllers::garbage_collector::kinds::{Kind, Kinds};
use steersman_controllers::garbage_collector::{GarbageCollector, Options};
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::client::{
    Client, Delete, Fence, ListQuery, Patch, Propagation, Reader, Transport, View,
};
use steersman_manager::controller::Runnable;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::events::Recorder;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource, Uid};
use steersman_manager::sync::watch;
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::Effect;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fault_injector::{FaultInjector, Recorded, status_reply, text_reply};
use crate::fixture::{CRDS, EVENTS, MAPS, NAMESPACES, PODS, SETS, sandbox};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");
const ROLES: Resource = Resource::cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
const WIDGETS: Resource = Resource::namespaced("test.dev", "v1", "widgets", "Widget");
const HOUR: Duration = Duration::from_hours(1);

struct Fixture {
    env: Env,
    transport: Transport,
    admin: Client,
    sandbox: Sandbox,
    api: FaultInjector,
    registry: Registry,
    kinds: watch::Sender<Option<Arc<Kinds>>>,
    /// Notified when the collector requests a discovery.
    refresh: Arc<Notify>,
    _tasks: TaskSet,
}

/// Returns the kinds of `resources`, all of them collected.
fn kinds_of(resources: &[Resource]) -> Arc<Kinds> {
    let served = resources
        .iter()
        .map(|it| Kind::new(it.clone()))
        .collect::<Vec<_>>();
    let collected: BTreeSet<Resource> = resources.iter().cloned().collect();
    Arc::new(Kinds::new(served, &collected))
}

/// Returns a fixture whose collector is not started.
fn unstarted() -> Fixture {
    let (start, sandbox) = sandbox();
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let api = FaultInjector::new(sandbox.service());
    let kinds = kinds_of(&[MAPS, SECRETS, PODS, NODES, ROLES, SETS]);
    Fixture {
        admin: api.transport(&env.clock).unfenced("admin", None),
        transport: api.transport(&env.clock),
        env: env.clone(),
        sandbox,
        api: api.clone(),
        registry: Registry::new("steersman"),
        kinds: watch::Sender::new(Some(kinds)),
        refresh: Arc::default(),
        _tasks: tasks,
    }
}

/// Returns a fixture with a running, synced collector.
async fn fixture() -> Fixture {
    let f = unstarted();
    f.start().await;
    f
}

impl Fixture {
    async fn start(&self) {
        self.run(self.build(Options::default(), Scope::default()));
        // The caches sync.
        self.sleep(Duration::from_secs(2)).await;
    }

    fn build(&self, options: Options, scope: Scope) -> GarbageCollector {
        let client = self.transport.reader("generic-garbage-collector", None);
        self.build_with(client, options, scope)
    }

    fn build_with(&self, client: Reader, options: Options, scope: Scope) -> GarbageCollector {
        let (env, registry) = (&self.env, &self.registry);
        let reader = self.transport.reader("reader", None);
        let caches = Caches::new(env, reader, scope, registry).expect("caches");
        let events = self.transport.unfenced("events", None);
        let name = "garbage-collector-controller";
        let recorder = Recorder::start(env, events, name, "test", registry).expect("a recorder");
        let mut discovery = Discovery::fixed(self.kinds.subscribe());
        discovery.refresh = Arc::clone(&self.refresh);
        GarbageCollector::build(env, &caches, client, registry, recorder, discovery, options)
            .expect("a collector")
    }

    /// Runs the collector in a term without an end.
    fn run(&self, collector: impl Into<Arc<GarbageCollector>>) {
        let collector = collector.into();
        let fence = Fence::new(self.env.clock.clone());
        let term = fence.open_forever();
        let run = async move {
            let ended = collector.run(&fence, term, CancellationToken::new()).await;
            panic!("the collector stopped: {ended:?}");
        };
        drop(self.env.tasks.spawn(run));
    }

    /// Creates the CRD of widgets and adds them to the collected kinds.
    async fn define_widgets(&self) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.test.dev"},
            "spec": {
                "group": "test.dev", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let created: Result<Value, _> = self.admin.create(&CRDS, "", crd.to_string().into()).await;
        created.expect("created");
        self.until(async |f| {
            let query = ListQuery::default();
            f.admin
                .list(&WIDGETS, "default", &query, View::Full)
                .await
                .is_ok()
        })
        .await;
        let all = [MAPS, SECRETS, PODS, NODES, ROLES, SETS, WIDGETS];
        self.kinds.send_replace(Some(kinds_of(&all)));
        self.sleep(Duration::from_secs(2)).await;
    }

    async fn create(&self, resource: &Resource, name: &str, owners: &[Value]) -> Value {
        let body = object(resource, name, owners);
        let namespace = if resource.namespaced { "default" } else { "" };
        let created = self.admin.create(resource, namespace, body.to_string().into());
        created.await.expect("created")
    }

    /// Creates a Secret that owns `count` `ConfigMaps`.
    async fn create_owner(&self, name: &str, count: usize) -> Value {
        let owner = self.create(&SECRETS, name, &[]).await;
        self.create_dependents(&MAPS, &owner, count).await;
        owner
    }

    async fn create_dependents(&self, resource: &Resource, owner: &Value, count: usize) {
        for i in 0..count {
            self.create(resource, &format!("dependent-{i}"), &[reference(owner)])
                .await;
        }
        self.settle().await;
    }

    async fn get(&self, resource: &Resource, name: &str) -> Option<Value> {
        self.admin.get(resource, &key(resource, name)).await.ok()
    }

    async fn list(&self, resource: &Resource) -> Vec<Value> {
        let query = ListQuery::default();
        let namespace = if resource.namespaced { "default" } else { "" };
        let page = self.admin.list(resource, namespace, &query, View::Full).await;
        let list: Value = serde_json::from_slice(&page.expect("a list")).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    async fn patch(&self, resource: &Resource, name: &str, patch: &Value) -> Value {
        let patched = self
            .admin
            .patch(resource, &key(resource, name), Patch::merge(patch))
            .await;
        patched.expect("patched")
    }

    async fn delete(&self, resource: &Resource, object: &Value, policy: Propagation) {
        let uid = Uid::from(object["metadata"]["uid"].as_str().expect("a uid"));
        let name = object["metadata"]["name"].as_str().expect("a name");
        let delete = Delete::of(uid).propagating(policy);
        let deleted = self.admin.delete(resource, &key(resource, name), &delete).await;
        deleted.expect("deleted");
    }

    /// Returns the number of remaining dependents.
    async fn left(&self, resource: &Resource) -> usize {
        let all = self.list(resource).await;
        let name = |it: &Value| it["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        all.iter().filter(|it| name(it).starts_with("dependent-")).count()
    }

    /// Waits for the watch events of earlier writes.
    async fn settle(&self) {
        self.sleep(Duration::from_millis(500)).await;
    }

    async fn sleep(&self, time: Duration) {
        self.env.clock.sleep(time).await;
    }

    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        for _ in 0..1200 {
            if holds(self).await {
                return;
            }
            self.sleep(Duration::from_millis(100)).await;
        }
        panic!("timed out; requests: {:#?}", self.api.counts());
    }

    /// Returns the value of a series, given as in the text format.
    fn metric(&self, series: &str) -> Option<f64> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(series))?;
        line.trim().parse().ok()
    }
}

fn key(resource: &Resource, name: &str) -> Key {
    if resource.namespaced {
        Key::new("default", name)
    } else {
        Key::cluster(name)
    }
}

fn object(resource: &Resource, name: &str, owners: &[Value]) -> Value {
    let mut body = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"name": name, "ownerReferences": owners},
    });
    let pod = json!({"containers": [{"name": "main", "image": "nginx"}]});
    if *resource == PODS {
        body["spec"] = pod;
    } else if *resource == SETS {
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        body["spec"] = json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template});
    }
    body
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

/// Returns a reference with `blockOwnerDeletion`.
fn blocking(owner: &Value) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

/// Returns a reference to an object that never existed.
fn dangling(resource: &Resource, name: &str) -> Value {
    json!({"apiVersion": resource.api_version(), "kind": resource.kind, "name": name,
           "uid": "00000000-0000-4000-8000-000000000001"})
}
