//! The fixture of one test: a namespace and the kind under test.
//!
//! Only this file knows the differences between the kinds. hollow-kubelet ignores pods on [`UNMANAGED_NODE`], so a test acts
//! as their kubelet. It makes all other pods Ready.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_harness::fixtures::{self, MERGE, STRATEGIC, with};
use steersman_harness::{Cluster, Watch, time};
use steersman_manager::env::Env;
use steersman_manager::time::rfc3339;

use super::observation::PodChanges;
use crate::controllers;

/// A node that hollow-kubelet does not run.
pub const UNMANAGED_NODE: &str = "elsewhere";

/// The kind under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ReplicaSet,
    ReplicationController,
    AppReplicaSet,
}

/// A namespace in which a kind is tested.
pub struct Fixture {
    pub kind: Kind,
    pub c: Cluster,
    pub ns: String,
    env: &'static Env,
    pod_changes: PodChanges,
}

/// An object of the kind under test that was created.
#[derive(Clone, Debug)]
pub struct Owner {
    pub name: String,
    pub uid: String,
    path: String,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "ReplicaSet",
            Kind::ReplicationController => "ReplicationController",
            Kind::AppReplicaSet => "AppReplicaSet",
        }
    }

    pub fn api_version(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "apps/v1",
            Kind::ReplicationController => "v1",
            Kind::AppReplicaSet => "appcontroller.k8s.io/v1alpha1",
        }
    }

    /// The component of its events.
    pub fn component(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "replicaset-controller",
            Kind::ReplicationController => "replication-controller",
            Kind::AppReplicaSet => "appreplicaset-controller",
        }
    }

    /// A selector of these labels in the form of the kind.
    pub fn selector(self, labels: &Value) -> Value {
        match self {
            Kind::ReplicaSet | Kind::AppReplicaSet => json!({"matchLabels": labels}),
            Kind::ReplicationController => labels.clone(),
        }
    }
}

impl Fixture {
    /// Creates a namespace, and starts the controllers if they do not run yet.
    pub async fn new(kind: Kind, c: Cluster) -> Self {
        let env = controllers::running(&c).await;
        let ns = c.namespace().await;
        let pod_changes = PodChanges::default();
        Self {
            kind,
            c,
            ns,
            env,
            pod_changes,
        }
    }

    /// The body of an owner whose pods have the label `app: a`.
    pub fn owner(&self, name: &str, replicas: u32) -> Value {
        let labels = json!({"app": "a"});
        let spec = json!({
            "replicas": replicas, "selector": self.kind.selector(&labels), "template": fixtures::template(),
        });
        let owner = fixtures::named(self.kind.api_version(), self.kind.name(), name);
        with(owner, json!({"spec": spec}))
    }

    /// The body of an owner whose pods are on [`UNMANAGED_NODE`].
    pub fn owner_on_unmanaged_node(&self, name: &str, replicas: u32) -> Value {
        let change = json!({"spec": {"template": {"spec": {"nodeName": UNMANAGED_NODE}}}});
        with(self.owner(name, replicas), change)
    }

    /// Creates an owner, after the controllers have observed all changes of pods.
    pub async fn create(&self, owner: Value) -> Owner {
        if self.pod_changes.take() {
            self.pods_are_observed().await;
        }
        let path = self.owners();
        let created = self.c.api().post(&path, owner).await.expect(201);
        let name = text(&created["metadata"]["name"]);
        Owner {
            path: format!("{path}/{name}"),
            uid: text(&created["metadata"]["uid"]),
            name,
        }
    }

    /// Creates an owner and waits until its status counts all its pods.
    pub async fn settled(&self, owner: Value) -> Owner {
        let replicas = owner["spec"]["replicas"].clone();
        let owner = self.create(owner).await;
        self.counts(&owner, "replicas", replicas.as_u64().expect("a number"))
            .await;
        owner
    }

    pub async fn get(&self, owner: &Owner) -> Value {
        self.c.api().get(&owner.path).await.expect(200)
    }

    /// Sends a merge patch of an owner.
    pub async fn change(&self, owner: &Owner, change: Value) -> Value {
        self.c.api().patch(&owner.path, MERGE, change).await.expect(200)
    }

    /// Sends a merge patch of the status of an owner.
    pub async fn change_status(&self, owner: &Owner, status: Value) {
        let path = format!("{}/status", owner.path);
        let change = json!({"status": status});
        self.c.api().patch(&path, MERGE, change).await.expect(200);
    }

