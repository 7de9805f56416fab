//! The deployment controller against the sandbox, with the replicaset controller and hollow-kubelet.

mod adoption;
mod duplicates;
mod faults;
mod input;
mod many;
mod randomized;
mod rollouts;
mod survival;
mod webhook;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::deployment;
use steersman_manager::client::{Patch, Transport};
use steersman_manager::env::TaskSet;
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_sandbox::faults::Effect;
use tokio_util::sync::CancellationToken;

use crate::fault_injector::{FaultInjector, status_reply};
use crate::fixture::{ApiFixture, DEPLOYMENTS, EVENTS, PODS, SETS, condition};

const REVISION: &str = "deployment.kubernetes.io/revision";

struct Fixture(ApiFixture);

/// An API server with all controllers.
fn fixture() -> Fixture {
    let f = without_deployments();
    f.deployments();
    f
}

/// An API server with all controllers and a Deployment that is complete.
async fn with_deployment(body: &Value) -> Fixture {
    let f = fixture();
    f.deploy(body).await;
    f
}

/// An API server with all controllers but the deployment controller. Faults affect the requests of that one only.
fn without_deployments() -> Fixture {
    let f = bare();
    f.run_hollow_kubelet(Duration::from_secs(1));
    f.run_replicaset_controller();
    f
}

/// An API server without controllers.
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
    /// Starts the deployment controller. Cancelling the token ends its term.
    fn deployments(&self) -> CancellationToken {
        let (transport, registry) = (&self.transport, &Registry::new("steersman"));
        let caches = self.caches(transport, "reader", registry);
        let recorder = self.recorder(transport, "deployment-controller", registry);
        let client = transport.reader("controller", None);
        let controller = deployment::build(&self.env, &caches, client, registry, recorder, 5);
        self.run(controller.expect("a controller"))
    }

    /// Creates a Deployment and waits until its rollout is complete.
    async fn deploy(&self, body: &Value) -> Value {
        self.create(&DEPLOYMENTS, body).await;
        let name = body["metadata"]["name"].as_str().expect("a name");
        self.complete(name).await
    }

    async fn get(&self, name: &str) -> Value {
        self.read(&DEPLOYMENTS, name).await.expect("it is there")
    }

    /// Patches the spec of a Deployment.
    async fn update(&self, name: &str, spec: &Value) -> Value {
        self.patch(&DEPLOYMENTS, name, &json!({"spec": spec})).await
    }

    /// Returns the `ReplicaSets` ordered by revision.
    async fn sets(&self) -> Vec<Value> {
        let mut sets = self.list(&SETS).await;
        sets.sort_by_key(|it| {
            it["metadata"]["annotations"][REVISION]
                .as_str()
                .and_then(|it| it.parse::<i64>().ok())
        });
        sets
    }

    /// Returns the images of pods that are not terminating.
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

    /// Waits until a rollout is complete. Returns the Deployment.
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

    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        if self.eventually(async || holds(self).await).await {
            return;
        }
        let (deployments, sets) = (self.list(&DEPLOYMENTS).await, self.list(&SETS).await);
        let counts = self.api.counts();
        panic!("timed out: {counts:#?} {deployments:#?} {sets:#?}");
    }

    /// Returns the reasons and messages of events about Deployments.
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

/// A Deployment named web.
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

/// Returns the patch to an image.
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
