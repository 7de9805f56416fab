//! Caches of a sandbox behind a fault injector, with a paused clock.

mod barrier;
mod faults;
mod forget_metadata;
mod hot_loops;
mod large;
#[path = "../memory/large.rs"]
mod large_objects;
mod randomized;
mod restored;
mod server;
mod sharing;
mod sync;
mod undecodable;
mod unserved;
mod unversioned;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::{Deserialize, Deserializer};
use steersman_manager::metrics::Registry;

use steersman_manager::cache::{Cache, Caches, Delta, Scope, Subscription};
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::object::{Key, Meta, Object, Resource, Version};
use steersman_sandbox::Sandbox;

use self::server::{Server, Verb};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// A projection of `ConfigMap`. One with the key `invalid` cannot be decoded.
#[derive(Debug, PartialEq, Deserialize)]
struct Map {
    metadata: Meta,
    #[serde(default, deserialize_with = "reject_invalid")]
    data: BTreeMap<String, String>,
}

fn reject_invalid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let data = Option::<BTreeMap<String, String>>::deserialize(deserializer)?.unwrap_or_default();
    if data.contains_key("invalid") {
        return Err(serde::de::Error::custom("invalid"));
    }
    Ok(data)
}

impl Object for Map {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

/// A sandbox, a fault injector, and caches that read through it.
struct Fixture {
    env: Env,
    sandbox: Sandbox,
    server: Server,
    caches: Caches,
    registry: Registry,
    _tasks: TaskSet,
}

fn fixture() -> Fixture {
    fixture_with(Scope::default(), 0)
}

fn fixture_with(scope: Scope, seed: u64) -> Fixture {
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, seed, &tasks);
    let registry = Registry::new("test");
    let sandbox = sandbox(seed);
    let server = Server::new(sandbox.service());
    let transport = Transport::from_service(server.service.clone(), "sandbox", "test", &env.clock, &registry)
        .expect("a transport");
    let caches = Caches::new(&env, transport.reader("cache", None), scope, &registry).expect("caches");
    Fixture {
        env,
        sandbox,
        server,
        caches,
        registry,
        _tasks: tasks,
    }
}

fn sandbox(seed: u64) -> Sandbox {
    Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(Timestamp::UNIX_EPOCH, seed))
        .start()
        .expect("a sandbox")
}

impl Fixture {
    fn maps(&self) -> Cache<Map> {
        self.caches.of(&MAPS)
    }

    async fn synced(&self) -> Cache<Map> {
        let cache = self.maps();
        self.within(60, "synced", || cache.is_synced()).await;
        self.within(60, "watched", || self.server.count(Verb::Watch) > 0)
            .await;
        settle().await;
        cache
    }

    async fn sleep(&self, seconds: u64) {
        self.env.clock.sleep(Duration::from_secs(seconds)).await;
        settle().await;
    }

    /// Waits until a condition holds; panics after this number of seconds.
    async fn within(&self, seconds: u64, expected: &str, condition: impl Fn() -> bool) {
        for _ in 0..seconds * 20 {
            settle().await;
            if condition() {
                return;
            }
            self.env.clock.sleep(Duration::from_millis(50)).await;
        }
        panic!("not within {seconds} s: {expected}");
    }

    /// Waits until the cache equals the API server.
    async fn equal(&self, cache: &Cache<Map>, seconds: u64) {
        let expected = listed(&self.sandbox, "").await;
        self.within(seconds, "the cache equals the API", || {
            cache.is_synced() && shown(&cache.all()) == expected
        })
        .await;
    }

    /// Returns the sum of a metric over all labels, or over those with this reason.
    #[expect(clippy::cast_possible_truncation, reason = "counts and seconds of a test")]
    fn metric(&self, name: &str, reason: Option<&str>) -> i64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family
            .map(prometheus::proto::MetricFamily::get_metric)
            .unwrap_or_default();
        let has = |metric: &&prometheus::proto::Metric| {
            let labels = metric.get_label();
            reason.is_none_or(|reason| labels.iter().any(|l| l.name() == "reason" && l.value() == reason))
        };
        let value = |m: &prometheus::proto::Metric| m.get_gauge().get_value() + m.get_counter().get_value();
        metrics.iter().filter(has).map(value).sum::<f64>() as i64
    }

    fn relists(&self, reason: &str) -> i64 {
        self.metric("test_cache_relists_total", Some(reason))
    }
}

