//! The fixture of one test: a namespace with Deployments.
//!
//! Pods become Ready, except for those of the image [`BAD`](super::objects::BAD), which never do, and those on
//! [`UNMANAGED_NODE`](super::objects::UNMANAGED_NODE), for which the test acts as the kubelet.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_harness::fixtures::{self, MERGE, STRATEGIC};
use steersman_harness::{Cluster, time};
use steersman_manager::env::Env;
use steersman_manager::time::rfc3339;

use super::objects::{
    NEVER, condition, controller, counter_of, image, image_of, items, name, reason, revision, text,
};
use crate::controllers;

pub struct Fixture {
    pub c: Cluster,
    pub ns: String,
    env: &'static Env,
}

/// A Deployment that was created.
#[derive(Clone, Debug)]
pub struct Deployment {
    pub name: String,
    pub uid: String,
    pub path: String,
}

impl Fixture {
    /// Creates a namespace and starts the controllers.
    pub async fn new(c: Cluster) -> Self {
        let env = controllers::running(&c).await;
        let ns = c.namespace().await;
        Self { c, ns, env }
    }

    /// Creates a Deployment.
    pub async fn create(&self, body: Value) -> Deployment {
        let path = self.path("deployments", "");
        let created = self.c.api().post(&path, body).await.expect(201);
        let name = name(&created);
        Deployment {
            path: self.path("deployments", &name),
            uid: text(&created["metadata"]["uid"]),
            name,
        }
    }

    /// Creates a Deployment, and waits until it is complete.
    pub async fn completed(&self, body: Value) -> Deployment {
        let d = self.create(body).await;
        self.complete(&d).await;
        d
    }

    /// Waits until the rollout is complete and reported. Returns the Deployment.
    pub async fn complete(&self, d: &Deployment) -> Value {
        self.until(format!("{} is complete", d.name), async || {
            let now = self.get(d).await;
            let (spec, status) = (&now["spec"], &now["status"]);
            let current = status["observedGeneration"] == now["metadata"]["generation"];
            let full = ["replicas", "updatedReplicas", "availableReplicas"]
                .iter()
                .all(|it| Some(counter_of(status, it)) == spec["replicas"].as_u64());
            let reported = spec["progressDeadlineSeconds"] == NEVER
                || reason(&now, "Progressing") == "NewReplicaSetAvailable";
            (current && full && reported).then_some(now)
        })
        .await
    }

    pub async fn get(&self, d: &Deployment) -> Value {
        self.c.api().get(&d.path).await.expect(200)
    }

    /// Changes a Deployment by a merge patch.
    pub async fn change(&self, d: &Deployment, change: Value) -> Value {
        self.c.api().patch(&d.path, MERGE, change).await.expect(200)
    }

    /// Changes the status of a Deployment by a merge patch.
    pub async fn change_status(&self, d: &Deployment, status: Value) -> Value {
        let path = format!("{}/status", d.path);
        let change = json!({"status": status});
        self.c.api().patch(&path, MERGE, change).await.expect(200)
    }

    pub async fn scale(&self, d: &Deployment, replicas: u32) {
        self.change(d, json!({"spec": {"replicas": replicas}})).await;
    }

    /// Rolls out an image and waits until the rollout is complete.
    pub async fn rolled_out(&self, d: &Deployment, to: &str) -> Value {
        self.change(d, image(to)).await;
        self.complete(d).await
    }

    /// Deletes a Deployment. Its `ReplicaSet`s are not garbage collected.
    pub async fn delete(&self, d: &Deployment) -> Value {
        self.c.api().delete(&d.path, ()).await.expect(200)
    }

    /// Waits until the status matches and has the latest generation. Returns the Deployment.
    #[track_caller]
    pub fn status(
        &self,
        d: &Deployment,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        self.until(format!("{}: {what}", d.name), async move || {
            let now = self.get(d).await;
            let current = now["status"]["observedGeneration"] == now["metadata"]["generation"];
            (current && wanted(&now["status"])).then_some(now)
        })
    }

    /// Waits until a condition has this reason; empty if the condition must not exist. Returns the Deployment.
    #[track_caller]
    pub fn has_reason(&self, d: &Deployment, kind: &str, why: &str) -> impl Future<Output = Value> {
        self.until(format!("{}: {kind} for {why}", d.name), async move || {
            let now = self.get(d).await;
            (reason(&now, kind) == why).then_some(now)
        })
    }

    /// Waits until the progress deadline is exceeded and the status counts this number of updated pods. A pod that is
    /// counted after the deadline is progress and changes the reason again. Returns the Deployment.
    #[track_caller]
    pub fn exceeds_deadline(&self, d: &Deployment, updated: u64) -> impl Future<Output = Value> {
        self.until(
            format!("{}: deadline exceeded with {updated} pods", d.name),
            async move || {
                let now = self.get(d).await;
                let counted = counter_of(&now["status"], "updatedReplicas") == updated;
                (counted && reason(&now, "Progressing") == "ProgressDeadlineExceeded").then_some(now)
            },
        )
    }

