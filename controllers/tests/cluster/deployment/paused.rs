//! Paused Deployments are scaled but not rolled out.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{
    BAD, DESIRED, NEVER, annotated, annotation, condition, condition_fields, counter_of, deployment, image,
    name, reason, recreate, revision, steps,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(deployment_created_paused_creates_nothing),
        fixture_test!(paused_deployment_rolls_after_resume),
        fixture_test!(pause_stops_a_rollout),
        fixture_test!(resume_is_reported),
        fixture_test!(paused_deployment_is_scaled),
        fixture_test!(paused_deployment_copies_annotations),
        fixture_test!(paused_deployment_cleans_up),
        fixture_test!(pause_without_deadline_is_not_reported),
        fixture_test!(pause_keeps_an_exceeded_deadline),
        fixture_test!(paused_deployment_does_not_exceed_the_deadline),
        fixture_test!(paused_recreate_deletes_nothing),
        fixture_test!(paused_recreate_with_several_active_sets_is_not_scaled),
    ]
}

fn paused(paused: bool) -> Value {
    json!({"spec": {"paused": paused}})
}

const PAUSED: [&str; 3] = ["Unknown", "DeploymentPaused", "Deployment is paused"];

async fn deployment_created_paused_creates_nothing(s: Fixture) {
    let d = s.create(with(deployment("a", 2), paused(true))).await;
    let now = s.synced(&d).await;
    assert_eq!(condition_fields(&now, "Progressing"), PAUSED);
    assert_eq!(condition_fields(&now, "Available")[0], "False");
    assert_eq!(revision(&now), "");
    assert!(s.all_sets().await.is_empty());
    s.change(&d, paused(false)).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "1");
}

async fn paused_deployment_rolls_after_resume(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, with(image("i:2"), paused(true))).await;
    let now = s.has_sizes(&d, &[("i:1", 2)]).await;
    assert_eq!(condition_fields(&now, "Progressing"), PAUSED);
    assert_eq!(counter_of(&now["status"], "updatedReplicas"), 0, "{now:#}");
    assert_eq!(counter_of(&now["status"], "availableReplicas"), 2, "{now:#}");
    s.change(&d, image("i:3")).await;
    s.has_sizes(&d, &[("i:1", 2)]).await;

    s.change(&d, paused(false)).await;
    let now = s.complete(&d).await;
    // Templates that were replaced during the pause are never rolled out.
    assert_eq!(revision(&now), "2");
    s.has_sizes(&d, &[("i:1", 0), ("i:3", 2)]).await;
}

async fn pause_stops_a_rollout(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.change(&d, paused(true)).await;
    let now = s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    assert_eq!(condition_fields(&now, "Progressing"), PAUSED);
    s.change(&d, image("i:2")).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.change(&d, paused(false)).await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 0), ("i:2", 3)]).await;
}

async fn resume_is_reported(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 1), image(BAD)), paused(false)))
        .await;
    s.has_sizes(&d, &[(BAD, 1)]).await;
    s.status(&d, "the pod is counted", |status| {
        counter_of(status, "updatedReplicas") == 1
    })
    .await;
    s.change(&d, paused(true)).await;
    s.has_reason(&d, "Progressing", "DeploymentPaused").await;
    s.change(&d, paused(false)).await;
    s.has_reason(&d, "Progressing", "DeploymentResumed").await;
    let now = s.synced(&d).await;
    let resumed = ["Unknown", "DeploymentResumed", "Deployment is resumed"];
    assert_eq!(condition_fields(&now, "Progressing"), resumed);
    s.rolled_out(&d, "i:2").await;
}

async fn paused_deployment_is_scaled(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, with(image("i:2"), paused(true))).await;
    for replicas in [5, 1, 0, 3] {
        s.scale(&d, replicas).await;
        let now = s.has_sizes(&d, &[("i:1", replicas.into())]).await;
        assert_eq!(condition_fields(&now, "Progressing"), PAUSED);
    }
    s.status(&d, "all are there", |status| {
        counter_of(status, "availableReplicas") == 3
    })
    .await;
    assert_eq!(annotation(&s.set_of(&d, "i:1").await, DESIRED), "3");
    let message = format!(
        "Scaled up replica set {} from 2 to 5",
        name(&s.set_of(&d, "i:1").await)
    );
    s.event(&d, "Normal", "ScalingReplicaSet", &message).await;
}

async fn paused_deployment_copies_annotations(s: Fixture) {
    let d = s.completed(with(deployment("a", 1), paused(false))).await;
    let change = json!({"spec": {"paused": true, "minReadySeconds": 2}});
    s.change(&d, with(change, annotated(json!({"example.com/note": "a"}))))
        .await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.set_is(&set, "has them", |set| {
        set["spec"]["minReadySeconds"] == 2 && annotation(set, "example.com/note") == "a"
    })
    .await;
}

async fn paused_deployment_cleans_up(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    for image in ["i:2", "i:3"] {
        s.rolled_out(&d, image).await;
    }
    let change = json!({"spec": {"paused": true, "revisionHistoryLimit": 1}});
    s.change(&d, change).await;
    s.until("the first is gone", async || {
        (s.sets(&d).await.len() == 2).then_some(())
    })
    .await;
    s.has_sizes(&d, &[("i:2", 0), ("i:3", 1)]).await;
}

async fn pause_without_deadline_is_not_reported(s: Fixture) {
    let none = json!({"spec": {"progressDeadlineSeconds": NEVER}});
    let d = s.completed(with(deployment("a", 1), none)).await;
    s.change(&d, paused(true)).await;
    let now = s.status(&d, "observed", |_| true).await;
    assert!(condition(&now["status"], "Progressing").is_none(), "{now:#}");
}

async fn pause_keeps_an_exceeded_deadline(s: Fixture) {
    let soon = json!({"spec": {"progressDeadlineSeconds": 1}});
    let d = s.create(with(with(deployment("a", 1), image(BAD)), soon)).await;
    s.exceeds_deadline(&d, 1).await;
    s.change(&d, paused(true)).await;
    let now = s.status(&d, "observed", |_| true).await;
    assert_eq!(reason(&now, "Progressing"), "ProgressDeadlineExceeded");
}

async fn paused_deployment_does_not_exceed_the_deadline(s: Fixture) {
    let soon = json!({"spec": {"progressDeadlineSeconds": 1}});
    let bad = |name: &str| with(deployment(name, 1), image(BAD));
    let d = s.create(bad("a")).await;
    s.has_pods(BAD, 1).await;
    // The deadline starts now.
    s.change(&d, with(paused(true), soon.clone())).await;
    s.has_reason(&d, "Progressing", "DeploymentPaused").await;
    let other = s.create(with(bad("b"), soon)).await;
    s.has_reason(&other, "Progressing", "ProgressDeadlineExceeded")
        .await;
    assert_eq!(condition_fields(&s.get(&d).await, "Progressing"), PAUSED);
    s.change(&d, paused(false)).await;
    s.has_reason(&d, "Progressing", "ProgressDeadlineExceeded").await;
}

async fn paused_recreate_deletes_nothing(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), recreate())).await;
    let change = with(image("i:2"), json!({"spec": {"paused": true, "replicas": 3}}));
    s.change(&d, change).await;
    s.has_sizes(&d, &[("i:1", 3)]).await;
    s.change(&d, paused(false)).await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 3)]).await;
}

async fn paused_recreate_with_several_active_sets_is_not_scaled(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.change(&d, with(recreate(), paused(true))).await;
    s.scale(&d, 6).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
}
