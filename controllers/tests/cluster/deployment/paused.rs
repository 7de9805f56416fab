//! A Deployment that is paused is scaled, and nothing else.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, DESIRED, NEVER, annotated, annotation, condition, counter_of, deployment, image, name, reason,
    recreate, revision, said, steps,
};
use super::stage::Stage;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(makes_nothing_if_it_is_paused_from_the_start),
        staged!(does_not_roll_until_it_is_resumed),
        staged!(stays_half_way),
        staged!(says_that_it_is_resumed),
        staged!(is_scaled),
        staged!(passes_on_what_is_no_rollout),
        staged!(cleans_up),
        staged!(says_nothing_without_a_deadline),
        staged!(does_not_hide_that_it_has_timed_out),
        staged!(does_not_time_out),
        staged!(recreates_nothing),
        staged!(several_that_are_active_are_not_scaled_if_all_are_to_be_recreated),
    ]
}

fn paused(paused: bool) -> Value {
    json!({"spec": {"paused": paused}})
}

const PAUSED: [&str; 3] = ["Unknown", "DeploymentPaused", "Deployment is paused"];

async fn makes_nothing_if_it_is_paused_from_the_start(s: Stage) {
    let d = s.create(with(deployment("a", 2), paused(true))).await;
    let now = s.looked_at(&d).await;
    assert_eq!(said(&now, "Progressing"), PAUSED);
    assert_eq!(said(&now, "Available")[0], "False");
    assert_eq!(revision(&now), "");
    assert!(s.all_sets().await.is_empty());
    s.change(&d, paused(false)).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "1");
}

async fn does_not_roll_until_it_is_resumed(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, with(image("i:2"), paused(true))).await;
    let now = s.sized(&d, &[("i:1", 2)]).await;
    assert_eq!(said(&now, "Progressing"), PAUSED);
    assert_eq!(counter_of(&now["status"], "updatedReplicas"), 0, "{now:#}");
    assert_eq!(counter_of(&now["status"], "availableReplicas"), 2, "{now:#}");
    s.change(&d, image("i:3")).await;
    s.sized(&d, &[("i:1", 2)]).await;

    s.change(&d, paused(false)).await;
    let now = s.complete(&d).await;
    // What came and went in the pause was never there.
    assert_eq!(revision(&now), "2");
    s.sized(&d, &[("i:1", 0), ("i:3", 2)]).await;
}

async fn stays_half_way(s: Stage) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.change(&d, paused(true)).await;
    let now = s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    assert_eq!(said(&now, "Progressing"), PAUSED);
    s.change(&d, image("i:2")).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.change(&d, paused(false)).await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 0), (BAD, 0), ("i:2", 3)]).await;
}

/// Until something moves, that is all there is to say.
async fn says_that_it_is_resumed(s: Stage) {
    let d = s
        .create(with(with(deployment("a", 1), image(BAD)), paused(false)))
        .await;
    s.sized(&d, &[(BAD, 1)]).await;
    s.status(&d, "the pod is counted", |status| {
        counter_of(status, "updatedReplicas") == 1
    })
    .await;
    s.change(&d, paused(true)).await;
    s.says(&d, "Progressing", "DeploymentPaused").await;
    s.change(&d, paused(false)).await;
    s.says(&d, "Progressing", "DeploymentResumed").await;
    let now = s.looked_at(&d).await;
    let resumed = ["Unknown", "DeploymentResumed", "Deployment is resumed"];
    assert_eq!(said(&now, "Progressing"), resumed);
    s.rolled(&d, "i:2").await;
}

async fn is_scaled(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, with(image("i:2"), paused(true))).await;
    for replicas in [5, 1, 0, 3] {
        s.scale(&d, replicas).await;
        let now = s.sized(&d, &[("i:1", replicas.into())]).await;
        assert_eq!(said(&now, "Progressing"), PAUSED);
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

async fn passes_on_what_is_no_rollout(s: Stage) {
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

async fn cleans_up(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    for image in ["i:2", "i:3"] {
        s.rolled(&d, image).await;
    }
    let change = json!({"spec": {"paused": true, "revisionHistoryLimit": 1}});
    s.change(&d, change).await;
    s.until("the first is gone", async || {
        (s.sets(&d).await.len() == 2).then_some(())
    })
    .await;
    s.sized(&d, &[("i:2", 0), ("i:3", 1)]).await;
}

async fn says_nothing_without_a_deadline(s: Stage) {
    let none = json!({"spec": {"progressDeadlineSeconds": NEVER}});
    let d = s.completed(with(deployment("a", 1), none)).await;
    s.change(&d, paused(true)).await;
    let now = s.status(&d, "it is looked at", |_| true).await;
    assert!(condition(&now["status"], "Progressing").is_none(), "{now:#}");
}

async fn does_not_hide_that_it_has_timed_out(s: Stage) {
    let soon = json!({"spec": {"progressDeadlineSeconds": 1}});
    let d = s.create(with(with(deployment("a", 1), image(BAD)), soon)).await;
    s.says(&d, "Progressing", "ProgressDeadlineExceeded").await;
    s.change(&d, paused(true)).await;
    let now = s.status(&d, "it is looked at", |_| true).await;
    assert_eq!(reason(&now, "Progressing"), "ProgressDeadlineExceeded");
}

async fn does_not_time_out(s: Stage) {
    let soon = json!({"spec": {"progressDeadlineSeconds": 1}});
    let bad = |name: &str| with(deployment(name, 1), image(BAD));
    let d = s.create(bad("a")).await;
    s.has_pods(BAD, 1).await;
    // It is late from now on only, however long this has taken.
    s.change(&d, with(paused(true), soon.clone())).await;
    s.says(&d, "Progressing", "DeploymentPaused").await;
    let other = s.create(with(bad("b"), soon)).await;
    s.says(&other, "Progressing", "ProgressDeadlineExceeded").await;
    assert_eq!(said(&s.get(&d).await, "Progressing"), PAUSED);
    s.change(&d, paused(false)).await;
    s.says(&d, "Progressing", "ProgressDeadlineExceeded").await;
}

async fn recreates_nothing(s: Stage) {
    let d = s.completed(with(deployment("a", 2), recreate())).await;
    let change = with(image("i:2"), json!({"spec": {"paused": true, "replicas": 3}}));
    s.change(&d, change).await;
    s.sized(&d, &[("i:1", 3)]).await;
    s.change(&d, paused(false)).await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 0), ("i:2", 3)]).await;
}

async fn several_that_are_active_are_not_scaled_if_all_are_to_be_recreated(s: Stage) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.change(&d, with(recreate(), paused(true))).await;
    s.scale(&d, 6).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
}
