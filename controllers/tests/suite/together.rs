//! All controllers behind the fault injector: an API server that postpones requests (429, or 503 with Retry-After), and the
//! daily resync.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steersman_controllers::api::app_service::{self, APP_SERVICES};
use steersman_controllers::garbage_collector::discovery::Discovery;
use steersman_controllers::garbage_collector::kinds::{Kind, Kinds};
use steersman_controllers::garbage_collector::{self, GarbageCollector};
use steersman_controllers::replicaset::{self, Metrics, REPLICA_SET};
use steersman_controllers::{appservice, deployment, hollow_kubelet};
use steersman_manager::controller;
use steersman_manager::metrics::Registry;
use steersman_manager::sync::watch;
use steersman_sandbox::faults::{Effect, Refusal};
use tokio::time::Instant;

use crate::fault_injector::Recorded;
use crate::fixture::{ApiFixture, CRDS, DEPLOYMENTS, EVENTS, PODS, SERVICES, SETS, condition};

const RETRY_AFTER: Duration = Duration::from_secs(2);
/// One write in this number is postponed.
const INTERVAL: usize = 23;
const APPS: usize = 8;
const REPLICAS: usize = 5;

type Write = (Method, String, String);

/// A write by method, path and name: a repeated one is equal.
fn identity(write: &Recorded) -> Write {
    let name = write.body["metadata"]["name"].as_str().unwrap_or_default();
    (write.method.clone(), write.path.clone(), name.to_owned())
}

/// Runs all controllers behind the fault injector. Returns their metrics.
fn run_controllers(f: &ApiFixture) -> Vec<Registry> {
    let mut registries = Vec::new();
    let (env, transport) = (&f.env, &f.transport);
    let client = || transport.reader("controller", None);
    let start = |name: &'static str| {
        let registry = Registry::new("steersman");
        let caches = f.caches(transport, "reader", &registry);
        let recorder = f.recorder(transport, name, &registry);
        (registry, caches, recorder)
    };
    let (registry, caches, recorder) = start("appservice-controller");
    let apps = appservice::build(env, &caches, client(), &registry, recorder, 5, None);
    f.run(apps.expect("a controller"));
    registries.push(registry);
    let (registry, caches, recorder) = start("deployment-controller");
    let deployments = deployment::build(env, &caches, client(), &registry, recorder, 5);
    f.run(deployments.expect("a controller"));
    registries.push(registry);
    let (registry, caches, recorder) = start("replicaset-controller");
    let metrics = Metrics::register(&registry).expect("fresh series");
    let kind = &REPLICA_SET;
    let sets = replicaset::build(env, &caches, client(), &registry, recorder, metrics, kind, 5);
    f.run(sets.expect("a controller"));
    registries.push(registry);
    let (registry, caches, _) = start("hollow-kubelet");
    let options = hollow_kubelet::Options {
        nodes: 3,
        delay: Duration::from_secs(1),
        sandbox: true,
    };
    let how = controller::Options::default();
    let hollow = hollow_kubelet::build(env, &caches, client(), &registry, options, how);
    f.run(hollow.expect("a controller"));
    registries.push(registry);
    let (registry, caches, recorder) = start("garbage-collector-controller");
    let resources = [APP_SERVICES, DEPLOYMENTS, SERVICES, SETS, PODS];
    let served: Vec<Kind> = resources.iter().map(|it| Kind::new(it.clone())).collect();
    let kinds = Kinds::new(served, &BTreeSet::from(resources));
    let discovery = Discovery::fixed(watch::Sender::new(Some(Arc::new(kinds))).subscribe());
    let options = garbage_collector::Options::default();
    let client = transport.reader("generic-garbage-collector", None);
    let collector = GarbageCollector::build(env, &caches, client, &registry, recorder, discovery, options);
    f.run(collector.expect("a collector"));
    registries
}

/// Returns an API server with all controllers, and their metrics.
async fn fixture() -> (ApiFixture, Vec<Registry>) {
    let f = ApiFixture::new();
    f.create(&CRDS, &app_service::crd()).await;
    f.sleep(Duration::from_secs(5)).await;
    let registries = run_controllers(&f);
    f.sleep(Duration::from_secs(5)).await;
    (f, registries)
}

/// Reports whether all `AppServices` are ready and all pods have this image.
async fn is_ready(f: &ApiFixture, image: &str) -> bool {
    let (apps, pods) = (f.list(&APP_SERVICES).await, f.list(&PODS).await);
    let is_ready = |it: &Value| {
        it["status"]["observedGeneration"] == it["metadata"]["generation"]
            && condition(it, "Ready").0 == "True"
    };
    apps.iter().all(is_ready)
        && pods.len() == apps.len() * REPLICAS
        && pods
            .iter()
            .all(|it| it["spec"]["containers"][0]["image"] == image)
}

