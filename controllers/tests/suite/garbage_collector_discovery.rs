//! Discovery of the collected kinds, with injected faults.

mod aggregated;
mod crds;
mod failures;
mod fault_injector;
mod registrations;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_controllers::garbage_collector::discovery::Discovery;
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::client::{Client, Delete, Patch};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, MetaObject, Resource};
use steersman_sandbox::Sandbox;
use tokio::time::Instant;

use self::fault_injector::FaultInjector;
use crate::fixture::{CRDS, NAMESPACES};

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    env: Env,
    api: FaultInjector,
    admin: Client,
    caches: Caches,
    discovery: Discovery,
    registry: Registry,
    _tasks: TaskSet,
}

/// Returns a fixture with discovery just started; `before` prepares the fault injector.
async fn fixture(before: impl FnOnce(&FaultInjector)) -> Fixture {
    fixture_with(&[], before).await
}

/// As `fixture`, with CRDs.
async fn fixture_with(crds: &[&str], before: impl FnOnce(&FaultInjector)) -> Fixture {
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
    let registry = Registry::new("steersman");
    let sandbox = Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(Timestamp::UNIX_EPOCH, 1))
        .start()
        .expect("a sandbox");
    let api = FaultInjector::new(sandbox.service());
    before(&api);
    let transport = api.transport(&env.clock, &registry);
    let admin = transport.unfenced("admin", None);
    for name in crds {
        let body = crd(name, &["v1"]).to_string().into();
        let _: Value = admin.create(&CRDS, "", body).await.expect("created");
    }
    let reader = transport.reader("reader", None);
    let caches = Caches::new(&env, reader, Scope::default(), &registry).expect("caches");
    let client = transport.reader("discovery", None);
    let discovery = Discovery::start(&env, &caches, client, &registry).expect("unregistered metrics");
    Fixture {
        admin,
        env,
        api,
        caches,
        discovery,
        registry,
        _tasks: tasks,
    }
}

/// Returns a fixture whose discovery has published the kinds.
async fn published() -> Fixture {
    let f = fixture(|_| {}).await;
    f.within(SECOND, "published", || f.discovery.kinds().borrow().is_some())
        .await;
    f
}

impl Fixture {
    fn now(&self) -> Instant {
        self.env.clock.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.env.clock.sleep(duration).await;
        settle().await;
    }

    async fn within(&self, limit: Duration, expected: &str, condition: impl Fn() -> bool) {
        let start = self.now();
        loop {
            settle().await;
            if condition() {
                return;
            }
            assert!(self.now() - start < limit, "not within {limit:?}: {expected}");
            self.env
                .clock
                .sleep(Duration::from_millis(10).max(limit / 300))
                .await;
        }
    }

    /// Returns the collected kinds: `v1 pods`.
    fn collected(&self) -> Vec<String> {
        let kinds = self.discovery.kinds();
        let kinds = kinds.borrow();
        let collected = kinds.as_ref().map(|it| it.collected()).unwrap_or_default();
        collected
            .iter()
            .map(|it| format!("{} {}", it.api_version, it.resource.plural))
            .collect()
    }

    fn collects(&self, kind: &str) -> bool {
        self.collected().iter().any(|it| it == kind)
    }

    fn resolves(&self, api_version: &str, kind: &str) -> bool {
        let kinds = self.discovery.kinds();
        let kinds = kinds.borrow();
        let resolve = |it: &std::sync::Arc<steersman_controllers::garbage_collector::kinds::Kinds>| {
            it.resolve(&api_version.into(), &kind.into()).is_some()
        };
        kinds.as_ref().is_some_and(resolve)
    }

    /// Returns the undescribed groups: `*.apps`.
    fn undescribed(&self) -> Vec<String> {
        let kinds = self.discovery.kinds();
        let kinds = kinds.borrow();
        let undescribed = kinds.as_ref().map(|it| it.undescribed()).unwrap_or_default();
        undescribed.iter().map(|it| it.resource.to_string()).collect()
    }

