//! Workloads that make each controller send every kind of request that its role allows.

use http::Method;
use serde_json::{Value, json};
use steersman_harness::fixtures::{self, MERGE, apps, core, with};
use steersman_harness::{Api, Cluster};

use super::instances::Instances;
use super::manifests;

const CUSTOM: &str = "appcontroller.k8s.io/v1alpha1";
/// Enough pods for their events to be aggregated.
const MANY: usize = 12;

/// One workload, in a namespace of its own.
struct Workload<'a> {
    api: &'a Api,
    instances: &'a Instances,
    ns: String,
}

/// Runs all workloads to completion.
pub async fn run_all(c: &Cluster, instances: &Instances) {
    let workload = async || Workload {
        api: c.api(),
        instances,
        ns: c.namespace().await,
    };
    let (set, controller, custom) = (
        fixtures::replica_set("web"),
        fixtures::replication_controller("web"),
        with(
            fixtures::replica_set("web"),
            json!({"apiVersion": CUSTOM, "kind": "AppReplicaSet"}),
        ),
    );
    tokio::join!(
        async { workload().await.apps().await },
        async { workload().await.rollouts().await },
        async { workload().await.history().await },
        async { workload().await.replicas("Background", set).await },
        async { workload().await.replicas("Foreground", controller).await },
        async { workload().await.replicas("Orphan", custom).await },
        async { workload().await.garbage().await },
    );
}

/// Waits for the Deployment of the sample `AppService`.
pub async fn sample(c: &Cluster, instances: &Instances) {
    let workload = Workload {
        api: c.api(),
        instances,
        ns: c.namespace().await,
    };
    let app = workload.create_sample().await;
    let deployment = format!("{}/web", apps(&workload.ns, "deployments"));
    instances
        .until("the Deployment of the sample", async || {
            is_of(&c.api().get(&deployment).await.json(), &app)
        })
        .await;
}

/// Whether `owner` is the only owner.
fn is_of(object: &Value, owner: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|it| it.len() == 1 && it[0]["uid"] == owner["metadata"]["uid"])
}

fn has_no_owner(object: &Value) -> bool {
    object["metadata"]["ownerReferences"].is_null()
}

