//! The fixture of a test: a namespace of a cluster, with helpers for `AppServices`.

use serde_json::{Value, json};
use steersman_harness::fixtures::{self, MERGE, with};
use steersman_harness::{Cluster, Reply, time};

use crate::controllers;

pub const FINALIZER: &str = "appcontroller.k8s.io/orphan-children";

pub struct Fixture {
    pub c: Cluster,
    pub ns: String,
}

impl Fixture {
    /// Creates a namespace in a cluster with running controllers.
    pub async fn new(c: Cluster) -> Self {
        controllers::running(&c).await;
        let ns = c.namespace().await;
        Self { c, ns }
    }

    /// Returns the path of a collection.
    pub fn all(&self, kind: &str) -> String {
        match kind {
            "appservices" => format!(
                "/apis/appcontroller.k8s.io/v1alpha1/namespaces/{}/appservices",
                self.ns
            ),
            "deployments" | "replicasets" => fixtures::apps(&self.ns, kind),
            _ => fixtures::core(&self.ns, kind),
        }
    }

    pub fn path(&self, kind: &str, name: &str) -> String {
        format!("{}/{name}", self.all(kind))
    }

    pub async fn create(&self, kind: &str, body: Value) -> Value {
        self.c.api().post(&self.all(kind), body).await.expect(201)
    }

    /// Creates an `AppService`, and waits until it is ready.
    pub async fn create_ready(&self, body: Value) -> Value {
        let made = self.create("appservices", body).await;
        self.wait_ready(made["metadata"]["name"].as_str().expect("a name"))
            .await
    }

    pub async fn read(&self, kind: &str, name: &str) -> Reply {
        self.c.api().get(&self.path(kind, name)).await
    }

    pub async fn get(&self, kind: &str, name: &str) -> Value {
        self.read(kind, name).await.expect(200)
    }

    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.c.api().get(&self.all(kind)).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub async fn names(&self, kind: &str) -> Vec<String> {
        let all = self.list(kind).await;
        all.iter().map(|it| text(&it["metadata"]["name"])).collect()
    }

    pub async fn change(&self, kind: &str, name: &str, change: Value) -> Value {
        self.c
            .api()
            .patch(&self.path(kind, name), MERGE, change)
            .await
            .expect(200)
    }

    pub async fn patch_spec(&self, name: &str, spec: Value) -> Value {
        self.change("appservices", name, json!({"spec": spec})).await
    }

    pub async fn delete(&self, kind: &str, name: &str, policy: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        let reply = self.c.api().delete(&self.path(kind, name), options).await;
        assert!([200, 202].contains(&reply.status), "{}", reply.status);
    }

    /// Waits until an `AppService` is ready, and returns it.
    pub async fn wait_ready(&self, name: &str) -> Value {
        self.wait_until(&format!("{name} is ready"), async || {
            let it = self.get("appservices", name).await;
            let current = it["status"]["observedGeneration"] == it["metadata"]["generation"];
            (current && condition(&it, "Ready").0 == "True").then_some(it)
        })
        .await
    }

    /// Waits until an `AppService` is stalled for `reason`, and returns it.
    pub async fn wait_stalled(&self, name: &str, reason: &str) -> Value {
        self.wait_until(&format!("{name} is stalled by {reason}"), async || {
            let it = self.get("appservices", name).await;
            (condition(&it, "Stalled") == ("True".to_owned(), reason.to_owned())).then_some(it)
        })
        .await
    }

    pub async fn wait_deleted(&self, kind: &str, name: &str) {
        self.wait_until(&format!("{kind} {name} is gone"), async || {
            (self.read(kind, name).await.status == 404).then_some(())
        })
        .await;
    }

    /// Waits until the garbage collector has observed all Deployments: it deletes a newer one. A foreground deletion does
    /// not wait for dependents that it has not observed.
    pub async fn wait_collector_observed(&self) {
        let owner = self.create("configmaps", fixtures::config_map("owner")).await;
        let uid = &owner["metadata"]["uid"];
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
        let change = json!({"metadata": {"ownerReferences": [reference]}, "spec": {"paused": true}});
        let garbage = with(fixtures::deployment("garbage"), change);
        self.create("deployments", garbage).await;
        self.delete("configmaps", "owner", "Background").await;
        self.wait_deleted("deployments", "garbage").await;
    }

    /// Polls until `poll` returns a value.
    pub async fn wait_until<T>(&self, what: &str, poll: impl AsyncFnMut() -> Option<T>) -> T {
        if let Some(answer) = time::eventually(controllers::WAIT_MAX, poll).await {
            return answer;
        }
        let mut all = Vec::new();
        for kind in [
            "appservices",
            "deployments",
            "replicasets",
            "pods",
            "services",
            "events",
        ] {
            for mut it in self.list(kind).await {
                it["metadata"]["managedFields"] = Value::Null;
                all.push(format!(
                    "{kind}: {}",
                    it.to_string().chars().take(2000).collect::<String>()
                ));
            }
        }
        panic!("not in time: {what}\n{}", all.join("\n"))
    }

    /// Returns the reasons of the events about an `AppService`.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let mut events = self.list("events").await;
        events.retain(|it| {
            it["involvedObject"]["kind"] == "AppService" && it["involvedObject"]["name"] == name
        });
        events.iter().map(|it| text(&it["reason"])).collect()
    }
}

/// Returns an `AppService` with a Deployment of the same name.
#[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
pub fn app(name: &str, spec: Value) -> Value {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": name},
                      "spec": {"deploymentName": name, "replicas": 2, "image": "i:1"}});
    with(body, json!({"spec": spec}))
}

/// Returns status and reason of a condition.
pub fn condition(object: &Value, type_: &str) -> (String, String) {
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions
        .iter()
        .find(|it| it["type"] == type_)
        .cloned()
        .unwrap_or_default();
    (text(&found["status"]), text(&found["reason"]))
}

pub fn owners(object: &Value) -> usize {
    object["metadata"]["ownerReferences"]
        .as_array()
        .map_or(0, Vec::len)
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