/// Returns the number of reconciles of a controller.
fn reconciles(registry: &Registry) -> f64 {
    let families = registry.gather();
    let total = families
        .iter()
        .find(|it| it.name() == "controller_runtime_reconcile_total");
    let metrics = total.expect("a controller").get_metric().iter();
    metrics.map(|it| it.get_counter().get_value()).sum()
}

fn app(index: usize) -> Value {
    let name = format!("app-{index}");
    let spec = json!({"deploymentName": name, "replicas": REPLICAS, "image": "one", "ports": [{"port": 80}]});
    json!({
        "apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": name}, "spec": spec,
    })
}

async fn wait(f: &ApiFixture, holds: impl AsyncFn() -> bool) {
    assert!(f.eventually(holds).await, "timed out: {:#?}", f.api.counts());
}

/// Postpones one write in [`INTERVAL`]. Returns the postponed writes with their times.
fn throttle(f: &ApiFixture) -> Arc<Mutex<Vec<(Write, Instant)>>> {
    let postponed: Arc<Mutex<Vec<(Write, Instant)>>> = Arc::default();
    let (log, writes) = (Arc::clone(&postponed), Mutex::new(0));
    f.api.inject_all(move |it| {
        if !it.by_controller || it.method == Method::GET {
            return Effect::Pass;
        }
        let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
        *writes += 1;
        if *writes % INTERVAL != 0 {
            return Effect::Pass;
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push((identity(it), it.at));
        let code = if log.len() % 2 == 0 { 503 } else { 429 };
        let seconds = RETRY_AFTER.as_secs().try_into().expect("seconds");
        Effect::Refuse(Refusal::new(code).retry_after(seconds))
    });
    postponed
}

#[tokio::test(start_paused = true)]
async fn postponed_writes_of_a_mass_rollout_are_neither_reported_nor_repeated_early() {
    let (f, _registries) = fixture().await;
    let postponed = throttle(&f);
    for index in 0..APPS {
        f.create(&APP_SERVICES, &app(index)).await;
    }
    wait(&f, async || is_ready(&f, "one").await).await;
    for index in 0..APPS {
        let patch = json!({"spec": {"image": "two"}});
        f.patch(&APP_SERVICES, &format!("app-{index}"), &patch).await;
    }
    wait(&f, async || is_ready(&f, "two").await).await;
    for app in f.list(&APP_SERVICES).await {
        f.delete(&APP_SERVICES, &app).await;
    }
    wait(&f, async || f.list(&PODS).await.is_empty()).await;

    let postponed = postponed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(postponed.len() > 15, "{postponed:?}");
    let recorded = f.api.recorded();
    for (write, at) in postponed {
        let early = |it: &&Recorded| it.at > at && it.at < at + RETRY_AFTER && identity(it) == write;
        let early: Vec<_> = recorded.iter().filter(early).map(|it| it.at - at).collect();
        assert!(early.is_empty(), "{write:?} was sent again after {early:?}");
    }
    for write in recorded {
        let conditions = write.body["status"]["conditions"].as_array();
        for it in conditions.into_iter().flatten() {
            let (type_, status) = (it["type"].as_str(), it["status"].as_str());
            assert_ne!(type_, Some("ReplicaFailure"), "{write:?}");
            assert_ne!((type_, status), (Some("Stalled"), Some("True")), "{write:?}");
            assert_ne!(it["reason"], "ReplicaSetCreateError", "{write:?}");
        }
    }
    let events = f.list(&EVENTS).await;
    let warnings: Vec<_> = events.iter().filter(|it| it["type"] == "Warning").collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

#[tokio::test(start_paused = true)]
async fn resync_at_rest_sends_no_requests() {
    let (f, registries) = fixture().await;
    f.create(&APP_SERVICES, &app(0)).await;
    wait(&f, async || is_ready(&f, "one").await).await;
    // The progress deadline of the rollout is checked after ten minutes.
    f.sleep(Duration::from_mins(20)).await;
    f.api.reset();
    let all = || registries.iter().map(reconciles).collect::<Vec<_>>();
    let before = all();
    f.sleep(Duration::from_hours(23)).await;
    assert_eq!(all(), before, "at rest");
    f.sleep(Duration::from_hours(4)).await;
    let after = all();
    assert!(
        after.iter().zip(&before).all(|(after, before)| after > before),
        "{before:?} {after:?}"
    );
    assert_eq!(f.api.counts(), [].into());
}
