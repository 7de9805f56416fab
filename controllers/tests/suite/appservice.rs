//! The `AppService` controller against the sandbox, with the controllers of Deployments and pods beside it.

mod crd_lifecycle;
mod deletion_policy;
mod drift;
mod faults;
mod input;
mod name_conflicts;
mod ownership;
mod renaming;
mod requests;
mod schema;
mod steps;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::api::app_service;
use steersman_controllers::appservice;
use steersman_controllers::deployment;
use steersman_controllers::garbage_collector::discovery::Discovery;
use steersman_controllers::garbage_collector::kinds::{Kind, Kinds};
use steersman_controllers::garbage_collector::{self, GarbageCollector};
use steersman_manager::client::{Fence, ListQuery, Patch, Propagation, View};
use steersman_manager::controller::Runnable;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_manager::sync::watch;
use steersman_sandbox::faults::{Effect, Refusal};
use tokio_util::sync::CancellationToken;

use crate::fault_injector::status_reply;
use crate::fixture::{ApiFixture, CRDS, DEPLOYMENTS, EVENTS, PODS, SERVICES, SETS, condition};

const APPS: Resource = app_service::APP_SERVICES;
const FINALIZER: &str = appservice::FINALIZER;

/// The maximum backoff of the work queue. After it a failed sync has been retried without any event.
const BACKOFF_MAX: Duration = Duration::from_secs(1000);

struct Fixture(ApiFixture);

/// Returns a sandbox with the CRD and all controllers.
async fn fixture() -> Fixture {
    let f = without_controller().await;
    f.start_controller();
    f
}

/// Returns a sandbox with all controllers and the `AppService` shop, which is ready.
async fn with_shop() -> Fixture {
    let f = fixture().await;
    f.create_ready(&shop(&json!({}))).await;
    f
}

/// Returns a sandbox with the CRD and all controllers but the one under test.
async fn without_controller() -> Fixture {
    let f = sandbox_only();
    f.create_crd(&app_service::crd()).await;
    f.start_workload_controllers();
    f
}

/// Returns a sandbox with the controller under test only, and the children of one `AppService`.
async fn controller_only(spec: &Value) -> Fixture {
    let f = sandbox_only();
    f.create_crd(&app_service::crd()).await;
    f.start_controller();
    f.create(&APPS, &shop(spec)).await;
    f.sleep(Duration::from_secs(5)).await;
    f.api.reset();
    f
}

/// Returns an empty sandbox.
fn sandbox_only() -> Fixture {
    Fixture(ApiFixture::new())
}

impl Deref for Fixture {
    type Target = ApiFixture;

    fn deref(&self) -> &ApiFixture {
        &self.0
    }
}

impl Fixture {
    /// Creates the CRD, and waits until it is served.
    async fn create_crd(&self, definition: &Value) {
        self.create(&CRDS, definition).await;
        let served = async |f: &Self| {
            let query = ListQuery::default();
            f.admin.list(&APPS, "default", &query, View::Full).await.is_ok()
        };
        self.wait_until(served).await;
    }

    /// Starts the Deployment, `ReplicaSet` and hollow-kubelet controllers.
    fn start_workload_controllers(&self) {
        self.run_hollow_kubelet(Duration::from_secs(1));
        self.run_replicaset_controller();
        let (plain, registry) = (self.direct_transport(), &Registry::new("steersman"));
        let caches = self.caches(&plain, "deployment-reader", registry);
        let recorder = self.recorder(&plain, "deployments", registry);
        let client = plain.reader("deployments", None);
        let controller = deployment::build(&self.env, &caches, client, registry, recorder, 5);
        self.run(controller.expect("a controller"));
    }

    async fn start_garbage_collector(&self) {
        let (plain, registry) = (self.direct_transport(), &Registry::new("steersman"));
        let caches = self.caches(&plain, "gc-reader", registry);
        let recorder = self.recorder(&plain, "gc", registry);
        let resources = [APPS, DEPLOYMENTS, SERVICES, SETS, PODS];
        let served = resources.iter().map(|it| Kind::new(it.clone()));
        let collected: BTreeSet<Resource> = resources.iter().cloned().collect();
        let kinds = Kinds::new(served.collect::<Vec<_>>(), &collected);
        let discovery = Discovery::fixed(watch::Sender::new(Some(Arc::new(kinds))).subscribe());
        let options = garbage_collector::Options::default();
        let client = plain.reader("gc", None);
        let env = &self.env;
        let collector = GarbageCollector::build(env, &caches, client, registry, recorder, discovery, options);
        self.run(collector.expect("a collector"));
        self.sleep(Duration::from_secs(2)).await;
    }

    /// Starts a term of the controller, which lasts until the token is cancelled.
    fn start_controller(&self) -> CancellationToken {
        self.run(self.controller(&self.env, Some("nginx")))
    }