    /// Returns the number of syncs that failed to read a root.
    fn sync_errors(&self) -> u64 {
        let families = self.registry.gather();
        let name = "garbagecollector_controller_resources_sync_error_total";
        let family = families.iter().find(|it| it.name() == name).expect("the counter");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let count = family.get_metric()[0].get_counter().get_value() as u64;
        count
    }

    async fn create_crd(&self, name: &str, versions: &[&str]) {
        let body = crd(name, versions).to_string().into();
        let _: Value = self.admin.create(&CRDS, "", body).await.expect("created");
    }

    async fn delete_crd(&self, name: &str) {
        let key = Key::new("", name);
        let object: MetaObject = self.admin.get(&CRDS, &key).await.expect("it exists");
        let delete = Delete::of(object.metadata.uid);
        let deleted = self.admin.delete(&CRDS, &key, &delete).await;
        deleted.expect("deleted");
    }

    async fn patch(&self, resource: &Resource, name: &str, patch: &Value) {
        let key = Key::new("", name);
        let patched: Result<Value, _> = self.admin.patch(resource, &key, Patch::merge(patch)).await;
        patched.expect("patched");
    }
}

fn crd(name: &str, versions: &[&str]) -> Value {
    let (plural, group) = name.split_once('.').expect("plural.group");
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(at, name)| json!({"name": name, "served": true, "storage": at == 0, "schema": schema}))
        .collect();
    let kind = format!("Kind{}", plural.len());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {
            "group": group, "scope": "Cluster", "versions": versions,
            "names": {"kind": kind, "plural": plural, "singular": plural, "listKind": format!("{kind}List")},
        },
    })
}

/// Lets all tasks run until they are idle.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn served_kinds_are_published_at_once() {
    let f = published().await;
    let collected = f.collected();
    for kind in [
        "v1 pods",
        "apps/v1 replicasets",
        "batch/v1 jobs",
        "v1 namespaces",
        "v1 secrets",
    ] {
        assert!(f.collects(kind), "{kind} of {collected:?}");
    }
    assert!(
        !collected.iter().any(|it| it.ends_with(" events")),
        "{collected:?}"
    );
    assert!(f.resolves("v1", "Event") && f.resolves("apps/v1", "Deployment"));
    assert!(!f.resolves("apps/v2", "Deployment"));
    let (documents, _) = f.api.take_requests();
    let roots = documents
        .iter()
        .filter(|it| *it == "/api" || *it == "/apis")
        .count();
    assert_eq!(roots, 2);
    let mut once = documents.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), documents.len(), "a document was read twice");
    assert!(
        f.api.max_concurrent_reads() <= 4,
        "{}",
        f.api.max_concurrent_reads()
    );
    assert_eq!((f.sync_errors(), f.discovery.problems()), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn idle_discovery_reads_every_half_minute_and_publishes_nothing() {
    let f = fixture(|api| api.aggregate(&[])).await;
    f.within(SECOND, "published", || f.collects("v1 pods")).await;
    // The caches of CRDs and APIServices sync.
    f.sleep(SECOND).await;
    f.api.take_requests();
    let mut kinds = f.discovery.kinds();
    kinds.mark_unchanged();
    for minute in 0..60 {
        // Without changes there are no bookmarks.
        let patch = json!({"metadata": {"labels": {"minute": minute.to_string()}}});
        f.patch(&NAMESPACES, "default", &patch).await;
        f.sleep(60 * SECOND).await;
    }
    let (documents, others) = f.api.take_requests();
    assert!(
        (2 * 120..=2 * 150).contains(&documents.len()),
        "{}",
        documents.len()
    );
    assert!(
        others.len() <= 13,
        "one watch, reopened every five to ten minutes: {others:?}"
    );
    assert!(!kinds.has_changed().expect("discovery runs"));
    assert_eq!(f.sync_errors(), 0);
}
