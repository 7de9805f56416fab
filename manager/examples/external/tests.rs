//! The controller with a store in memory, on an API server in the same process and on a paused clock.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::CustomResourceExt as _;
use serde_json::json;
use steersman_manager::client::{Client, ListQuery, Patch, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::manager::Manager;
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_sandbox::{Env as SandboxEnv, Sandbox};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::store::{Folder, Store};
use super::{Bucket, BucketSpec, BucketStatus, RESYNC, controller};

const NAME: &str = "default.photos";

/// A store in memory.
struct FakeStore {
    env: Env,
    user: Client,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buckets: BTreeMap<String, u32>,
    /// The error of each request; none if the store is available.
    outage: Option<&'static str>,
    /// The times of the requests.
    requests: Vec<Instant>,
    /// Whether the Bucket existed at each successful deletion.
    deletions: Vec<bool>,
}

impl FakeStore {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }

    fn request(&self) -> io::Result<()> {
        let now = self.env.clock.now();
        let outage = self.with(|state| {
            state.requests.push(now);
            state.outage
        });
        outage.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    fn quota(&self) -> Option<u32> {
        self.with(|state| state.buckets.get(NAME).copied())
    }
}

impl Store for FakeStore {
    async fn ensure(&self, name: &str, quota: u32) -> io::Result<bool> {
        self.request()?;
        let old = self.with(|state| state.buckets.insert(name.to_owned(), quota));
        Ok(old != Some(quota))
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        self.request()?;
        let exists = { self.user.api::<Bucket>().get(&key()).await }.map_err(io::Error::other)?;
        self.with(|state| {
            state.buckets.remove(name);
            state.deletions.push(exists.is_some());
        });
        Ok(())
    }
}

/// A running controller, its API server and store, and a client of a user.
struct Fixture {
    env: Env,
    store: Arc<FakeStore>,
    user: Client,
    _tasks: TaskSet,
}

impl Fixture {
    fn start() -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let crd = serde_json::to_string(&Bucket::crd()).expect("a CRD");
        let sandbox = Sandbox::builder().env(SandboxEnv::starting_at(now, 1)).crds(crd);
        let service = sandbox.start().expect("a sandbox").service();
        let tasks = TaskSet::new();
        let env = Env::starting_at(now, 1, &tasks);
        let transport =
            Transport::from_service(service, "sandbox", "external", &env.clock, &Registry::new("test"));
        let transport = transport.expect("a transport");
        let user = transport.unfenced("user", None);
        let store = Arc::new(FakeStore {
            env: env.clone(),
            user: user.clone(),
            state: Mutex::default(),
        });
        let (of_manager, controller) = (env.clone(), controller(store.clone()));
        env.tasks.spawn(async move {
            let external = Manager::builder("external").controller(controller);
            let stop = CancellationToken::new();
            let ended = external.run_with(&of_manager, transport, stop).await;
            ended.expect("an orderly end");
        });
        Self {
            env,
            store,
            user,
            _tasks: tasks,
        }
    }

    async fn create(&self, quota: &str) {
        let quota = quota.to_owned();
        let mut bucket = Bucket::new("photos", BucketSpec { quota });
        bucket.metadata.namespace = Some("default".to_owned());
        self.user.api().create(&bucket).await.expect("created");
    }

    async fn get(&self) -> Option<Bucket> {
        self.user.api().get(&key()).await.expect("an answer")
    }

    async fn delete(&self) {
        let bucket = self.get().await.expect("a Bucket");
        assert!(self.user.api().delete(&bucket).await.expect("deleted"));
    }

    /// Waits until the status is `ready` with `message`.
    async fn status(&self, ready: bool, message: &str) {
        let message = message.to_owned();
        let status = Some(BucketStatus { ready, message });
        self.wait(async || self.get().await.expect("a Bucket").status == status)
            .await;
    }

    /// Waits until a condition holds.
    async fn wait(&self, holds: impl AsyncFn() -> bool) {
        let wait = async {
            while !holds().await {
                self.env.clock.sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = self.env.clock.timeout(Duration::from_mins(1), wait).await;
        waited.expect("a condition that holds within a minute");
    }

    /// Returns type, reason and count of all events.
    async fn events(&self) -> Vec<(String, String, i32)> {
        let events = self.user.api::<Event>().list("default", ListQuery::default());
        let events: Vec<_> = events.try_collect().await.expect("a list");
        let parts = |it: Event| Some((it.type_?, it.reason?, it.count?));
        events.into_iter().filter_map(parts).collect()
    }

    async fn has_event(&self, type_: &str, reason: &str) {
        let is_event = |it: &(String, String, i32)| it.0 == type_ && it.1 == reason;
        self.wait(async || self.events().await.iter().any(is_event)).await;
    }
}

fn key() -> Key {
    Key::new("default", "photos")
}

#[tokio::test(start_paused = true)]
async fn bucket_is_created_and_updated_in_the_store() {
    let fixture = Fixture::start();
    fixture.create("10Gi").await;
    fixture.status(true, "").await;
    assert_eq!(fixture.store.quota(), Some(10));
    fixture.has_event("Normal", "Synced").await;
    let patch = Patch::merge(&json!({"spec": {"quota": "20Gi"}}));
    let buckets = fixture.user.api::<Bucket>();
    buckets.patch(&key(), patch).await.expect("patched");
    fixture.wait(async || fixture.store.quota() == Some(20)).await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_after_the_resync_period() {
    let fixture = Fixture::start();
    fixture.create("10Gi").await;
    fixture.status(true, "").await;
    fixture.store.with(|state| state.buckets.clear());
    fixture.env.clock.sleep(RESYNC / 10 * 9).await;
    assert_eq!(fixture.store.quota(), None, "no request before");
    fixture.env.clock.sleep(RESYNC / 10 * 2).await;
    assert_eq!(fixture.store.quota(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn outage_is_reported_and_retried_with_growing_backoff() {
    let fixture = Fixture::start();
    fixture
        .store
        .with(|state| state.outage = Some("connection refused"));
    fixture.create("10Gi").await;
    fixture
        .status(false, "Cannot sync the bucket: connection refused.")
        .await;
    fixture.has_event("Warning", "FailedSync").await;
    fixture.env.clock.sleep(Duration::from_secs(1)).await;
    let requests = fixture.store.with(|state| state.requests.clone());
    let waits: Vec<_> = { requests.windows(2) }
        .map(|it| (it[1] - it[0]).as_millis())
        .collect();
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320]);

    fixture.store.with(|state| state.outage = None);
    fixture.status(true, "").await;
    assert_eq!(fixture.store.quota(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn invalid_quota_is_not_retried_before_the_resync() {
    let fixture = Fixture::start();
    fixture.create("many").await;
    fixture
        .status(false, "spec.quota must be a number of Gi, such as 10Gi.")
        .await;
    fixture.env.clock.sleep(Duration::from_mins(9)).await;
    let event = ("Warning".to_owned(), "InvalidQuota".to_owned(), 1);
    assert_eq!(fixture.events().await, [event], "one reconcile");
    let patch = Patch::merge(&json!({"spec": {"quota": "10Gi"}}));
    let buckets = fixture.user.api::<Bucket>();
    buckets.patch(&key(), patch).await.expect("patched");
    fixture.status(true, "").await;
}

#[tokio::test(start_paused = true)]
async fn bucket_is_deleted_from_the_store_before_the_object_disappears() {
    let fixture = Fixture::start();
    fixture.create("10Gi").await;
    fixture.status(true, "").await;
    fixture.delete().await;
    fixture.wait(async || fixture.get().await.is_none()).await;
    assert_eq!(fixture.store.quota(), None);
    assert_eq!(fixture.store.with(|state| state.deletions.clone()), [true]);
}

#[tokio::test(start_paused = true)]
async fn failed_cleanup_keeps_the_object() {
    let fixture = Fixture::start();
    fixture.create("10Gi").await;
    fixture.status(true, "").await;
    fixture.store.with(|state| state.outage = Some("timeout"));
    fixture.delete().await;
    fixture.status(false, "Cannot delete the bucket: timeout.").await;
    fixture.has_event("Warning", "FailedDelete").await;
    fixture.env.clock.sleep(Duration::from_mins(1)).await;
    assert!(fixture.get().await.is_some());
    assert_eq!(fixture.store.quota(), Some(10));
    fixture.store.with(|state| state.outage = None);
    fixture.env.clock.sleep(Duration::from_mins(2)).await;
    assert!(fixture.get().await.is_none());
    assert_eq!(fixture.store.quota(), None);
}

#[tokio::test]
async fn folder_repeats_requests_without_an_error() {
    let folder = tempfile::tempdir().expect("a directory");
    let store = Folder(folder.path().to_owned());
    for (quota, changed) in [(1, true), (1, false), (2, true)] {
        assert_eq!(store.ensure(NAME, quota).await.expect("stored"), changed);
    }
    for _ in 0..2 {
        store.delete(NAME).await.expect("deleted");
    }
    let missing = Folder(folder.path().join("missing"));
    missing.ensure(NAME, 1).await.expect_err("no such directory");
}