    /// Starts a term of the controller, which crashes when the task set is dropped.
    fn start_controller_until_crash(&self) -> TaskSet {
        let tasks = TaskSet::new();
        let env = Env {
            tasks: tasks.handle(),
            ..self.env.clone()
        };
        let controller = self.controller(&env, Some("nginx"));
        let fence = Fence::new(env.clock.clone());
        let run = async move {
            let term = fence.open_forever();
            controller.run(&fence, term, CancellationToken::new()).await
        };
        drop(env.tasks.spawn(run));
        tasks
    }

    fn controller(&self, env: &Env, image: Option<&str>) -> impl Runnable + use<> {
        let (way, registry) = (&self.transport, &Registry::new("steersman"));
        let caches = self.caches(way, "reader", registry);
        let recorder = self.recorder(way, "appservice-controller", registry);
        let client = way.reader("controller", None);
        let controller = appservice::build(env, &caches, client, registry, recorder, 5, image);
        controller.expect("a controller")
    }

    /// Creates an `AppService`, and waits until it is ready.
    async fn create_ready(&self, body: &Value) -> Value {
        self.create(&APPS, body).await;
        self.wait_ready(body["metadata"]["name"].as_str().expect("a name"))
            .await
    }

    async fn get(&self, resource: &Resource, name: &str) -> Value {
        self.read(resource, name).await.expect("an object")
    }

    async fn exists(&self, resource: &Resource, name: &str) -> bool {
        self.read(resource, name).await.is_some()
    }

    async fn patch_spec(&self, name: &str, spec: &Value) -> Value {
        self.patch(&APPS, name, &json!({"spec": spec})).await
    }

    async fn delete(&self, resource: &Resource, name: &str, propagation: Propagation) {
        let object = self.get(resource, name).await;
        self.delete_with(resource, &object, |it| it.propagating(propagation))
            .await;
    }

    async fn names(&self, resource: &Resource) -> Vec<String> {
        let all = self.list(resource).await;
        all.iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits until an `AppService` is ready, and returns it.
    async fn wait_ready(&self, name: &str) -> Value {
        self.wait_until(async |f| {
            let it = f.get(&APPS, name).await;
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && condition(&it, "Ready").0 == "True"
        })
        .await;
        self.get(&APPS, name).await
    }

    /// Waits until an `AppService` is stalled, and returns the reason.
    async fn wait_stalled(&self, name: &str) -> String {
        self.wait_until(async |f| condition(&f.get(&APPS, name).await, "Stalled").0 == "True")
            .await;
        condition(&self.get(&APPS, name).await, "Stalled").1
    }

    /// Waits until a change that another client kept undoing is corrected, and the `AppService` is ready.
    async fn wait_corrected(&self, holds: impl AsyncFn(&Self) -> bool) {
        // Twice the longest delay: of the correction, and of the condition after it.
        self.sleep(Duration::from_mins(21)).await;
        assert!(holds(self).await, "not corrected");
        self.wait_ready("shop").await;
    }

    async fn wait_until(&self, holds: impl AsyncFn(&Self) -> bool) {
        if self.eventually(async || holds(self).await).await {
            return;
        }
        let (apps, deployments) = (self.list(&APPS).await, self.list(&DEPLOYMENTS).await);
        let counts = self.api.counts();
        panic!("condition not met: {counts:#?} {apps:#?} {deployments:#?}");
    }

    /// Returns reason and count of the events about `AppServices`.
    async fn events(&self) -> Vec<(String, i64)> {
        self.sleep(Duration::from_secs(1)).await;
        let all = self.list(&EVENTS).await;
        let ours = all
            .iter()
            .filter(|it| it["involvedObject"]["kind"] == "AppService");
        let mut events: Vec<(String, i64)> = ours
            .map(|it| {
                (
                    it["reason"].as_str().unwrap_or_default().to_owned(),
                    it["count"].as_i64().unwrap_or(1),
                )
            })
            .collect();
        events.sort();
        events
    }

    /// Returns the number of events with this reason.
    async fn event_count(&self, reason: &str) -> i64 {
        let events = self.events().await;
        events
            .iter()
            .filter(|(it, _)| it == reason)
            .map(|(_, count)| count)
            .sum()
    }
}

/// Returns an `AppService` named shop with the Deployment web.
fn shop(more: &Value) -> Value {
    app("shop", "web", more)
}

fn app(name: &str, deployment: &str, more: &Value) -> Value {
    let mut spec = json!({"deploymentName": deployment, "replicas": 2, "image": "nginx"});
    crate::fixture::merge(&mut spec, more);
    json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": name}, "spec": spec})
}

/// Returns a Deployment of another client.
fn foreign(name: &str) -> Value {
    let labels = json!({"app": "foreign"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "theirs"}]}}},
    })
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
