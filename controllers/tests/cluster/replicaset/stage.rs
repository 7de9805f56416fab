//! A stage for one test: a namespace, and one of the kinds to play with.
//!
//! What differs between the kinds is here and nowhere else. Pods on [`ELSEWHERE`] are nobody's: hollow-kubelet does not
//! touch them, so that a test is their kubelet. All others become Ready by themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_manager::env::Env;
use coxswain_manager::time::rfc3339;
use coxswain_tests::fixtures::{self, MERGE, STRATEGIC, with};
use coxswain_tests::{Cluster, Watch, time};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::seen::Unseen;
use crate::engine;

/// A node that nobody plays.
pub const ELSEWHERE: &str = "elsewhere";

/// The kind under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ReplicaSet,
    ReplicationController,
    AppReplicaSet,
}

/// A namespace in which a kind is tested.
pub struct Stage {
    pub kind: Kind,
    pub c: Cluster,
    pub ns: String,
    env: &'static Env,
    unseen: Unseen,
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

    /// Who its events are from.
    pub fn component(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "replicaset-controller",
            Kind::ReplicationController => "replication-controller",
            Kind::AppReplicaSet => "appreplicaset-controller",
        }
    }

    /// A selector of these labels, as the kind writes it.
    pub fn selector(self, labels: &Value) -> Value {
        match self {
            Kind::ReplicaSet | Kind::AppReplicaSet => json!({"matchLabels": labels}),
            Kind::ReplicationController => labels.clone(),
        }
    }
}

impl Stage {
    /// In a new namespace, with the controllers running.
    pub async fn set(kind: Kind, c: Cluster) -> Self {
        let env = engine::running(&c).await;
        let ns = c.namespace().await;
        let unseen = Unseen::default();
        Self {
            kind,
            c,
            ns,
            env,
            unseen,
        }
    }

    /// An owner of so many pods with `app: a`, to be created.
    pub fn owner(&self, name: &str, replicas: u32) -> Value {
        let labels = json!({"app": "a"});
        let spec = json!({
            "replicas": replicas, "selector": self.kind.selector(&labels), "template": fixtures::template(),
        });
        let owner = fixtures::named(self.kind.api_version(), self.kind.name(), name);
        with(owner, json!({"spec": spec}))
    }

    /// The same, with its pods on [`ELSEWHERE`].
    pub fn owner_elsewhere(&self, name: &str, replicas: u32) -> Value {
        let change = json!({"spec": {"template": {"spec": {"nodeName": ELSEWHERE}}}});
        with(self.owner(name, replicas), change)
    }