    pub async fn scale(&self, owner: &Owner, replicas: u32) {
        self.change(owner, json!({"spec": {"replicas": replicas}})).await;
    }

    pub async fn delete(&self, owner: &Owner, policy: &str) -> Value {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        self.c.api().delete(&owner.path, options).await.expect(200)
    }

    /// Deletes an owner with the default policy of its kind.
    pub async fn delete_by_default_policy(&self, owner: &Owner) -> Value {
        self.c.api().delete(&owner.path, ()).await.expect(200)
    }

    /// Waits until the status of the latest generation satisfies a predicate. Returns the owner.
    pub async fn status(&self, owner: &Owner, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(what, async || {
            let now = self.get(owner).await;
            let current = now["status"]["observedGeneration"] == now["metadata"]["generation"];
            (current && wanted(&now["status"])).then_some(now)
        })
        .await
    }

    /// Waits until a counter of the status has this value. Returns the owner.
    pub async fn counts(&self, owner: &Owner, counter: &str, count: u64) -> Value {
        let what = format!("{} has {counter} {count}", owner.name);
        self.status(owner, &what, |status| counter_of(status, counter) == count)
            .await
    }

    /// Waits until the controller has synced an owner with the current pods.
    pub async fn synced(&self, owner: &Owner) {
        // Pods and owners have separate watches: the second sync has the pods too.
        for _ in 0..2 {
            let now = self.get(owner).await;
            // A new generation that needs no action.
            let seconds = now["spec"]["minReadySeconds"].as_u64().unwrap_or_default();
            let change = json!({"spec": {"minReadySeconds": 1 + seconds}});
            self.change(owner, change).await;
            self.status(owner, "the controller observes it", |_| true).await;
        }
    }

    /// Creates a pod with `app: a` on [`UNMANAGED_NODE`], changed by a merge patch.
    pub async fn pod(&self, name: &str, change: Value) -> Value {
        let pod = with(fixtures::pod(name), json!({"spec": {"nodeName": UNMANAGED_NODE}}));
        let pods = fixtures::core(&self.ns, "pods");
        self.pod_changes.record();
        self.c.api().post(&pods, with(pod, change)).await.expect(201)
    }

    /// Creates a `ConfigMap` and returns an owner reference to it.
    pub async fn bystander(&self, name: &str) -> Value {
        let path = fixtures::core(&self.ns, "configmaps");
        let created = self
            .c
            .api()
            .post(&path, fixtures::config_map(name))
            .await
            .expect(201);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": created["metadata"]["uid"]})
    }

    /// All pods that are not terminating, ordered by name.
    pub async fn pods(&self) -> Vec<Value> {
        let mut pods = self.all_pods().await;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// All pods, ordered by name.
    pub async fn all_pods(&self) -> Vec<Value> {
        let list = self
            .c
            .api()
            .get(&fixtures::core(&self.ns, "pods"))
            .await
            .expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The pods of an owner that are not terminating.
    pub async fn pods_of(&self, owner: &Owner) -> Vec<Value> {
        let mut pods = self.pods().await;
        pods.retain(|pod| controller(pod) == Some(&*owner.uid));
        pods
    }

    pub async fn get_pod(&self, name: &str) -> Value {
        self.c.api().get(&self.path_of(name)).await.expect(200)
    }

    /// Waits until a pod satisfies a predicate.
    pub async fn pod_is(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{name} {what}"), async || {
            let pod = self.get_pod(name).await;
            wanted(&pod).then_some(pod)
        })
        .await
    }

    /// Sends a merge patch of a pod.
    pub async fn change_pod(&self, name: &str, change: Value) {
        self.pod_changes.record();
        let path = self.path_of(name);
        self.c.api().patch(&path, MERGE, change).await.expect(200);
    }

    /// Patches the status of a pod as its kubelet does.
    pub async fn change_pod_status(&self, name: &str, status: Value) {
        self.pod_changes.record();
        let path = format!("{}/status", self.path_of(name));
        let change = json!({"status": status});
        self.c.api().patch(&path, STRATEGIC, change).await.expect(200);
    }

    /// Makes a pod Ready for the last `seconds`.
    pub async fn make_ready(&self, name: &str, seconds: i64) {
        self.change_pod_status(
            name,
            json!({"phase": "Running", "conditions": [self.ready(seconds)]}),
        )
        .await;
    }

