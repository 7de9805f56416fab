//! Which pods go first. Every pod is staged: made by the test, adopted, and looked after by nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_tests::fixtures::with;
use coxswain_tests::{Test, time};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::stage::{Kind, Owner, Stage, name, names, text};

/// The annotation with the cost of a deletion.
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const HOUR: i64 = 3600;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    let only_replica_sets = vec![each!(@ those_next_to_others_of_the_deployment_first, ReplicaSet)];
    let all = [
        // What keeps a pod unassigned next to hollow-kubelet is a scheduling gate.
        each!(the_unassigned_first).map(|test| test.since(1, 27)),
        each!(by_phase),
        each!(those_that_are_not_ready_first),
        each!(the_cheapest_first),
        each!(those_ready_for_a_shorter_time_first),
        each!(of_those_ready_for_about_as_long_by_uid),
        each!(those_restarted_more_often_first),
        each!(those_with_restarted_sidecars_first).map(|test| test.since(1, 29)),
        each!(the_younger_first),
        each!(who_is_next_to_whom_does_not_matter_without_a_deployment),
        each!(readiness_before_cost_before_age),
    ];
    [all.concat(), only_replica_sets].concat()
}

/// Has all pods adopted, and then takes one after the other; the names in the order in which they went.
async fn order(s: &Stage) -> Vec<String> {
    let all = s.pods().await;
    let count = u32::try_from(all.len()).expect("few");
    let owner = s.settled(s.owner_elsewhere("a", count)).await;
    assert_eq!(names(&s.owns(&owner, all.len()).await), names(&all));
    let mut gone = Vec::new();
    for left in (1..count).rev() {
        gone.extend(taken(s, &owner, left).await);
    }
    gone
}

/// Scales down to `left`; the names of those who went.
async fn taken(s: &Stage, owner: &Owner, left: u32) -> BTreeSet<String> {
    let before = names(&s.pods_of(owner).await);
    s.scale(owner, left).await;
    let after = s.owns(owner, usize::try_from(left).expect("few")).await;
    s.counts(owner, "replicas", left.into()).await;
    before.difference(&names(&after)).cloned().collect()
}

async fn the_unassigned_first(s: Stage) {
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

async fn by_phase(s: Stage) {
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

async fn those_that_are_not_ready_first(s: Stage) {
    for pod in ["first", "unready", "last"] {
        s.pod(pod, json!({})).await;
        s.make_ready(pod, HOUR).await;
    }
    let unready = with(s.ready(HOUR), json!({"status": "False"}));
    s.change_pod_status("unready", json!({"conditions": [unready]}))
        .await;
    let owner = s.settled(s.owner_elsewhere("a", 3)).await;
    assert_eq!(taken(&s, &owner, 2).await, ["unready".to_owned()].into());
}

async fn the_cheapest_first(s: Stage) {
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

async fn those_ready_for_a_shorter_time_first(s: Stage) {
    for (pod, hours) in [("day", 24), ("year", 24 * 365), ("hour", 1), ("week", 24 * 7)] {
        s.pod(pod, json!({})).await;
        s.make_ready(pod, hours * HOUR).await;
    }
    assert_eq!(order(&s).await, ["hour", "day", "week"]);
}

/// So that not always the same ones go when a cluster is rolled.
async fn of_those_ready_for_about_as_long_by_uid(s: Stage) {
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

async fn those_restarted_more_often_first(s: Stage) {
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

async fn those_with_restarted_sidecars_first(s: Stage) {
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

async fn the_younger_first(s: Stage) {
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
    // Ages are compared by their logarithm: on a machine so slow that one is not twice the other, their uids decide.
    if s.now().duration_since(young) < young.duration_since(old) {
        assert_eq!(gone, ["young"]);
    }
}

/// Of a Deployment whose pods are of two generations: the node with the most of them is relieved.
async fn those_next_to_others_of_the_deployment_first(s: Stage) {
    assert_eq!(s.kind, Kind::ReplicaSet);
    // Something that is there, and that nobody looks after, stands for it.
    let deployment = json!([with(s.bystander("d").await, json!({"controller": true}))]);
    let staged = async |pod: &str, node: &str, version: &str, hours: i64| {
        s.pod(
            pod,
            json!({"metadata": {"labels": {"v": version}}, "spec": {"nodeName": node}}),
        )
        .await;
        s.make_ready(pod, hours * HOUR).await;
    };
    // Those who would go first by their age are alone.
    staged("alone", "node-1", "1", 1).await;
    staged("crowded", "node-2", "1", 24).await;
    for pod in ["next-1", "next-2"] {
        staged(pod, "node-2", "2", 24).await;
    }
    let mut owners = Vec::new();
    for (version, replicas) in [("1", 2), ("2", 2)] {
        let labels = json!({"app": "a", "v": version});
        let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
        let change = json!({"metadata": {"ownerReferences": deployment}, "spec": spec});
        let body = with(s.owner_elsewhere(&format!("d-{version}"), replicas), change);
        owners.push(s.settled(body).await);
    }
    assert_eq!(taken(&s, &owners[0], 1).await, ["crowded".to_owned()].into());
}

async fn who_is_next_to_whom_does_not_matter_without_a_deployment(s: Stage) {
    for (pod, node, hours) in [
        ("alone", "node-1", 1),
        ("one", "node-2", 24),
        ("two", "node-2", 24),
    ] {
        s.pod(pod, json!({"spec": {"nodeName": node}})).await;
        s.make_ready(pod, hours * HOUR).await;
    }
    let owner = s.settled(s.owner_elsewhere("a", 3)).await;
    assert_eq!(taken(&s, &owner, 2).await, ["alone".to_owned()].into());
}

async fn readiness_before_cost_before_age(s: Stage) {
    let staged = [
        ("costly-unready", "50", None),
        ("cheap-old", "-1", Some(24 * 365)),
        ("costly-young", "9", Some(1)),
    ];
    for (pod, cost, hours) in staged {
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
