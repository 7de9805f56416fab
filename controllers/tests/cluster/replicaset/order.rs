//! The order of deletion. The test creates every pod, and no kubelet changes it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_harness::fixtures::with;
use steersman_harness::{Test, time};

use super::fixture::{Fixture, Kind, Owner, name, names, text};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const HOUR: i64 = 3600;

pub fn tests() -> Vec<Test> {
    let only_replica_sets = vec![each!(@ pods_with_related_pods_on_the_node_are_deleted_first, ReplicaSet)];
    let all = [
        // A scheduling gate keeps hollow-kubelet from binding the pod.
        each!(unassigned_pods_are_deleted_first).map(|test| test.since(1, 27)),
        each!(pending_pods_are_deleted_first),
        each!(unready_pods_are_deleted_first),
        each!(pods_with_lower_cost_are_deleted_first),
        each!(recently_ready_pods_are_deleted_first),
        each!(pods_ready_in_the_same_bucket_are_deleted_by_uid),
        each!(pods_with_more_restarts_are_deleted_first),
        each!(pods_with_restarted_sidecars_are_deleted_first).map(|test| test.since(1, 29)),
        each!(newer_pods_are_deleted_first),
        each!(related_pods_do_not_matter_without_a_deployment),
        each!(readiness_precedes_cost_and_cost_precedes_age),
    ];
    [all.concat(), only_replica_sets].concat()
}

/// Adopts all pods, deletes one after the other, and returns the names in this order.
async fn order(s: &Fixture) -> Vec<String> {
    let all = s.pods().await;
    let count = u32::try_from(all.len()).expect("few");
    let owner = s.settled(s.owner_on_unmanaged_node("a", count)).await;
    assert_eq!(names(&s.owns(&owner, all.len()).await), names(&all));
    let mut gone = Vec::new();
    for left in (1..count).rev() {
        gone.extend(deleted(s, &owner, left).await);
    }
    gone
}

/// Scales down to `left` and returns the names of the deleted pods.
async fn deleted(s: &Fixture, owner: &Owner, left: u32) -> BTreeSet<String> {
    let before = names(&s.pods_of(owner).await);
    s.scale(owner, left).await;
    let after = s.owns(owner, usize::try_from(left).expect("few")).await;
    s.counts(owner, "replicas", left.into()).await;
    before.difference(&names(&after)).cloned().collect()
}

async fn unassigned_pods_are_deleted_first(s: Fixture) {
    s.pod("assigned", json!({})).await;
    let gated = json!({"spec": {"nodeName": null, "schedulingGates": [{"name": "example.com/hold"}]}});
    s.pod(
        "unassigned",
        with(gated, json!({"metadata": {"annotations": {COST: "100"}}})),
    )
    .await;
    s.pod("second", json!({})).await;
    s.make_ready("second", HOUR).await;
    assert_eq!(order(&s).await, ["unassigned", "assigned"]);
}

async fn pending_pods_are_deleted_first(s: Fixture) {
    for (pod, phase) in [
        ("running", "Running"),
        ("pending", "Pending"),
        ("unknown", "Unknown"),
    ] {
        s.pod(pod, json!({})).await;
        s.change_pod_status(pod, json!({"phase": phase})).await;
    }
    assert_eq!(order(&s).await, ["pending", "unknown"]);
}

async fn unready_pods_are_deleted_first(s: Fixture) {
    for pod in ["first", "unready", "last"] {
        s.pod(pod, json!({})).await;
        s.make_ready(pod, HOUR).await;
    }
    let unready = with(s.ready(HOUR), json!({"status": "False"}));
    s.change_pod_status("unready", json!({"conditions": [unready]}))
        .await;
    let owner = s.settled(s.owner_on_unmanaged_node("a", 3)).await;
    assert_eq!(deleted(&s, &owner, 2).await, ["unready".to_owned()].into());
}

async fn pods_with_lower_cost_are_deleted_first(s: Fixture) {
    for (pod, cost) in [
        ("seven", Some("7")),
        ("none", None),
        ("minus", Some("-5")),
        ("one", Some("1")),
    ] {
        s.pod(pod, json!({"metadata": {"annotations": {COST: cost}}}))
            .await;
        s.make_ready(pod, HOUR).await;
    }
    assert_eq!(order(&s).await, ["minus", "none", "one"]);
}

async fn recently_ready_pods_are_deleted_first(s: Fixture) {
    for (pod, hours) in [("day", 24), ("year", 24 * 365), ("hour", 1), ("week", 24 * 7)] {
        s.pod(pod, json!({})).await;
        s.make_ready(pod, hours * HOUR).await;
    }
    assert_eq!(order(&s).await, ["hour", "day", "week"]);
}

/// The uid spreads deletions in a cluster whose nodes are drained one by one.
async fn pods_ready_in_the_same_bucket_are_deleted_by_uid(s: Fixture) {
    let mut uids = Vec::new();
    // 2^51 ns are 26 days, 2^52 are 52.
    for (pod, days) in [("one", 30), ("two", 35), ("three", 40), ("four", 45)] {
        let made = s.pod(pod, json!({})).await;
        uids.push((text(&made["metadata"]["uid"]), pod));
        s.make_ready(pod, days * 24 * HOUR).await;
    }
    uids.sort_unstable();
    let by_uid: Vec<&str> = uids.iter().take(3).map(|(_, pod)| *pod).collect();
    assert_eq!(order(&s).await, by_uid);
}

