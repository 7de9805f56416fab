//! The product takes over from kube-controller-manager, which stops between two writes.

use serde_json::json;

use super::super::user::{Policy, User};
use super::garbage::{MAPS, map};
use super::workloads::{DEPLOYMENTS, PODS, SETS, template, workload};

/// The objects that kube-controller-manager leaves behind: a Deployment with a part of its `ReplicaSet` and pods, and an owner
/// that waits for its dependents.
pub(super) fn prepare(user: &mut User) {
    let deployment = user.create(DEPLOYMENTS, &workload("Deployment", "a", 3));
    let reference = |owner: &serde_json::Value| {
        json!([{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }])
    };
    if user.random().percent(70) {
        let hash = "6c8b9d7f5";
        let labels = json!({"app": "a", "pod-template-hash": hash});
        let mut set = workload("ReplicaSet", "a", 3);
        set["metadata"] = json!({
            "name": format!("a-{hash}"), "labels": labels, "ownerReferences": reference(&deployment),
            "annotations": {
                "deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
                "deployment.kubernetes.io/max-replicas": "4",
            },
        });
        set["spec"]["selector"]["matchLabels"] = labels.clone();
        set["spec"]["template"]["metadata"]["labels"] = labels.clone();
        let set = user.create(SETS, &set);
        for index in 0..user.random().below(4) {
            let mut pod = template("a", "one");
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"] = json!({
                "name": format!("a-{hash}-{index}"), "labels": labels, "ownerReferences": reference(&set),
            });
            user.create(PODS, &pod);
        }
    }
    let owner = user.create(MAPS, &map("owner", &[]));
    for index in 0..3 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&owner]));
    }
    let policy = *user.random().pick(&[Policy::Foreground, Policy::Orphan]);
    user.delete(&format!("{MAPS}/owner"), policy);
}

pub(super) async fn take_over(user: &mut User) {
    user.pause(200).await;
    user.patch(&format!("{DEPLOYMENTS}/a"), &json!({"spec": {"replicas": 1}}));
    user.pause(100).await;
}
