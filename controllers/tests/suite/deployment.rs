//! The Deployment controller at the API, with the replica engine and hollow-kubelet beside it.

mod adoption;
mod duplicates;
mod faults;
mod input;
mod many;
mod rollouts;
mod storm;
mod survival;
mod webhook;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use coxswain_controllers::deployment;
use coxswain_manager::client::{Patch, Transport};
use coxswain_manager::env::TaskSet;
use coxswain_manager::object::Key;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fault_injector::{Fault, FaultInjector};
use crate::fixture::{ApiFixture, DEPLOYMENTS, EVENTS, PODS, SETS, condition};

const REVISION: &str = "deployment.kubernetes.io/revision";

struct Fixture(ApiFixture);

/// An API with a cluster, the replica engine and the Deployment controller.
fn fixture() -> Fixture {
    let f = apart();
    f.deployments();
    f
}

/// An API with a cluster and the replica engine, which have a door of their own: what is done to the other one, nobody but
/// the Deployment controller notices.
fn apart() -> Fixture {
    let f = bare();
    f.run_hollow_kubelet(Duration::from_secs(1));
    f.run_replicaset_controller();
    f
}

/// An API.
fn bare() -> Fixture {
    Fixture(ApiFixture::new())
}

impl Deref for Fixture {
    type Target = ApiFixture;

    fn deref(&self) -> &ApiFixture {
        &self.0
    }
}

impl DerefMut for Fixture {
    fn deref_mut(&mut self) -> &mut ApiFixture {
        &mut self.0
    }
}

impl Fixture {
    /// Begins a term of the controller, which lasts until the answer is cancelled.
    fn deployments(&self) -> CancellationToken {
        let (way, registry) = (&self.transport, &Registry::new());
        let caches = self.caches(way, "reader", registry);
        let recorder = self.recorder(way, "deployment-controller", registry);
        let client = way.client("controller", None);
        let controller = deployment::build(&self.env, &caches, client, registry, recorder, 5);
        self.run(controller.expect("a controller"))
    }

    /// Creates a Deployment, and waits until all its pods serve.
    async fn deploy(&self, body: &Value) -> Value {
        self.create(&DEPLOYMENTS, body).await;
        let name = body["metadata"]["name"].as_str().expect("a name");
        self.complete(name).await
    }

    async fn get(&self, name: &str) -> Value {
        self.read(&DEPLOYMENTS, name).await.expect("it is there")
    }

    /// Changes what a Deployment wants.
    async fn want(&self, name: &str, spec: &Value) -> Value {
        self.patch(&DEPLOYMENTS, name, &json!({"spec": spec})).await
    }

    /// The sets, by revision.
    async fn sets(&self) -> Vec<Value> {
        let mut sets = self.list(&SETS).await;
        sets.sort_by_key(|it| {
            it["metadata"]["annotations"][REVISION]
                .as_str()
                .and_then(|it| it.parse::<i64>().ok())
        });
        sets
    }

    /// The images of active pods.
    async fn images(&self) -> Vec<String> {
        let mut pods = self.list(&PODS).await;
        pods.retain(|it| it["metadata"].get("deletionTimestamp").is_none());
        let image = |it: &Value| {
            it["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let mut images: Vec<String> = pods.iter().map(image).collect();
        images.sort();
        images
    }

    /// Waits until a rollout is at its end, and answers the Deployment.
    async fn complete(&self, name: &str) -> Value {
        self.until(async |f| {
            let it = f.get(name).await;
            let count = |field: &str| it["status"][field].as_i64().unwrap_or(0);
            let all = it["spec"]["replicas"].as_i64().unwrap_or(0);
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && [
                    "replicas",
                    "updatedReplicas",
                    "availableReplicas",
                    "readyReplicas",
                ]
                .iter()
                .all(|it| count(it) == all)
                && count("unavailableReplicas") + count("terminatingReplicas") == 0
        })
        .await;
        self.get(name).await
    }

    /// Waits for something to come true.
    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        if self.eventually(async || holds(self).await).await {
            return;
        }
        let (deployments, sets) = (self.list(&DEPLOYMENTS).await, self.list(&SETS).await);
        let counts = self.api.counts();
        panic!("it never comes true: {counts:#?} {deployments:#?} {sets:#?}");
    }

    /// The reasons and messages of the events about Deployments.
    async fn events(&self) -> Vec<(String, String)> {
        let events = self.list(&EVENTS).await;
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let ours = events
            .iter()
            .filter(|it| it["involvedObject"]["kind"] == "Deployment");
        ours.map(|it| (text(&it["reason"]), text(&it["message"])))
            .collect()
    }

    async fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self
            .events()
            .await
            .into_iter()
            .map(|(reason, _)| reason)
            .collect();
        reasons.sort();
        reasons
    }
}

/// A Deployment called web.
fn web(replicas: i64, image: &str) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

/// What makes of it a Deployment with another image.
fn image(image: &str) -> Value {
    json!({"template": {"spec": {"containers": [{"name": "main", "image": image}]}}})
}

fn revision(object: &Value) -> &str {
    object["metadata"]["annotations"][REVISION]
        .as_str()
        .unwrap_or_default()
}

fn size(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap_or(0)
}