async fn pods_with_more_restarts_are_deleted_first(s: Fixture) {
    let ready = s.ready(HOUR);
    for (pod, restarts) in [("often", 5), ("never", 0), ("once", 1)] {
        s.pod(pod, json!({})).await;
        let status = json!({
            "phase": "Running", "conditions": [ready], "containerStatuses": [container("c", restarts)],
        });
        s.change_pod_status(pod, status).await;
    }
    assert_eq!(order(&s).await, ["often", "once"]);
}

async fn pods_with_restarted_sidecars_are_deleted_first(s: Fixture) {
    let ready = s.ready(HOUR);
    let inits = json!([
        {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
        {"name": "setup", "image": "i"},
    ]);
    for (pod, sidecar, setup) in [("setup", 0, 9), ("often", 5, 0), ("once", 1, 0)] {
        s.pod(pod, json!({"spec": {"initContainers": inits}})).await;
        let status = json!({
            "phase": "Running", "conditions": [ready], "containerStatuses": [container("c", 2)],
            "initContainerStatuses": [container("sidecar", sidecar), container("setup", setup)],
        });
        s.change_pod_status(pod, status).await;
    }
    assert_eq!(order(&s).await, ["often", "once"]);
}

fn container(name: &str, restarts: u32) -> Value {
    json!({"name": name, "image": "i", "imageID": "i", "ready": true, "restartCount": restarts})
}

async fn newer_pods_are_deleted_first(s: Fixture) {
    let created = async |pod: &str| -> Timestamp {
        let made = s.pod(pod, json!({})).await;
        text(&made["metadata"]["creationTimestamp"])
            .parse()
            .expect("a time")
    };
    let old = created("old").await;
    time::pause(Duration::from_secs(6)).await;
    let young = created("young").await;
    let gone = order(&s).await;
    // Ages are compared in powers of two: on a slow machine both may be in one bucket, and the uids decide.
    if s.now().duration_since(young) < young.duration_since(old) {
        assert_eq!(gone, ["young"]);
    }
}

/// Two `ReplicaSets` of one Deployment: the node with the most of their pods comes first.
async fn pods_with_related_pods_on_the_node_are_deleted_first(s: Fixture) {
    assert_eq!(s.kind, Kind::ReplicaSet);
    // A ConfigMap stands for the Deployment.
    let deployment = json!([with(s.bystander("d").await, json!({"controller": true}))]);
    let create_pod = async |pod: &str, node: &str, version: &str, hours: i64| {
        s.pod(
            pod,
            json!({"metadata": {"labels": {"v": version}}, "spec": {"nodeName": node}}),
        )
        .await;
        s.make_ready(pod, hours * HOUR).await;
    };
    // The pod that would be first by its age is alone.
    create_pod("alone", "node-1", "1", 1).await;
    create_pod("crowded", "node-2", "1", 24).await;
    for pod in ["next-1", "next-2"] {
        create_pod(pod, "node-2", "2", 24).await;
    }
    let mut owners = Vec::new();
    for (version, replicas) in [("1", 2), ("2", 2)] {
        let labels = json!({"app": "a", "v": version});
        let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
        let change = json!({"metadata": {"ownerReferences": deployment}, "spec": spec});
        let body = with(
            s.owner_on_unmanaged_node(&format!("d-{version}"), replicas),
            change,
        );
        owners.push(s.settled(body).await);
    }
    assert_eq!(deleted(&s, &owners[0], 1).await, ["crowded".to_owned()].into());
}

async fn related_pods_do_not_matter_without_a_deployment(s: Fixture) {
    for (pod, node, hours) in [
        ("alone", "node-1", 1),
        ("one", "node-2", 24),
        ("two", "node-2", 24),
    ] {
        s.pod(pod, json!({"spec": {"nodeName": node}})).await;
        s.make_ready(pod, hours * HOUR).await;
    }
    let owner = s.settled(s.owner_on_unmanaged_node("a", 3)).await;
    assert_eq!(deleted(&s, &owner, 2).await, ["alone".to_owned()].into());
}

async fn readiness_precedes_cost_and_cost_precedes_age(s: Fixture) {
    let pods = [
        ("costly-unready", "50", None),
        ("cheap-old", "-1", Some(24 * 365)),
        ("costly-young", "9", Some(1)),
    ];
    for (pod, cost, hours) in pods {
        let made = s
            .pod(pod, json!({"metadata": {"annotations": {COST: cost}}}))
            .await;
        assert_eq!(name(&made), pod);
        match hours {
            Some(hours) => s.make_ready(pod, hours * HOUR).await,
            None => s.change_pod_status(pod, json!({"phase": "Running"})).await,
        }
    }
    assert_eq!(order(&s).await, ["costly-unready", "cheap-old"]);
}