    /// The condition Ready, true for the last `seconds`.
    pub fn ready(&self, seconds: i64) -> Value {
        let since = self.now() - SignedDuration::from_secs(seconds);
        json!({"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(since)})
    }

    /// Deletes a pod, gracefully.
    pub async fn delete_pod(&self, name: &str) {
        self.pod_changes.record();
        self.c.api().delete(&self.path_of(name), ()).await.expect(200);
    }

    /// Waits until an owner has this number of pods. Returns them.
    pub async fn owns(&self, owner: &Owner, count: usize) -> Vec<Value> {
        self.until(&format!("{} owns {count}", owner.name), async || {
            let pods = self.pods_of(owner).await;
            (pods.len() == count).then_some(pods)
        })
        .await
    }

    /// The distinct events of an owner: type, reason and message.
    pub async fn events(&self, owner: &Owner) -> BTreeSet<(String, String, String)> {
        let events = self.raw_events(owner).await;
        let parts = |event: &Value| {
            (
                text(&event["type"]),
                text(&event["reason"]),
                text(&event["message"]),
            )
        };
        events.iter().map(parts).collect()
    }

    pub async fn raw_events(&self, owner: &Owner) -> Vec<Value> {
        let path = fixtures::core(&self.ns, "events");
        let path = format!("{path}?fieldSelector=involvedObject.uid={}", owner.uid);
        let list = self.c.api().get(&path).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until `ask` returns a value.
    #[track_caller]
    pub fn until<T>(&self, what: &str, ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
        let caller = std::panic::Location::caller();
        async move {
            if let Some(answer) = time::eventually(controllers::WAIT_MAX, ask).await {
                return answer;
            }
            panic!("timed out: {what}, at {caller}\n{}", self.show().await)
        }
    }

    /// Watches owners from now on.
    pub async fn watch_owners(&self) -> Watch {
        self.watch(&self.owners()).await
    }

    /// Watches pods from now on.
    pub async fn watch_pods(&self) -> Watch {
        self.watch(&fixtures::core(&self.ns, "pods")).await
    }

    /// Watches from the current resourceVersion, without initial events.
    async fn watch(&self, path: &str) -> Watch {
        let list = self.c.api().get(&format!("{path}?limit=1")).await.expect(200);
        let version = text(&list["metadata"]["resourceVersion"]);
        let path = format!("{path}?watch=1&resourceVersion={version}");
        self.c.api().watch(&path).await
    }

    pub fn now(&self) -> Timestamp {
        self.env.clock.wall()
    }

    pub fn owners(&self) -> String {
        self.path(self.kind)
    }

    fn path(&self, kind: Kind) -> String {
        match kind {
            Kind::ReplicaSet => fixtures::apps(&self.ns, "replicasets"),
            Kind::ReplicationController => fixtures::core(&self.ns, "replicationcontrollers"),
            Kind::AppReplicaSet => {
                let version = kind.api_version();
                format!("/apis/{version}/namespaces/{}/appreplicasets", self.ns)
            }
        }
    }

    fn path_of(&self, pod: &str) -> String {
        format!("{}/{pod}", fixtures::core(&self.ns, "pods"))
    }

    /// The objects of the namespace, for a failure message.
    async fn show(&self) -> String {
        let kinds = [
            self.path(Kind::ReplicaSet),
            self.path(Kind::ReplicationController),
            self.path(Kind::AppReplicaSet),
            fixtures::core(&self.ns, "pods"),
            fixtures::core(&self.ns, "events"),
        ];
        let mut all = Vec::new();
        for path in kinds {
            let list = self.c.api().get(&path).await.json();
            for mut item in list["items"].as_array().cloned().unwrap_or_default() {
                item["metadata"]["managedFields"] = Value::Null;
                item["spec"]["template"]["spec"] = Value::Null;
                let line: String = item.to_string().chars().take(1200).collect();
                all.push(format!("{path}: {line}"));
            }
        }
        all.join("\n")
    }
}

/// Counts the events of a type.
pub fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

pub fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

pub fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(name).collect()
}

/// The uid of the controller of a pod.
pub fn controller(pod: &Value) -> Option<&str> {
    let mut refs = pod["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    refs.find(|it| it["controller"] == true)?["uid"].as_str()
}

/// A counter of a status; 0 if it is absent.
pub fn counter_of(status: &Value, counter: &str) -> u64 {
    status[counter].as_u64().unwrap_or_default()
}

pub fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|it| it["type"] == kind)
}

/// The string, or an empty one.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