    /// Waits until the controller has synced a Deployment with the `ReplicaSet`s that exist now.
    pub async fn synced(&self, d: &Deployment) -> Value {
        let mut seen = Value::Null;
        // The resources have different watches: at the second sync the ReplicaSets are in the cache too.
        for _ in 0..2 {
            let now = self.get(d).await;
            // The change needs no action but increments the generation.
            let deadline = now["spec"]["progressDeadlineSeconds"].as_u64().unwrap_or(600);
            self.change(d, json!({"spec": {"progressDeadlineSeconds": deadline + 1}}))
                .await;
            seen = self.status(d, "observed", |_| true).await;
        }
        seen
    }

    /// Creates a `ReplicaSet` and waits until the replicaset controller has observed it. Returns it as created.
    pub async fn create_set(&self, body: Value) -> Value {
        let path = self.path("replicasets", "");
        let set = self.c.api().post(&path, body).await.expect(201);
        self.set_is(&name(&set), "is observed", |set| {
            set["status"]["observedGeneration"].is_u64()
        })
        .await;
        set
    }

    pub async fn get_set(&self, name: &str) -> Value {
        let path = self.path("replicasets", name);
        self.c.api().get(&path).await.expect(200)
    }

    /// Changes a `ReplicaSet` by a merge patch.
    pub async fn change_set(&self, name: &str, change: Value) -> Value {
        let path = self.path("replicasets", name);
        self.c.api().patch(&path, MERGE, change).await.expect(200)
    }

    /// Adds a finalizer to a `ReplicaSet`.
    pub async fn add_finalizer(&self, name: &str) {
        let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        self.change_set(name, held).await;
    }

    /// Returns an ownerReference to a new `ConfigMap`. The garbage collector would delete a dependent of an absent
    /// owner.
    pub async fn other_owner(&self) -> Value {
        let path = fixtures::core(&self.ns, "configmaps");
        let body = json!({"metadata": {"name": "c"}});
        let made = self.c.api().post(&path, body).await.expect(201);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": made["metadata"]["uid"]})
    }

    /// Deletes a `ReplicaSet`.
    pub async fn delete_set(&self, name: &str) {
        let path = self.path("replicasets", name);
        self.c.api().delete(&path, ()).await.expect(200);
    }

    /// Waits until a `ReplicaSet` matches. Returns it.
    #[track_caller]
    pub fn set_is(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        self.until(format!("{name} {what}"), async move || {
            let set = self.get_set(name).await;
            wanted(&set).then_some(set)
        })
    }

    pub async fn all_sets(&self) -> Vec<Value> {
        items(&self.c.api().get(&self.path("replicasets", "")).await.expect(200))
    }

    /// The `ReplicaSet`s of a Deployment, ordered by revision.
    pub async fn sets(&self, d: &Deployment) -> Vec<Value> {
        let mut sets = self.all_sets().await;
        sets.retain(|set| controller(set) == Some(&*d.uid));
        sets.sort_by_key(|set| revision(set).parse::<u64>().unwrap_or_default());
        sets
    }

    /// Waits until a Deployment has a `ReplicaSet`. Returns the one with the highest revision.
    pub async fn has_set(&self, d: &Deployment) -> Value {
        self.until("there is a ReplicaSet", async || self.sets(d).await.pop())
            .await
    }

    /// Returns the only `ReplicaSet` of a Deployment with this image.
    pub async fn set_of(&self, d: &Deployment, image: &str) -> Value {
        let mut sets = self.sets(d).await;
        sets.retain(|set| image_of(&set["spec"]["template"]) == image);
        assert_eq!(sets.len(), 1, "of {image}: {sets:#?}");
        sets.remove(0)
    }

    /// Returns the sizes of the `ReplicaSet`s by image.
    pub async fn sizes(&self, d: &Deployment) -> BTreeMap<String, u64> {
        let mut sizes = BTreeMap::new();
        for set in self.sets(d).await {
            *sizes.entry(image_of(&set["spec"]["template"])).or_default() +=
                counter_of(&set["spec"], "replicas");
        }
        sizes
    }

    /// Waits until the sizes by image are these, and checks that they stay so. Returns the Deployment.
    #[track_caller]
    pub fn has_sizes(&self, d: &Deployment, wanted: &[(&str, u64)]) -> impl Future<Output = Value> {
        let wanted: BTreeMap<String, u64> = wanted
            .iter()
            .map(|(image, size)| ((*image).to_owned(), *size))
            .collect();
        let what = format!("{} has {wanted:?}", d.name);
        let wait = self.until(what, {
            let wanted = wanted.clone();
            async move || (self.sizes(d).await == wanted).then_some(())
        });
        async move {
            wait.await;
            let seen = self.synced(d).await;
            assert_eq!(self.sizes(d).await, wanted, "the sizes changed again");
            seen
        }
    }

    pub async fn all_pods(&self) -> Vec<Value> {
        let path = fixtures::core(&self.ns, "pods");
        items(&self.c.api().get(&path).await.expect(200))
    }

