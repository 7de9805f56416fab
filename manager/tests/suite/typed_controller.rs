//! Controllers that are defined by type, in a manager that is built by its builder.

mod failures;
mod kinds;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::client::{Client, Transport};
use coxswain_manager::controller::{
    Action, Context, Controller, ControllerError, Definition, ReconcileError, TaskContext,
};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::EventType;
use coxswain_manager::manager::{Manager, Options, RunError};
use coxswain_manager::metrics::Registry;
use coxswain_manager::object::{Key, Meta, MetadataOf, Object as _, Resource};
use coxswain_manager::predicate::Predicate;
use coxswain_manager::serve::{Checks, Health, Probes};
use coxswain_manager::source::Trigger;
use coxswain_sandbox::faults::{Faults, Matcher};
use coxswain_sandbox::{Env as SandboxEnv, Sandbox};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Boat",
    namespaced,
    status = "BoatStatus"
)]
struct BoatSpec {
    oars: u32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
struct BoatStatus {
    ready: bool,
}

/// The number of keys of a `ConfigMap` is not read, so that it does not reconcile.
#[derive(Debug, PartialEq, Deserialize)]
struct Immutable {
    metadata: Meta,
    #[serde(default)]
    immutable: bool,
}

coxswain_manager::projection!(Immutable of ConfigMap, annotations: ["kept"]);

/// The keys that were reconciled, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, text: &(impl ToString + ?Sized)) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text.to_string());
    }

    fn count(&self, text: &str) -> usize {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|it| *it == text).count()
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_sorted(&self) -> Vec<String> {
        let mut seen = self.take();
        seen.sort();
        seen
    }
}

struct Fixture {
    env: Env,
    faults: Faults,
    registry: Registry,
    checks: Checks,
    transport: Transport,
    user: Client,
    _tasks: TaskSet,
}

impl Fixture {
    fn new() -> Self {
        let crd = serde_json::to_string(&Boat::crd()).expect("a CRD");
        Self::with_crds(&crd)
    }

    fn with_crds(crds: &str) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let sandbox = Sandbox::builder().env(SandboxEnv::starting_at(now, 1)).crds(crds);
        let (tasks, faults) = (TaskSet::new(), Faults::new());
        let env = Env::starting_at(now, 1, &tasks);
        let service = faults.wrap(sandbox.start().expect("a sandbox").service());
        let registry = Registry::new("test");
        let transport = Transport::from_service(service, "sandbox", "test", &env.clock, &registry);
        let transport = transport.expect("a transport");
        Self {
            user: transport.unfenced("user", None),
            env,
            faults,
            registry,
            checks: Checks::new(),
            transport,
            _tasks: tasks,
        }
    }

    /// Runs a controller in the background.
    fn run(&self, controller: Definition) {
        let (env, transport) = (self.env.clone(), self.transport.clone());
        self.env.tasks.spawn(async move {
            let manager = Manager::builder("test").controller(controller);
            manager
                .run_with(&env, transport, CancellationToken::new())
                .await
                .expect("an orderly end");
        });
    }

    /// Runs a controller in the background, with the metrics and health checks of the fixture.
    fn observe(&self, controller: Definition) {
        let transport = self.transport.clone();
        let manager = Manager::new(
            &self.env,
            &self.registry,
            &self.checks,
            transport,
            Options::new("test"),
        );
        let mut manager = manager.expect("a manager");
        manager.add_controller(controller).expect("a controller");
        let running = manager.run(None, CancellationToken::new());
        self.env
            .tasks
            .spawn(async move { running.await.expect("an orderly end") });
    }

    /// Returns the check of a controller for `/healthz`.
    fn health(&self, controller: &str) -> Health {
        let checks = self.checks.run(Probes::HEALTHZ).into_iter();
        let mut health = checks.filter(|(name, _)| name == controller).map(|(_, it)| it);
        health.next().expect("a check")
    }

    /// Returns the value of a metric with these labels; 0 if it has none.
    fn metric(&self, series: &str) -> u64 {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(series));
        value.map_or(0, |it| it.trim().parse().expect("a number"))
    }

    /// Lets everything that is due happen.
    async fn settle(&self) {
        self.env.clock.sleep(SECOND).await;
    }

    async fn create(&self, resource: &Resource, object: Value) -> Value {
        let created = self.user.create(resource, "default", object.to_string().into());
        created.await.expect("created")
    }

    async fn boat(&self, name: &str) -> Boat {
        let mut boat = Boat::new(name, BoatSpec { oars: 8 });
        boat.metadata.namespace = Some("default".to_owned());
        self.user.api().create(&boat).await.expect("created")
    }

    async fn map(&self, metadata: Value) -> Value {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        self.create(&Resource::of::<ConfigMap>(), map).await
    }

    async fn merge(&self, resource: &Resource, name: &str, patch: Value) {
        let patch = coxswain_manager::client::Patch::merge(&patch);
        let patched = self.user.patch::<Value>(resource, &key(name), patch).await;
        patched.expect("patched");
    }
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

