//! Caches on a real server.

mod catch_up;
mod kinds;
mod lists;
mod scope;
mod watch;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_harness::{Cluster, Test, fixtures};
use steersman_manager::cache::{Caches, Delta, Scope, Subscription};
use steersman_manager::object::{Key, Meta, Object, Resource};

use crate::process::{Process, soon};

pub fn tests() -> Vec<Test> {
    [
        catch_up::tests(),
        watch::tests(),
        kinds::tests(),
        lists::tests(),
        scope::tests(),
    ]
    .concat()
}

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// A projection of a `ConfigMap`.
#[derive(Debug, PartialEq, Deserialize)]
struct Map {
    metadata: Meta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Object for Map {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

/// Caches with their own process and namespace.
struct Fixture {
    c: Cluster,
    ns: String,
    process: Process,
    caches: Caches,
}

impl Fixture {
    async fn new(c: &Cluster) -> Self {
        let ns = c.namespace().await;
        let scope = Scope {
            namespaces: vec![ns.clone()],
            ..Scope::default()
        };
        Self::with(c, &ns, scope).await
    }

    /// Returns caches of a scope. The methods below create objects in `ns`.
    async fn with(c: &Cluster, ns: &str, scope: Scope) -> Self {
        let process = Process::start(c).await;
        let client = process.transport.reader("caches", None);
        let caches = Caches::new(&process.env, client, scope, &process.registry).expect("caches");
        Self {
            c: c.clone(),
            ns: ns.to_owned(),
            process,
            caches,
        }
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.ns.as_str(), name)
    }

    /// Creates a `ConfigMap` by another client.
    async fn create(&self, name: &str) -> Value {
        let path = fixtures::core(&self.ns, "configmaps");
        self.c
            .api()
            .post(&path, fixtures::config_map(name))
            .await
            .expect(201)
    }

    async fn update(&self, name: &str, value: &str) -> Value {
        self.merge(name, json!({"data": {"k": value}})).await
    }

    async fn merge(&self, name: &str, patch: Value) -> Value {
        let url = format!("{}/{name}", fixtures::core(&self.ns, "configmaps"));
        self.c.api().patch(&url, fixtures::MERGE, patch).await.expect(200)
    }

    async fn delete(&self, name: &str) {
        let url = format!("{}/{name}", fixtures::core(&self.ns, "configmaps"));
        self.c.api().delete(&url, ()).await.expect(200);
    }
}

async fn next_delta<T: Object>(subscription: &mut Subscription<T>) -> Delta<T> {
    let next = soon("a subscriber receives a delta", subscription.next()).await;
    next.expect("the cache exists")
}

/// Returns the next delta as text, such as `Added a`.
async fn line<T: Object>(subscription: &mut Subscription<T>) -> String {
    show(&next_delta(subscription).await)
}

fn show<T: Object>(delta: &Delta<T>) -> String {
    let what = match delta {
        Delta::Added { initial: true, .. } => "Found",
        Delta::Added { initial: false, .. } => "Added",
        Delta::Updated { .. } => "Updated",
        Delta::Deleted { .. } => "Deleted",
    };
    format!("{what} {}", delta.key().name)
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().expect("a uid")
}

fn version(object: &Value) -> steersman_manager::object::Version {
    object["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .into()
}