    /// The pods of this image that are not being deleted.
    pub async fn pods(&self, image: &str) -> Vec<Value> {
        let mut pods = self.all_pods().await;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null() && image_of(pod) == image);
        pods
    }

    /// Waits until the image has `count` pods that are not terminating. Returns them.
    #[track_caller]
    pub fn has_pods(&self, image: &str, count: usize) -> impl Future<Output = Vec<Value>> {
        let what = format!("there are {count} pods of {image}");
        let image = image.to_owned();
        self.until(what, async move || {
            let pods = self.pods(&image).await;
            (pods.len() == count).then_some(pods)
        })
    }

    /// Waits for `count` unready pods of this image and makes them Ready, as the kubelet does.
    pub async fn make_ready(&self, image: &str, count: usize) {
        let image = image.to_owned();
        let pods = self
            .until("there are pods to make Ready", async || {
                let mut pods = self.pods(&image).await;
                pods.retain(|pod| condition(&pod["status"], "Ready").is_none_or(|it| it["status"] != "True"));
                (pods.len() >= count).then_some(pods)
            })
            .await;
        for pod in &pods[..count] {
            self.change_pod(
                pod,
                json!({"phase": "Running", "conditions": [self.ready("True")]}),
            )
            .await;
        }
    }

    /// Patches the status of a pod, as the kubelet does.
    pub async fn change_pod(&self, pod: &Value, status: Value) {
        let path = format!("{}/{}/status", fixtures::core(&self.ns, "pods"), name(pod));
        let change = json!({"status": status});
        self.c.api().patch(&path, STRATEGIC, change).await.expect(200);
    }

    /// Returns a Ready condition with a transition 100 seconds ago.
    pub fn ready(&self, status: &str) -> Value {
        let since = self.now() - SignedDuration::from_secs(100);
        json!({"type": "Ready", "status": status, "lastTransitionTime": rfc3339(since)})
    }

    /// Removes a terminating pod, as the kubelet does.
    pub async fn end(&self, pod: &Value) {
        let path = format!("{}/{}", fixtures::core(&self.ns, "pods"), name(pod));
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.c.api().delete(&path, options).await.expect(200);
    }

    /// The events of a Deployment.
    pub async fn raw_events(&self, d: &Deployment) -> Vec<Value> {
        let path = fixtures::core(&self.ns, "events");
        let path = format!("{path}?fieldSelector=involvedObject.uid={}", d.uid);
        items(&self.c.api().get(&path).await.expect(200))
    }

    /// Returns the distinct events of a Deployment: type, reason and message.
    pub async fn events(&self, d: &Deployment) -> BTreeSet<[String; 3]> {
        let fields = |event: &Value| ["type", "reason", "message"].map(|field| text(&event[field]));
        self.raw_events(d).await.iter().map(fields).collect()
    }

    /// Waits for an event of a Deployment.
    #[track_caller]
    pub fn event(&self, d: &Deployment, kind: &str, why: &str, message: &str) -> impl Future<Output = ()> {
        let wanted = [kind, why, message].map(str::to_owned);
        self.until(format!("{}: event {wanted:?}", d.name), async move || {
            self.events(d).await.contains(&wanted).then_some(())
        })
    }

    /// Waits until `ask` returns a value.
    #[track_caller]
    pub fn until<T>(
        &self,
        what: impl Into<String>,
        ask: impl AsyncFnMut() -> Option<T>,
    ) -> impl Future<Output = T> {
        let caller = std::panic::Location::caller();
        let what = what.into();
        async move {
            if let Some(answer) = time::eventually(controllers::WAIT_MAX, ask).await {
                return answer;
            }
            panic!("timed out: {what}, at {caller}\n{}", self.show().await)
        }
    }

    /// Waits until an object is at least a second old: creation times have whole seconds.
    pub async fn later_than(&self, object: &Value) {
        let made: Timestamp = text(&object["metadata"]["creationTimestamp"])
            .parse()
            .expect("a time");
        self.until("a second has passed", async || {
            (self.now().duration_since(made) >= SignedDuration::from_secs(1)).then_some(())
        })
        .await;
    }

    pub fn now(&self) -> Timestamp {
        self.env.clock.wall()
    }

    /// Returns the path of an apps/v1 object, or of the collection if the name is empty.
    pub fn path(&self, resource: &str, name: &str) -> String {
        let all = fixtures::apps(&self.ns, resource);
        if name.is_empty() {
            all
        } else {
            format!("{all}/{name}")
        }
    }

    /// Describes the objects of the namespace for a failure.
    async fn show(&self) -> String {
        let kinds = [
            self.path("deployments", ""),
            self.path("replicasets", ""),
            fixtures::core(&self.ns, "events"),
        ];
        let mut all = Vec::new();
        for path in kinds {
            for mut item in items(&self.c.api().get(&path).await.json()) {
                item["metadata"]["managedFields"] = Value::Null;
                item["spec"]["template"] = json!(image_of(&item["spec"]["template"]));
                let line: String = item.to_string().chars().take(2000).collect();
                all.push(format!("{path}: {line}"));
            }
        }
        all.join("\n")
    }
}