impl Workload<'_> {
    async fn items(&self, collection: &str) -> Vec<Value> {
        let list = self.api.get(collection).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    async fn pods(&self) -> Vec<Value> {
        self.items(&core(&self.ns, "pods")).await
    }

    async fn sets(&self) -> Vec<Value> {
        self.items(&apps(&self.ns, "replicasets")).await
    }

    /// Waits until a new custom resource is served.
    async fn served(&self, collection: &str) {
        self.instances
            .until("served", async || self.api.get(collection).await.status == 200)
            .await;
    }

    async fn is_gone(&self, path: &str) -> bool {
        self.api.get(path).await.status == 404
    }

    async fn merge(&self, path: &str, change: Value) -> Value {
        self.api.patch(path, MERGE, change).await.expect(200)
    }

    async fn delete(&self, path: &str, policy: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        self.api.delete(path, options).await.expect(200);
    }

    /// Waits for events about objects of this kind, one of them aggregated.
    async fn events(&self, kind: &str) {
        let events = core(&self.ns, "events");
        self.instances
            .until(&format!("events of {kind}"), async || {
                let all = self.items(&events).await;
                let about = |it: &&Value| it["involvedObject"]["kind"] == kind;
                all.iter().filter(about).any(|it| it["count"].as_i64() >= Some(2))
            })
            .await;
    }

    async fn create_sample(&self) -> Value {
        let all = fixtures::group(CUSTOM, &self.ns, "appservices");
        self.served(&all).await;
        let sample = manifests::read("samples/appservice.yaml").remove(0);
        let yaml = [("content-type", "application/yaml")];
        let reply = self
            .api
            .request(Method::POST, &all, &yaml, sample.text.as_str())
            .await;
        reply.check(reply.header("warning").is_none(), "a warning");
        reply.expect(201)
    }

    /// The sample `AppService`: with and without a Service, with both deletion policies, with another Deployment name.
    async fn apps(&self) {
        let all = fixtures::group(CUSTOM, &self.ns, "appservices");
        let web = format!("{all}/web");
        let deployment = |name: &str| format!("{}/{name}", apps(&self.ns, "deployments"));
        let service = format!("{}/web", core(&self.ns, "services"));
        let app = self.create_sample().await;
        self.instances
            .until("an application", async || {
                is_of(&self.api.get(&deployment("web")).await.json(), &app)
                    && self.api.get(&web).await.expect(200)["status"]["updatedReplicas"] == 2
            })
            .await;
        for ports in [json!([{"port": 80}]), json!([{"port": 81}]), json!(null)] {
            self.merge(&web, json!({"spec": {"ports": ports}})).await;
            self.instances
                .until("its Service", async || {
                    let found = self.api.get(&service).await.json();
                    found["spec"]["ports"][0]["port"] == ports[0]["port"]
                })
                .await;
        }
        self.merge(&web, json!({"spec": {"replicas": 0}})).await;
        self.merge(&web, json!({"spec": {"deploymentName": "other"}}))
            .await;
        self.instances
            .until("another name", async || {
                self.is_gone(&deployment("web")).await && !self.is_gone(&deployment("other")).await
            })
            .await;
        for policy in ["Orphan", "Delete", "Orphan"] {
            self.merge(&web, json!({"spec": {"deletionPolicy": policy}}))
                .await;
            self.instances
                .until("its policy", async || {
                    let app = self.api.get(&web).await.expect(200);
                    let other = self.api.get(&deployment("other")).await.expect(200);
                    let orphan = policy == "Orphan";
                    has_no_owner(&other) == orphan && app["metadata"]["finalizers"].is_null() != orphan
                })
                .await;
        }
        self.delete(&web, "Background").await;
        self.instances
            .until("removal", async || self.is_gone(&web).await)
            .await;
        // A Deployment without an owner has the name now.
        self.api
            .post(&apps(&self.ns, "deployments"), fixtures::deployment("web"))
            .await
            .expect(201);
        self.create_sample().await;
        self.events("AppService").await;
        self.delete(&web, "Foreground").await;
        self.instances
            .until("second removal", async || self.is_gone(&web).await)
            .await;
    }

    /// A Deployment: created, scaled, orphaned and adopted.
    async fn rollouts(&self) {
        let all = apps(&self.ns, "deployments");
        let web = format!("{all}/web");
        let make = async || self.api.post(&all, fixtures::deployment("web")).await.expect(201);
        let is =
            async |field: &str, value: i64| self.api.get(&web).await.expect(200)["status"][field] == value;
        make().await;
        self.instances
            .until("a status", async || is("updatedReplicas", 1).await)
            .await;
        for size in [2, 1, 2, 1] {
            self.merge(&web, json!({"spec": {"replicas": size}})).await;
            self.instances
                .until("its size", async || self.pods().await.len() == size)
                .await;
        }
        self.events("Deployment").await;

        let orphan = async || {
            self.delete(&web, "Orphan").await;
            self.instances
                .until("orphaned", async || {
                    self.is_gone(&web).await && self.sets().await.iter().all(has_no_owner)
                })
                .await;
        };
        orphan().await;
        let second = make().await;
        self.instances
            .until("adopted", async || {
                self.sets().await.iter().all(|it| is_of(it, &second))
            })
            .await;
        orphan().await;
        let name = self.sets().await[0]["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        let set = format!("{}/{name}", apps(&self.ns, "replicasets"));
        self.merge(&set, json!({"metadata": {"labels": {"app": "other"}}}))
            .await;
        make().await;
        // The name derived from the template is taken.
        self.instances
            .until("a collision", async || {
                is("collisionCount", 1).await && self.sets().await.len() == 2
            })
            .await;
        let back = "deprecated.deployment.rollback.to";
        self.merge(&web, json!({"metadata": {"annotations": {back: "99"}}}))
            .await;
        self.instances
            .until("an answer to a rollback", async || {
                self.api.get(&web).await.expect(200)["metadata"]["annotations"][back].is_null()
            })
            .await;
        self.delete(&web, "Background").await;
        self.instances
            .until("collected", async || self.sets().await.len() == 1)
            .await;
    }

    /// A Deployment without revision history.
    async fn history(&self) {
        let all = apps(&self.ns, "deployments");
        let none = json!({"spec": {"replicas": 0, "revisionHistoryLimit": 0}});
        self.api
            .post(&all, with(fixtures::deployment("idle"), none))
            .await
            .expect(201);
        let only = async |image: &str| {
            let sets = self.sets().await;
            sets.len() == 1 && sets[0]["spec"]["template"]["spec"]["containers"][0]["image"] == image
        };
        self.instances
            .until("the first ReplicaSet", async || only("i").await)
            .await;
        let next = json!([{"name": "c", "image": "next"}]);
        self.merge(
            &format!("{all}/idle"),
            json!({"spec": {"template": {"spec": {"containers": next}}}}),
        )
        .await;
        self.instances
            .until("removal of the old ReplicaSet", async || only("next").await)
            .await;
    }

    /// An owner of pods: it adopts, creates, deletes and releases pods, and is deleted.
    async fn replicas(&self, policy: &str, body: Value) {
        let kind = body["kind"].as_str().expect("a kind").to_owned();
        let version = body["apiVersion"].as_str().expect("a version");
        let plural = format!("{}s", kind.to_lowercase());
        let all = if version == "v1" {
            core(&self.ns, &plural)
        } else {
            fixtures::group(version, &self.ns, &plural)
        };
        self.served(&all).await;
        let web = format!("{all}/web");
        let lone = format!("{}/lone", core(&self.ns, "pods"));
        self.api
            .post(&core(&self.ns, "pods"), fixtures::pod("lone"))
            .await
            .expect(201);
        self.pods_are_cached(&all, &body).await;
        let owner = self
            .api
            .post(&all, with(body, json!({"spec": {"replicas": MANY}})))
            .await
            .expect(201);
        let count = async || {
            let pods = self.pods().await.into_iter();
            pods.filter(|it| is_of(it, &owner)).count()
        };
        self.instances
            .until(&format!("pods of {kind}"), async || {
                count().await == MANY && is_of(&self.api.get(&lone).await.expect(200), &owner)
            })
            .await;
        self.instances
            .until(&format!("a status of {kind}"), async || {
                self.api.get(&web).await.expect(200)["status"]["replicas"] == MANY
            })
            .await;
        self.events(&kind).await;
        self.merge(&lone, json!({"metadata": {"labels": {"app": "other"}}}))
            .await;
        self.instances
            .until(&format!("{kind} releases a pod"), async || {
                count().await == MANY && has_no_owner(&self.api.get(&lone).await.expect(200))
            })
            .await;
        self.merge(&web, json!({"spec": {"replicas": 2}})).await;
        self.instances
            .until(&format!("{kind} is scaled down"), async || count().await == 2)
            .await;
        self.delete(&web, policy).await;
        self.instances
            .until(&format!("{kind} is deleted: {policy}"), async || {
                let pods = self.pods().await;
                let left = if policy == "Orphan" { 3 } else { 1 };
                self.is_gone(&web).await && pods.len() == left && pods.iter().all(has_no_owner)
            })
            .await;
    }

    /// Waits until the controller's cache contains all pods so far: an owner with 0 replicas has deleted a later pod. Pods and
    /// owners have separate watches, and an owner that arrives first would create pods instead of adopting.
    async fn pods_are_cached(&self, owners: &str, body: &Value) {
        let labels = json!({"app": "seen"});
        let mut change = json!({
            "metadata": {"name": "seen"}, "spec": {"replicas": 0, "template": {"metadata": {"labels": labels}}},
        });
        if body["spec"]["selector"].is_object() {
            change["spec"]["selector"] = json!({"matchLabels": labels});
        }
        self.api
            .post(owners, with(body.clone(), change))
            .await
            .expect(201);
        let pods = core(&self.ns, "pods");
        let pod = with(fixtures::pod("seen"), json!({"metadata": {"labels": labels}}));
        self.api.post(&pods, pod).await.expect(201);
        self.instances
            .until("deletion of a surplus pod", async || {
                self.is_gone(&format!("{pods}/seen")).await
            })
            .await;
        self.delete(&format!("{owners}/seen"), "Background").await;
    }

    /// Objects with absent owners, and with an owner in another namespace.
    async fn garbage(&self) {
        let all = core(&self.ns, "configmaps");
        let refer = |name: &str, owners: Value| {
            with(
                fixtures::config_map(name),
                json!({"metadata": {"ownerReferences": owners}}),
            )
        };
        let make = async |map: Value| self.api.post(&all, map).await.expect(201);
        let top = make(fixtures::config_map("top")).await;
        let far = core("default", "configmaps");
        let far = self.api.post(&far, fixtures::config_map("far")).await.expect(201);
        let to = |owner: &Value| {
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}])
        };
        make(refer("leaf", to(&top))).await;
        make(refer("stray", json!([fixtures::owner("nobody")]))).await;
        make(refer("wrong", to(&far))).await;
        self.delete(&format!("{all}/top"), "Foreground").await;
        let events = core(&self.ns, "events");
        self.instances
            .until("garbage is collected", async || {
                let maps = self.items(&all).await;
                let ours = ["top", "leaf", "stray"];
                !maps
                    .iter()
                    .any(|it| ours.iter().any(|name| it["metadata"]["name"] == *name))
            })
            .await;
        self.instances
            .until("a warning of a reference", async || {
                let events = self.items(&events).await;
                events.iter().any(|it| it["reason"] == "OwnerRefInvalidNamespace")
            })
            .await;
    }
}
