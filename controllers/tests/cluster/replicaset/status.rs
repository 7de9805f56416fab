//! The status of owners.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_harness::fixtures::with;
use steersman_harness::{Test, time};

use super::fixture::{Fixture, Kind, condition, counter_of, name, names, text};

pub fn tests() -> Vec<Test> {
    [
        each!(ready_pods_are_counted),
        each!(fully_labeled_pods_are_counted),
        each!(pod_is_available_after_min_ready_seconds),
        each!(pod_ready_for_min_ready_seconds_is_available_at_once),
        each!(terminating_pods_are_counted).map(|test| test.since(1, 35)),
        each!(observed_generation_is_updated),
        each!(conditions_of_other_clients_are_kept),
        each!(overwritten_status_is_corrected),
        each!(unchanged_status_is_not_written),
    ]
    .concat()
}

async fn ready_pods_are_counted(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 3)).await;
    let pods = s.pods_of(&owner).await;
    for (at, pod) in pods.iter().enumerate().take(2) {
        s.make_ready(&name(pod), 100).await;
        let ready = 1 + u64::try_from(at).expect("few");
        let now = s.counts(&owner, "readyReplicas", ready).await;
        assert_eq!(counter_of(&now["status"], "availableReplicas"), ready, "{now:#}");
        assert_eq!(counter_of(&now["status"], "replicas"), 3, "{now:#}");
    }
    let unready = with(s.ready(0), json!({"status": "False"}));
    s.change_pod_status(&name(&pods[0]), json!({"conditions": [unready]}))
        .await;
    let now = s.counts(&owner, "readyReplicas", 1).await;
    assert_eq!(counter_of(&now["status"], "availableReplicas"), 1, "{now:#}");
}

async fn fully_labeled_pods_are_counted(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    s.counts(&owner, "fullyLabeledReplicas", 2).await;
    let template = json!({"metadata": {"labels": {"v": "2"}}});
    s.change(&owner, json!({"spec": {"template": template}})).await;
    s.counts(&owner, "fullyLabeledReplicas", 0).await;
    let pod = name(&s.pods_of(&owner).await[0]);
    s.change_pod(&pod, json!({"metadata": {"labels": {"v": "2"}}}))
        .await;
    s.counts(&owner, "fullyLabeledReplicas", 1).await;
    s.scale(&owner, 3).await;
    let now = s.counts(&owner, "fullyLabeledReplicas", 2).await;
    assert_eq!(counter_of(&now["status"], "replicas"), 3, "{now:#}");
}

/// Never too early, and without an event. The time is printed here, and asserted on a paused clock in
/// `suite/replicaset/replicas.rs`.
async fn pod_is_available_after_min_ready_seconds(s: Fixture) {
    const MIN_READY: SignedDuration = SignedDuration::from_secs(10);
    let mut times = Vec::new();
    for round in 0..3 {
        let body = with(
            s.owner_on_unmanaged_node(&format!("a{round}"), 1),
            json!({"spec": {"minReadySeconds": MIN_READY.as_secs()}}),
        );
        let owner = s.settled(body).await;
        let pod = name(&s.pods_of(&owner).await[0]);
        s.make_ready(&pod, MIN_READY.as_secs() - 3).await;
        s.counts(&owner, "readyReplicas", 1).await;
        let pod = s.get_pod(&pod).await;
        let ready = condition(&pod["status"], "Ready").expect("a Ready condition");
        let since: Timestamp = text(&ready["lastTransitionTime"]).parse().expect("a time");
        s.counts(&owner, "availableReplicas", 1).await;
        let passed = s.now().duration_since(since);
        assert!(passed >= MIN_READY, "after {passed:#} already");
        times.push(passed.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!(
        "available after {times:.1?} s, with minReadySeconds {}",
        MIN_READY.as_secs()
    );
}

async fn pod_ready_for_min_ready_seconds_is_available_at_once(s: Fixture) {
    let body = with(
        s.owner_on_unmanaged_node("a", 1),
        json!({"spec": {"minReadySeconds": 600}}),
    );
    let owner = s.settled(body).await;
    s.make_ready(&name(&s.pods_of(&owner).await[0]), 601).await;
    s.counts(&owner, "availableReplicas", 1).await;
    s.change(&owner, json!({"spec": {"minReadySeconds": 100_000}}))
        .await;
    let now = s.counts(&owner, "availableReplicas", 0).await;
    assert_eq!(counter_of(&now["status"], "readyReplicas"), 1, "{now:#}");
}

async fn terminating_pods_are_counted(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 3)).await;
    let now = s.get(&owner).await;
    let pods = s.pods_of(&owner).await;
    if s.kind == Kind::ReplicationController {
        s.delete_pod(&name(&pods[0])).await;
        s.synced(&owner).await;
        let now = s.counts(&owner, "replicas", 3).await;
        assert!(now["status"]["terminatingReplicas"].is_null(), "{now:#}");
        return;
    }
    assert_eq!(now["status"]["terminatingReplicas"], 0, "{now:#}");
    s.delete_pod(&name(&pods[0])).await;
    s.delete_pod(&name(&pods[1])).await;
    s.status(&owner, "two are replaced", |status| {
        counter_of(status, "terminatingReplicas") == 2 && counter_of(status, "replicas") == 3
    })
    .await;
    // A finished pod does not count as terminating.
    s.change_pod_status(&name(&pods[0]), json!({"phase": "Failed"}))
        .await;
    s.counts(&owner, "terminatingReplicas", 1).await;
    // Neither does a pod that is not selected.
    s.change_pod(&name(&pods[1]), json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    s.counts(&owner, "terminatingReplicas", 0).await;
}

async fn observed_generation_is_updated(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    assert_eq!(s.get(&owner).await["status"]["observedGeneration"], 1);
    let template = json!({"metadata": {"annotations": {"example.com/note": "b"}}});
    let changed = s.change(&owner, json!({"spec": {"template": template}})).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    s.status(&owner, "the controller observes it", |_| true).await;
}

async fn conditions_of_other_clients_are_kept(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let foreign = json!({
        "type": "example.com/Liked", "status": "True", "reason": "Nice", "message": "It is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    s.change_status(&owner, json!({"conditions": [foreign]})).await;
    s.scale(&owner, 2).await;
    let now = s.counts(&owner, "replicas", 2).await;
    assert_eq!(now["status"]["conditions"], json!([foreign]));
}

async fn overwritten_status_is_corrected(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let before = names(&s.pods_of(&owner).await);
    let lie = json!({"replicas": 7, "readyReplicas": 7, "availableReplicas": 7, "observedGeneration": 1});
    s.change_status(&owner, lie).await;
    let now = s.counts(&owner, "replicas", 2).await;
    assert_eq!(counter_of(&now["status"], "readyReplicas"), 0, "{now:#}");
    assert_eq!(counter_of(&now["status"], "availableReplicas"), 0, "{now:#}");
    assert_eq!(names(&s.all_pods().await), before);
}

async fn unchanged_status_is_not_written(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    s.synced(&owner).await;
    let version = |object: &Value| text(&object["metadata"]["resourceVersion"]);
    // Labels of the owner and of a pod enqueue the owner.
    let labelled = s
        .change(&owner, json!({"metadata": {"labels": {"more": "labels"}}}))
        .await;
    let pod = name(&s.pods_of(&owner).await[0]);
    s.change_pod(
        &pod,
        json!({"metadata": {"annotations": {"example.com/note": "a"}}}),
    )
    .await;
    time::pause(Duration::from_secs(2)).await;
    assert_eq!(version(&s.get(&owner).await), version(&labelled));
}
