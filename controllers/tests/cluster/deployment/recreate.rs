//! The Recreate strategy.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    BAD, DESIRED, MAX, annotation, condition_fields, counter_of, deployment, elsewhere, image, image_of,
    name, names, recreate, revision, steps,
};
use super::recorder::WatchRecorder;

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(new_pods_wait_for_the_end_of_old_pods),
        fixture_test!(recreate_waits_for_terminating_pods),
        fixture_test!(recreate_does_not_wait_for_finished_pods),
        fixture_test!(recreate_reuses_the_set_of_a_template),
        fixture_test!(recreate_is_available_with_all_pods_only),
        fixture_test!(strategy_change_does_not_start_a_rollout),
        fixture_test!(recreate_is_scaled),
        fixture_test!(recreate_during_a_rollout_ends_old_pods_first),
    ]
}

async fn new_pods_wait_for_the_end_of_old_pods(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), recreate())).await;
    let (pods, sets) = (
        WatchRecorder::of(&s, "pods").await,
        WatchRecorder::of(&s, "replicasets").await,
    );
    let now = s.rolled_out(&d, "i:2").await;
    assert_eq!(revision(&now), "2");
    pods.stop(&s).await.replay(|now| {
        let of = |image: &str| now.values().filter(|pod| image_of(pod) == image).count();
        assert!(
            of("i:1") == 0 || of("i:2") == 0,
            "{} and {}",
            of("i:1"),
            of("i:2")
        );
    });
    let second = |it: &Value| (revision(it) == "2").then(|| counter_of(&it["spec"], "replicas"));
    let sizes: Vec<u64> = sets
        .stop(&s)
        .await
        .distinct(second)
        .into_iter()
        .flatten()
        .collect();
    assert!(sizes.iter().all(|it| *it == 3), "{sizes:?}");
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 3)]).await;
    let (first, second) = (s.set_of(&d, "i:1").await, s.set_of(&d, "i:2").await);
    let down = format!("Scaled down replica set {} from 3 to 0", name(&first));
    let up = format!("Scaled up replica set {} from 0 to 3", name(&second));
    for message in [down, up] {
        s.event(&d, "Normal", "ScalingReplicaSet", &message).await;
    }
}

/// Creates a Deployment with Ready pods, for which the test acts as the kubelet.
async fn create_ready(s: &Fixture, replicas: u32) -> Deployment {
    let d = s
        .create(with(with(deployment("a", replicas), elsewhere()), recreate()))
        .await;
    s.make_ready("i:1", usize::try_from(replicas).expect("few")).await;
    s.complete(&d).await;
    d
}

async fn recreate_waits_for_terminating_pods(s: Fixture) {
    let d = create_ready(&s, 2).await;
    s.change(&d, image("i:2")).await;
    // Only the old ReplicaSet, scaled to 0.
    s.has_sizes(&d, &[("i:1", 0)]).await;
    s.has_pods("i:1", 0).await;
    s.has_reason(&d, "Available", "MinimumReplicasUnavailable").await;
    let pods = s.all_pods().await;
    assert_eq!(pods.len(), 2);
    s.end(&pods[0]).await;
    s.has_sizes(&d, &[("i:1", 0)]).await;
    // The end of the last pod enqueues the Deployment.
    s.end(&pods[1]).await;
    s.has_pods("i:2", 2).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 2)]).await;
    s.make_ready("i:2", 2).await;
    s.complete(&d).await;
}

async fn recreate_does_not_wait_for_finished_pods(s: Fixture) {
    let d = create_ready(&s, 2).await;
    let pods = s.pods("i:1").await;
    for (pod, phase) in pods.iter().zip(["Failed", "Succeeded"]) {
        s.change_pod(pod, json!({"phase": phase})).await;
    }
    let four = s.has_pods("i:1", 4).await;
    s.change(&d, image("i:2")).await;
    s.has_sizes(&d, &[("i:1", 0)]).await;
    s.has_pods("i:1", 2).await;
    for pod in four.iter().filter(|pod| !names(&pods).contains(&name(pod))) {
        s.end(pod).await;
    }
    s.has_pods("i:2", 2).await;
    assert_eq!(names(&s.pods("i:1").await), names(&pods));
}

async fn recreate_reuses_the_set_of_a_template(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), recreate())).await;
    s.rolled_out(&d, "i:2").await;
    let now = s.rolled_out(&d, "i:1").await;
    assert_eq!(revision(&now), "3");
    s.has_sizes(&d, &[("i:1", 2), ("i:2", 0)]).await;
    assert_eq!(s.sets(&d).await.len(), 2);
}

async fn recreate_is_available_with_all_pods_only(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 3), elsewhere()), recreate()))
        .await;
    s.make_ready("i:1", 2).await;
    let now = s
        .status(&d, "two are available", |status| {
            counter_of(status, "availableReplicas") == 2
        })
        .await;
    let missing = "Deployment does not have minimum availability.";
    assert_eq!(
        condition_fields(&now, "Available"),
        ["False", "MinimumReplicasUnavailable", missing]
    );
    s.make_ready("i:1", 1).await;
    s.has_reason(&d, "Available", "MinimumReplicasAvailable").await;
}

async fn strategy_change_does_not_start_a_rollout(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let pods = names(&s.all_pods().await);
    s.change(&d, recreate()).await;
    s.synced(&d).await;
    s.change(&d, steps(1, 0)).await;
    s.synced(&d).await;
    assert_eq!(names(&s.all_pods().await), pods);
    assert_eq!(s.sets(&d).await.len(), 1);
}

async fn recreate_is_scaled(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), recreate())).await;
    for replicas in [4, 1, 0, 2] {
        s.scale(&d, replicas).await;
        s.complete(&d).await;
        s.has_sizes(&d, &[("i:1", replicas.into())]).await;
    }
    // No surge.
    let set = s.set_of(&d, "i:1").await;
    let kept = [DESIRED, MAX].map(|key| annotation(&set, key));
    assert_eq!(kept, ["2", "2"]);
}

async fn recreate_during_a_rollout_ends_old_pods_first(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    let pods = WatchRecorder::of(&s, "pods").await;
    s.change(&d, with(recreate(), image("i:3"))).await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 0), ("i:3", 3)]).await;
    pods.stop(&s).await.replay(|now| {
        let new = now.values().filter(|pod| image_of(pod) == "i:3").count();
        assert!(new == 0 || new == now.len(), "{new} of {}", now.len());
    });
}