    /// Creates an owner. The pods that the test has made are there for it.
    pub async fn create(&self, owner: Value) -> Owner {
        if self.unseen.end() {
            self.pods_are_seen().await;
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

    /// Creates an owner, and waits until it has made all its pods and said so.
    pub async fn settled(&self, owner: Value) -> Owner {
        let replicas = owner["spec"]["replicas"].clone();
        let owner = self.create(owner).await;
        self.counts(&owner, "replicas", replicas.as_u64().expect("a number"))
            .await;
        owner
    }

    /// An owner as it is now.
    pub async fn get(&self, owner: &Owner) -> Value {
        self.c.api().get(&owner.path).await.expect(200)
    }

    /// Changes an owner by a merge patch.
    pub async fn change(&self, owner: &Owner, change: Value) -> Value {
        self.c.api().patch(&owner.path, MERGE, change).await.expect(200)
    }

    /// Changes the status of an owner by a merge patch.
    pub async fn change_status(&self, owner: &Owner, status: Value) {
        let path = format!("{}/status", owner.path);
        let change = json!({"status": status});
        self.c.api().patch(&path, MERGE, change).await.expect(200);
    }

    /// Asks for so many.
    pub async fn scale(&self, owner: &Owner, replicas: u32) {
        self.change(owner, json!({"spec": {"replicas": replicas}})).await;
    }

    /// Deletes an owner.
    pub async fn delete(&self, owner: &Owner, policy: &str) -> Value {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        self.c.api().delete(&owner.path, options).await.expect(200)
    }

    /// Deletes an owner in the way that is the default of its kind.
    pub async fn delete_plainly(&self, owner: &Owner) -> Value {
        self.c.api().delete(&owner.path, ()).await.expect(200)
    }

    /// Waits until the status of an owner is as wanted, and of its latest generation. Returns the owner.
    pub async fn status(&self, owner: &Owner, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(what, async || {
            let now = self.get(owner).await;
            let current = now["status"]["observedGeneration"] == now["metadata"]["generation"];
            (current && wanted(&now["status"])).then_some(now)
        })
        .await
    }

    /// Waits until a counter in the status of an owner is this. Returns the owner.
    pub async fn counts(&self, owner: &Owner, counter: &str, count: u64) -> Value {
        let what = format!("{} has {counter} {count}", owner.name);
        self.status(owner, &what, |status| counter_of(status, counter) == count)
            .await
    }

    /// Waits until the controller has looked at an owner, and at the pods that there are at this moment, and done nothing
    /// that takes longer.
    pub async fn looked_at(&self, owner: &Owner) {
        // Pods and owners come by different watches: by the second time the pods are there too.
        for _ in 0..2 {
            let now = self.get(owner).await;
            // There is nothing to do about it, but it makes another generation.
            let seconds = now["spec"]["minReadySeconds"].as_u64().unwrap_or_default();
            let change = json!({"spec": {"minReadySeconds": 1 + seconds}});
            self.change(owner, change).await;
            self.status(owner, "it is looked at", |_| true).await;
        }
    }

    /// Creates a pod with `app: a`, changed by a merge patch, on [`ELSEWHERE`].
    pub async fn pod(&self, name: &str, change: Value) -> Value {
        let pod = with(fixtures::pod(name), json!({"spec": {"nodeName": ELSEWHERE}}));
        let pods = fixtures::core(&self.ns, "pods");
        self.unseen.begin();
        self.c.api().post(&pods, with(pod, change)).await.expect(201)
    }

    /// A reference to an owner that is there and does nothing.
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

    /// All pods there are, but for those that are being deleted, ordered by name.
    pub async fn pods(&self) -> Vec<Value> {
        let mut pods = self.all_pods().await;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// All pods there are, ordered by name.
    pub async fn all_pods(&self) -> Vec<Value> {
        let list = self
            .c
            .api()
            .get(&fixtures::core(&self.ns, "pods"))
            .await
            .expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The pods of [`Stage::pods`] that are an owner's.
    pub async fn pods_of(&self, owner: &Owner) -> Vec<Value> {
        let mut pods = self.pods().await;
        pods.retain(|pod| controller(pod) == Some(&*owner.uid));
        pods
    }

    /// A pod as it is now.
    pub async fn get_pod(&self, name: &str) -> Value {
        self.c.api().get(&self.path_of(name)).await.expect(200)
    }

    /// Waits until a pod is as wanted.
    pub async fn pod_is(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{name} {what}"), async || {
            let pod = self.get_pod(name).await;
            wanted(&pod).then_some(pod)
        })
        .await
    }

    /// Changes a pod by a merge patch.
    pub async fn change_pod(&self, name: &str, change: Value) {
        self.unseen.begin();
        let path = self.path_of(name);
        self.c.api().patch(&path, MERGE, change).await.expect(200);
    }

    /// Changes the status of a pod, as its kubelet would.
    pub async fn change_pod_status(&self, name: &str, status: Value) {
        self.unseen.begin();
        let path = format!("{}/status", self.path_of(name));
        let change = json!({"status": status});
        self.c.api().patch(&path, STRATEGIC, change).await.expect(200);
    }

    /// Makes a pod Ready, since so many seconds.
    pub async fn make_ready(&self, name: &str, seconds: i64) {
        self.change_pod_status(
            name,
            json!({"phase": "Running", "conditions": [self.ready(seconds)]}),
        )
        .await;
    }

    /// The condition Ready, since so many seconds.
    pub fn ready(&self, seconds: i64) -> Value {
        let since = self.now() - SignedDuration::from_secs(seconds);
        json!({"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(since)})
    }

    /// Deletes a pod, gracefully.
    pub async fn delete_pod(&self, name: &str) {
        self.unseen.begin();
        self.c.api().delete(&self.path_of(name), ()).await.expect(200);
    }

    /// Waits until so many pods are an owner's. Returns them.
    pub async fn owns(&self, owner: &Owner, count: usize) -> Vec<Value> {
        self.until(&format!("{} owns {count}", owner.name), async || {
            let pods = self.pods_of(owner).await;
            (pods.len() == count).then_some(pods)
        })
        .await
    }

    /// What is said of an owner: type, reason and message, each once.
    pub async fn events(&self, owner: &Owner) -> BTreeSet<(String, String, String)> {
        let events = self.raw_events(owner).await;
        let said = |event: &Value| {
            (
                text(&event["type"]),
                text(&event["reason"]),
                text(&event["message"]),
            )
        };
        events.iter().map(said).collect()
    }

    /// The events of an owner.
    pub async fn raw_events(&self, owner: &Owner) -> Vec<Value> {
        let path = fixtures::core(&self.ns, "events");
        let path = format!("{path}?fieldSelector=involvedObject.uid={}", owner.uid);
        let list = self.c.api().get(&path).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until there is an answer.
    #[track_caller]
    pub fn until<T>(&self, what: &str, ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
        let caller = std::panic::Location::caller();
        async move {
            if let Some(answer) = time::eventually(engine::PATIENCE, ask).await {
                return answer;
            }
            panic!("not in time: {what}, at {caller}\n{}", self.show().await)
        }
    }

    /// All that is written to owners from now on.
    pub async fn watch_owners(&self) -> Watch {
        self.watch(&self.owners()).await
    }

    /// All that becomes of pods from now on.
    pub async fn watch_pods(&self) -> Watch {
        self.watch(&fixtures::core(&self.ns, "pods")).await
    }

    /// From what there is at this moment: what was there before is not told.
    async fn watch(&self, path: &str) -> Watch {
        let list = self.c.api().get(&format!("{path}?limit=1")).await.expect(200);
        let version = text(&list["metadata"]["resourceVersion"]);
        let path = format!("{path}?watch=1&resourceVersion={version}");
        self.c.api().watch(&path).await
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.env.clock.wall()
    }

    /// The path of all owners.
    pub fn owners(&self) -> String {
        self.path(self.kind)
    }

    /// The path of all owners of a kind.
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

    /// What there is, for a failure.
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

/// All events until nothing has happened for a while.
pub async fn drain(watch: &mut Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next(Duration::from_secs(2)).await {
        events.push(event);
    }
    events
}

/// How many of these events are of this type.
pub fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// The name of an object.
pub fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

/// The names of objects.
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

/// A counter of a status; what is not there is 0.
pub fn counter_of(status: &Value, counter: &str) -> u64 {
    status[counter].as_u64().unwrap_or_default()
}

/// A condition of a status.
pub fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|it| it["type"] == kind)
}

/// A text; empty if it is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
