//! Controllers that are defined by type, in a manager that is built by its builder.

mod conditions;
mod context;
mod failures;
mod kinds;
mod sources;
mod tasks;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_manager::client::{Client, Transport};
use steersman_manager::controller::{Action, Context, Controller, Definition, ReconcileError};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::manager::{Manager, Options};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_sandbox::faults::Faults;
use steersman_sandbox::{Env as SandboxEnv, Sandbox};
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
        let running = manager.run(CancellationToken::new());
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
        let patch = steersman_manager::client::Patch::merge(&patch);
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