/// Returns a reconcile function that records the keys.
fn record(
    seen: &Seen,
) -> impl Fn(Context<Boat>) -> std::future::Ready<Result<Action, ReconcileError>> + use<> {
    let seen = seen.clone();
    move |ctx| {
        seen.add(ctx.key());
        std::future::ready(Ok(Action::Done))
    }
}

#[tokio::test(start_paused = true)]
async fn sources_enqueue_by_owner_and_by_function() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let (a, b) = (f.boat("a").await, f.boat("b").await);
    f.run(
        Controller::<Boat>::new("boat")
            .owns::<MetadataOf<ConfigMap>>()
            .owns_shared::<Secret>()
            .watches::<Immutable>(|map| {
                let boat = map.metadata.annotations.get("kept");
                boat.map(|name| key(name)).into_iter().collect()
            })
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(seen.take_sorted(), ["default/a", "default/b"]);
    let owner = |boat: &Boat, controller: bool| {
        json!({"apiVersion": "example.com/v1", "kind": "Boat", "name": boat.name_any(), "uid": boat.uid(),
            "controller": controller})
    };
    f.map(json!({"name": "owned", "ownerReferences": [owner(&a, true), owner(&b, false)]}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"], "the controller only");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata":
        {"name": "shared", "ownerReferences": [owner(&a, true), owner(&b, false)]}});
    f.create(&Resource::of::<Secret>(), secret).await;
    f.settle().await;
    assert_eq!(seen.take_sorted(), ["default/a", "default/b"]);
    f.map(json!({"name": "mapped", "annotations": {"kept": "b", "dropped": "a"}}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/b"]);
    let maps = Resource::of::<ConfigMap>();
    f.merge(&maps, "mapped", json!({"data": {"x": "y"}})).await;
    f.settle().await;
    assert_eq!(seen.take(), [""; 0], "the projection has not changed");
    f.merge(&maps, "mapped", json!({"immutable": true})).await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/b"]);
}

#[tokio::test(start_paused = true)]
async fn one_watch_serves_types_metadata_and_projections() {
    let (f, seen) = (Fixture::new(), Seen::default());
    f.run(
        Controller::<Boat>::new("boat")
            .owns::<ConfigMap>()
            .owns::<MetadataOf<ConfigMap>>()
            .watches::<Immutable>(|_| Vec::new())
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(f.faults.open_watches(&Matcher::any().resource("configmaps")), 1);
}

#[tokio::test(start_paused = true)]
async fn filter_applies_to_the_own_objects() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let boats = Resource::of::<Boat>();
    f.boat("a").await;
    let filter = Predicate::generation_changed().or(Predicate::annotations_changed());
    f.run(
        Controller::<Boat>::new("boat")
            .filter(filter)
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"]);
    f.merge(&boats, "a", json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), [""; 0]);
    f.merge(&boats, "a", json!({"metadata": {"annotations": {"x": "y"}}}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"]);
    f.merge(&boats, "a", json!({"spec": {"oars": 4}})).await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"]);
}

#[tokio::test(start_paused = true)]
async fn trigger_enqueues_keys_from_outside() {
    let (f, seen, trigger) = (Fixture::new(), Seen::default(), Trigger::new());
    trigger.send(key("early"));
    trigger.send(key("early"));
    f.run(
        Controller::<Boat>::new("boat")
            .triggered_by(&trigger)
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(seen.take(), ["default/early"], "sent before the term, once");
    trigger.send(key("late"));
    f.settle().await;
    assert_eq!(seen.take(), ["default/late"]);
}

#[tokio::test(start_paused = true)]
async fn existing_object_is_resynced() {
    let (f, seen) = (Fixture::new(), Seen::default());
    f.boat("a").await;
    f.run(
        Controller::<Boat>::new("boat")
            .resync(HOUR)
            .reconcile(record(&seen)),
    );
    f.env.clock.sleep(3 * HOUR + SECOND).await;
    assert_eq!(seen.take(), ["default/a"; 4]);
    let boats = f.user.api::<Boat>();
    let boat = boats.get(&key("a")).await.expect("an answer").expect("a boat");
    assert!(boats.delete(&boat).await.expect("deleted"));
    f.env.clock.sleep(5 * HOUR).await;
    assert_eq!(
        seen.take().len(),
        2,
        "for the deletion, and the resync that was due"
    );
}

#[tokio::test(start_paused = true)]
async fn finalizer_runs_cleanup_before_the_deletion() {
    const FINALIZER: &str = "example.com/boat";
    let (f, seen) = (Fixture::new(), Seen::default());
    let boats = f.user.api::<Boat>();
    let recorded = seen.clone();
    f.run(
        Controller::<Boat>::new("boat").reconcile(move |ctx: Context<Boat>| {
            let (of_apply, of_cleanup) = (recorded.clone(), recorded.clone());
            let apply = async move |ctx: Context<Boat>| {
                let boat = ctx.object().expect("a boat");
                assert!(boat.meta().has_finalizer(FINALIZER));
                ctx.patch_status(&BoatStatus { ready: true }).await?;
                of_apply.add("apply");
                Ok::<_, ReconcileError>(Action::Done)
            };
            let cleanup = async move |_: Context<Boat>| {
                of_cleanup.add("cleanup");
                // The outside system needs two calls.
                let calls = of_cleanup.count("cleanup");
                Ok(if calls < 2 {
                    Action::RequeueAfter(SECOND)
                } else {
                    Action::Done
                })
            };
            ctx.with_finalizer(FINALIZER, apply, cleanup)
        }),
    );
    f.boat("a").await;
    f.settle().await;
    let boat = boats.get(&key("a")).await.expect("an answer").expect("a boat");
    assert_eq!(boat.status, Some(BoatStatus { ready: true }));
    assert!(seen.take().iter().all(|it| it == "apply"));
    assert!(boats.delete(&boat).await.expect("deleted"));
    let terminating = boats
        .get(&key("a"))
        .await
        .expect("an answer")
        .expect("it has a finalizer");
    assert!(terminating.metadata.deletion_timestamp.is_some());
    f.env.clock.sleep(5 * SECOND).await;
    assert_eq!(seen.take(), ["cleanup", "cleanup"]);
    assert!(boats.get(&key("a")).await.expect("an answer").is_none());
}

#[tokio::test(start_paused = true)]
async fn event_is_recorded_about_the_object() {
    let f = Fixture::new();
    f.run(
        Controller::<Boat>::new("boat").reconcile(async |ctx: Context<Boat>| {
            ctx.event(EventType::Warning, "Leaking", "The boat has a leak.");
            Ok::<_, ReconcileError>(Action::Done)
        }),
    );
    f.boat("a").await;
    f.settle().await;
    let events = f.user.api::<Event>();
    let events: Vec<Event> = futures_util::TryStreamExt::try_collect(
        events.list("default", coxswain_manager::client::ListQuery::default()),
    )
    .await
    .expect("a list");
    let [event] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(event.reason.as_deref(), Some("Leaking"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Boat"));
    assert_eq!(event.reporting_component.as_deref(), Some("boat"));
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_rejected() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let controller = || Controller::<Boat>::new("boat").reconcile(record(&seen));
    let manager = Manager::builder("test")
        .controller(controller())
        .controller(controller());
    let ended = manager
        .run_with(&f.env, f.transport.clone(), CancellationToken::new())
        .await;
    assert!(
        matches!(&ended, Err(RunError::Controller(ControllerError::SameName { name })) if name == "boat"),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_run_with_and_without_leadership() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let (of_leader, of_all) = (seen.clone(), seen.clone());
    let task = Definition::task("seed", move |task: TaskContext| {
        let seen = of_leader.clone();
        async move {
            let map = json!({"metadata": {"name": "seed", "namespace": "default"}});
            let map: ConfigMap = serde_json::from_value(map)?;
            task.client.api().create(&map).await?;
            seen.add("leader");
            task.stop.cancelled().await;
            seen.add("leader stopped");
            Ok(())
        }
    });
    let manager = Manager::builder("test")
        .leader_election("default", "test")
        .controller(task)
        .background("all", async move |_, stop: CancellationToken| {
            of_all.add("all");
            stop.cancelled().await;
            of_all.add("all stopped");
            Ok(())
        });
    let lease = json!({"metadata": {"name": "test"}, "spec":
        {"holderIdentity": "another", "leaseDurationSeconds": 15}});
    f.create(&Resource::of::<Lease>(), lease).await;
    let stop = CancellationToken::new();
    let (env, transport, stopping) = (f.env.clone(), f.transport.clone(), stop.clone());
    let running = f
        .env
        .tasks
        .spawn(async move { manager.run_with(&env, transport, stopping).await });
    f.settle().await;
    assert_eq!(seen.take(), ["all"], "the Lease is held");
    f.env.clock.sleep(60 * SECOND).await;
    assert_eq!(seen.take(), ["leader"]);
    stop.cancel();
    running.await.expect("no panic").expect("an orderly end");
    assert_eq!(seen.take(), ["leader stopped", "all stopped"]);
}

#[tokio::test(start_paused = true)]
async fn failed_task_ends_the_manager() {
    let f = Fixture::new();
    let failing = || Definition::task("seed", async |_| Err("no seed".into()));
    let manager = Manager::builder("test").controller(failing());
    let ended = manager
        .run_with(&f.env, f.transport.clone(), CancellationToken::new())
        .await;
    let error = ended.expect_err("it failed").to_string();
    assert!(error.contains("task seed: no seed"), "{error}");
    let manager = Manager::builder("test").background("all", async |_, _| Err("no reason".into()));
    let ended = manager
        .run_with(&f.env, f.transport.clone(), CancellationToken::new())
        .await;
    let error = ended.expect_err("it failed").to_string();
    assert_eq!(error, "background task all failed: no reason");
}
