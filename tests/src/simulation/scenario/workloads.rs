//! `ReplicaSets`, replication controllers and Deployments.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::checker::Rules;
use super::super::fault::Class;
use super::super::schedule::Schedule;
use super::super::user::{Policy, User};

pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";

pub(super) fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

pub(super) fn workload(kind: &str, name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "one"),
        },
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A `ReplicaSet` is scaled up and down.
pub(super) async fn scale(user: &mut User) {
    user.create(SETS, &workload("ReplicaSet", "a", 2));
    for _ in 0..3 {
        user.pause(40).await;
        let replicas = user.random().below(6);
        user.patch(&format!("{SETS}/a"), &json!({"spec": {"replicas": replicas}}));
    }
    user.pause(40).await;
}

/// The loss of single messages costs less than an expectation that expires.
pub(super) fn rules_of_scale(schedule: &Schedule, rules: &mut Rules) {
    let is_lost = |class| matches!(class, Class::F04 | Class::F05 | Class::F13);
    if schedule.faults.iter().all(|it| is_lost(it.class)) {
        rules.converges_within = Duration::from_mins(3);
    }
}

/// Pods gain and lose the labels of a `ReplicaSet`, and a pod without an owner exists before it.
pub(super) async fn adopt(user: &mut User) {
    let mut pod = template("a", "one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("before");
    user.create(PODS, &pod);
    user.create(SETS, &workload("ReplicaSet", "a", 3));
    user.pause(60).await;
    pod["metadata"]["name"] = json!("after");
    user.create(PODS, &pod);
    for app in ["b", "a"] {
        user.pause(60).await;
        let pods = user.list(PODS);
        if !pods.is_empty() {
            let name = user.random().pick(&pods)["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            user.patch(
                &format!("{PODS}/{name}"),
                &json!({"metadata": {"labels": {"app": app}}}),
            );
        }
    }
    user.pause(60).await;
    if user.random().percent(30) {
        user.delete(&format!("{SETS}/a"), Policy::Orphan);
    }
}

/// A replication controller is scaled.
pub(super) async fn scale_controller(user: &mut User) {
    let mut controller = workload("ReplicationController", "a", 2);
    controller["apiVersion"] = json!("v1");
    controller["spec"]["selector"] = json!({"app": "a"});
    user.create(CONTROLLERS, &controller);
    user.pause(60).await;
    user.patch(&format!("{CONTROLLERS}/a"), &json!({"spec": {"replicas": 4}}));
    user.pause(60).await;
    user.delete(&format!("{CONTROLLERS}/a"), Policy::Background);
}

/// A Deployment is created and scaled.
pub(super) async fn create(user: &mut User) {
    user.create(DEPLOYMENTS, &workload("Deployment", "a", 3));
    user.pause(100).await;
    let replicas = user.random().below(5);
    user.patch(
        &format!("{DEPLOYMENTS}/a"),
        &json!({"spec": {"replicas": replicas}}),
    );
    user.pause(100).await;
}

/// A Deployment is rolled with a surge and a number of unavailable pods, and scaled meanwhile.
pub(super) async fn roll(user: &mut User) {
    let path = format!("{DEPLOYMENTS}/a");
    let mut deployment = workload("Deployment", "a", 3);
    let numbers = *user.random().pick(&[(1, 0), (0, 1), (2, 1), (1, 1)]);
    deployment["spec"]["strategy"] = json!({
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": numbers.0, "maxUnavailable": numbers.1},
    });
    deployment["spec"]["minReadySeconds"] = json!(*user.random().pick(&[0, 0, 2]));
    user.create(DEPLOYMENTS, &deployment);
    user.pause(150).await;
    user.patch(&path, &image("two"));
    user.pause(100).await;
    if user.random().percent(50) {
        user.patch(&path, &json!({"spec": {"replicas": 4}}));
    }
    user.pause(100).await;
    if user.random().percent(30) {
        user.delete(&path, Policy::Background);
    }
}

/// A Deployment is rolled, paused, continued and rolled back.
pub(super) async fn roll_back(user: &mut User) {
    let path = format!("{DEPLOYMENTS}/a");
    user.create(DEPLOYMENTS, &workload("Deployment", "a", 2));
    user.pause(120).await;
    user.patch(&path, &image("two"));
    user.pause(60).await;
    user.patch(&path, &json!({"spec": {"paused": true}}));
    user.pause(60).await;
    user.patch(&path, &image("one"));
    user.pause(30).await;
    user.patch(&path, &json!({"spec": {"paused": false}}));
    user.pause(100).await;
}

/// A Deployment with the strategy `Recreate` is changed twice.
pub(super) async fn recreate(user: &mut User) {
    let path = format!("{DEPLOYMENTS}/a");
    let mut deployment = workload("Deployment", "a", 2);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    user.create(DEPLOYMENTS, &deployment);
    for text in ["two", "three"] {
        user.pause(120).await;
        user.patch(&path, &image(text));
    }
    user.pause(100).await;
}

/// A webhook changes the templates of new `ReplicaSets`. A Deployment is rolled meanwhile.
pub(super) async fn webhook(user: &mut User) {
    let path = format!("{DEPLOYMENTS}/a");
    user.create(DEPLOYMENTS, &workload("Deployment", "a", 2));
    user.pause(120).await;
    user.patch(&path, &image("two"));
    user.pause(120).await;
}
