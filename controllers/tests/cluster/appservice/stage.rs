//! A stage for one test: a namespace, and `AppServices` to play with.

use coxswain_tests::fixtures::{self, MERGE, with};
use coxswain_tests::{Cluster, Reply, time};
use serde_json::{Value, json};

use crate::engine;

/// The finalizer of those that orphan.
pub const FINALIZER: &str = "appcontroller.k8s.io/orphan-children";

/// A namespace in which `AppServices` are tested.
pub struct Stage {
    pub c: Cluster,
    pub ns: String,
}

impl Stage {
    /// In a new namespace, with the controllers running.
    pub async fn set(c: Cluster) -> Self {
        engine::running(&c).await;
        let ns = c.namespace().await;
        Self { c, ns }
    }

    /// Where a kind is served: `appservices`, `deployments`, `services`, `pods`, `events`.
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
    pub async fn serve(&self, body: Value) -> Value {
        let made = self.create("appservices", body).await;
        self.ready(made["metadata"]["name"].as_str().expect("a name"))
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

    /// The names of all of a kind.
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

    /// Changes what an `AppService` wants.
    pub async fn want(&self, name: &str, spec: Value) -> Value {
        self.change("appservices", name, json!({"spec": spec})).await
    }

    pub async fn delete(&self, kind: &str, name: &str, policy: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        let reply = self.c.api().delete(&self.path(kind, name), options).await;
        assert!([200, 202].contains(&reply.status), "{}", reply.status);
    }

    /// Waits until all that an `AppService` asks for is there, and it says so. Returns it.
    pub async fn ready(&self, name: &str) -> Value {
        self.until(&format!("{name} is ready"), async || {
            let it = self.get("appservices", name).await;
            let current = it["status"]["observedGeneration"] == it["metadata"]["generation"];
            (current && condition(&it, "Ready").0 == "True").then_some(it)
        })
        .await
    }

    /// Waits until something stops an `AppService`, for this reason. Returns it.
    pub async fn stalled(&self, name: &str, why: &str) -> Value {
        self.until(&format!("{name} is stalled by {why}"), async || {
            let it = self.get("appservices", name).await;
            (condition(&it, "Stalled") == ("True".to_owned(), why.to_owned())).then_some(it)
        })
        .await
    }

    /// Waits until there is no object of this name.
    pub async fn gone(&self, kind: &str, name: &str) {
        self.until(&format!("{kind} {name} is gone"), async || {
            (self.read(kind, name).await.status == 404).then_some(())
        })
        .await;
    }

    /// Waits until there is an answer.
    pub async fn until<T>(&self, what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
        if let Some(answer) = time::eventually(engine::PATIENCE, ask).await {
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

    /// The reasons of the events about an `AppService`.
    pub async fn told(&self, name: &str) -> Vec<String> {
        let mut events = self.list("events").await;
        events.retain(|it| {
            it["involvedObject"]["kind"] == "AppService" && it["involvedObject"]["name"] == name
        });
        events.iter().map(|it| text(&it["reason"])).collect()
    }
}

/// An `AppService` with a Deployment of its name.
#[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
pub fn app(name: &str, spec: Value) -> Value {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": name},
                      "spec": {"deploymentName": name, "replicas": 2, "image": "i:1"}});
    with(body, json!({"spec": spec}))
}

/// Status and reason of a condition.
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
