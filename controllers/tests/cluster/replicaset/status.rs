//! What an owner says of its pods.

use std::time::Duration;

use coxswain_tests::fixtures::with;
use coxswain_tests::{Test, time};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::stage::{Kind, Stage, condition, counter_of, name, names, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(counts_the_ready),
        each!(counts_those_with_all_labels_of_the_template),
        each!(a_pod_is_available_when_it_has_been_ready_for_a_while),
        each!(a_pod_that_was_ready_long_enough_is_available_at_once),
        each!(counts_the_terminating).map(|test| test.since(1, 35)),
        each!(tells_which_generation_it_is_of),
        each!(leaves_conditions_of_others_alone),
        each!(corrects_what_somebody_else_has_written),
        each!(does_not_write_what_it_said_before),
    ]
    .concat()
}

async fn counts_the_ready(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 3)).await;
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

async fn counts_those_with_all_labels_of_the_template(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
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

/// Time alone makes a pod available, and never too early. The time is printed here, and held to the second on a paused clock
/// in `suite/replicaset/replicas.rs`.
async fn a_pod_is_available_when_it_has_been_ready_for_a_while(s: Stage) {
    const WHILE: SignedDuration = SignedDuration::from_secs(10);
    let mut times = Vec::new();
    for round in 0..3 {
        let body = with(
            s.owner_elsewhere(&format!("a{round}"), 1),
            json!({"spec": {"minReadySeconds": WHILE.as_secs()}}),
        );
        let owner = s.settled(body).await;
        let pod = name(&s.pods_of(&owner).await[0]);
        s.make_ready(&pod, WHILE.as_secs() - 3).await;
        s.counts(&owner, "readyReplicas", 1).await;
        let pod = s.get_pod(&pod).await;
        let ready = condition(&pod["status"], "Ready").expect("it is");
        let since: Timestamp = text(&ready["lastTransitionTime"]).parse().expect("a time");
        s.counts(&owner, "availableReplicas", 1).await;
        let passed = s.now().duration_since(since);
        assert!(passed >= WHILE, "after {passed:#} already");
        times.push(passed.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!(
        "available after {times:.1?} s, with minReadySeconds {}",
        WHILE.as_secs()
    );
}

async fn a_pod_that_was_ready_long_enough_is_available_at_once(s: Stage) {
    let body = with(
        s.owner_elsewhere("a", 1),
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

async fn counts_the_terminating(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 3)).await;
    let now = s.get(&owner).await;
    let pods = s.pods_of(&owner).await;
    if s.kind == Kind::ReplicationController {
        s.delete_pod(&name(&pods[0])).await;
        s.looked_at(&owner).await;
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
    // One that has finished is on its way no more.
    s.change_pod_status(&name(&pods[0]), json!({"phase": "Failed"}))
        .await;
    s.counts(&owner, "terminatingReplicas", 1).await;
    // One that is not meant any more is not counted either.
    s.change_pod(&name(&pods[1]), json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    s.counts(&owner, "terminatingReplicas", 0).await;
}

async fn tells_which_generation_it_is_of(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 1)).await;
    assert_eq!(s.get(&owner).await["status"]["observedGeneration"], 1);
    let template = json!({"metadata": {"annotations": {"example.com/note": "b"}}});
    let changed = s.change(&owner, json!({"spec": {"template": template}})).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    s.status(&owner, "it is looked at", |_| true).await;
}

async fn leaves_conditions_of_others_alone(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 1)).await;
    let foreign = json!({
        "type": "example.com/Liked", "status": "True", "reason": "Nice", "message": "It is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    s.change_status(&owner, json!({"conditions": [foreign]})).await;
    s.scale(&owner, 2).await;
    let now = s.counts(&owner, "replicas", 2).await;
    assert_eq!(now["status"]["conditions"], json!([foreign]));
}

async fn corrects_what_somebody_else_has_written(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
    let before = names(&s.pods_of(&owner).await);
    let lie = json!({"replicas": 7, "readyReplicas": 7, "availableReplicas": 7, "observedGeneration": 1});
    s.change_status(&owner, lie).await;
    let now = s.counts(&owner, "replicas", 2).await;
    assert_eq!(counter_of(&now["status"], "readyReplicas"), 0, "{now:#}");
    assert_eq!(counter_of(&now["status"], "availableReplicas"), 0, "{now:#}");
    assert_eq!(names(&s.all_pods().await), before);
}

async fn does_not_write_what_it_said_before(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
    s.looked_at(&owner).await;
    let version = |object: &Value| text(&object["metadata"]["resourceVersion"]);
    // A label of the owner makes it look again; and so does one of a pod.
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