/// Yields until all tasks wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn api(sandbox: &Sandbox, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(kube::Client::new(sandbox.service(), "default"), namespace)
}

/// Creates a `ConfigMap` in `default`, or in the namespace before the slash.
async fn create(sandbox: &Sandbox, name: &str, value: &str) -> ConfigMap {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.labels = Some([("value".to_owned(), value.to_owned())].into());
    map.data = Some([("k".to_owned(), value.to_owned())].into());
    let maps = api(sandbox, namespace);
    maps.create(&PostParams::default(), &map).await.expect("created")
}

async fn patch(sandbox: &Sandbox, name: &str, patch: serde_json::Value) -> ConfigMap {
    let params = PatchParams::default();
    let patched = api(sandbox, "default");
    patched
        .patch(name, &params, &Patch::Merge(patch))
        .await
        .expect("patched")
}

async fn set(sandbox: &Sandbox, name: &str, value: &str) -> ConfigMap {
    patch(sandbox, name, serde_json::json!({"data": {"k": value}})).await
}

async fn delete(sandbox: &Sandbox, name: &str) {
    api(sandbox, "default")
        .delete(name, &DeleteParams::default())
        .await
        .expect("deleted");
}

async fn namespaces(sandbox: &Sandbox, names: &[&str]) {
    let api: Api<k8s_openapi::api::core::v1::Namespace> =
        Api::all(kube::Client::new(sandbox.service(), "default"));
    for name in names {
        let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
        namespace.metadata.name = Some((*name).to_owned());
        api.create(&PostParams::default(), &namespace)
            .await
            .expect("created");
    }
}

/// Lists the API server, each object as text: key, uid, version, value.
async fn listed(sandbox: &Sandbox, selector: &str) -> Vec<String> {
    let api: Api<ConfigMap> = Api::all(kube::Client::new(sandbox.service(), "default"));
    let params = kube::api::ListParams::default().labels(selector);
    let list = api.list(&params).await.expect("a list");
    let text = |map: &ConfigMap| {
        let meta = &map.metadata;
        let value = map.data.as_ref().and_then(|data| data.get("k"));
        format!(
            "{}/{} {} {} {}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
            meta.uid.as_deref().unwrap_or_default(),
            meta.resource_version.as_deref().unwrap_or_default(),
            value.map_or("", |value| value),
        )
    };
    let mut all: Vec<String> = list.items.iter().map(text).collect();
    all.sort();
    all
}

/// Formats cached objects as [`listed`].
fn shown(maps: &[Arc<Map>]) -> Vec<String> {
    let text = |map: &Arc<Map>| {
        let meta = &map.metadata;
        let value = map.data.get("k").map_or("", |value| value);
        format!("{} {} {} {value}", meta.key(), meta.uid, meta.resource_version)
    };
    let mut all: Vec<String> = maps.iter().map(text).collect();
    all.sort();
    all
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

/// Returns the pending changes: `+a=1` (`*a=1` if initial), `~a=1>2`, `-a=2`.
fn changes(subscription: &mut Subscription<Map>) -> Vec<String> {
    std::iter::from_fn(|| subscription.try_next())
        .map(|delta| brief(&delta))
        .collect()
}

fn brief(delta: &Delta<Map>) -> String {
    let value = |map: &Arc<Map>| map.data.get("k").cloned().unwrap_or_default();
    let name = delta.latest().metadata.name.clone();
    match delta {
        Delta::Added { new, initial } => format!("{}{name}={}", if *initial { '*' } else { '+' }, value(new)),
        Delta::Updated { old, new } => format!("~{name}={}>{}", value(old), value(new)),
        Delta::Deleted { last } => format!("-{name}={}", value(last)),
    }
}

fn value(cache: &Cache<Map>, name: &str) -> Option<String> {
    cache.get(&key(name)).present()?.data.get("k").cloned()
}
