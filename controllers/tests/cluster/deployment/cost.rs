//! The number of writes, counted by a watch.

use serde_json::{Value, json};
use steersman_harness::fixtures::with;
use steersman_harness::{Need, Test};

use super::fixture::Fixture;
use super::objects::{BAD, counter_of, deployment, elsewhere, image, name, steps};
use super::recorder::{Recording, WatchRecorder};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(complete_deployment_is_not_written),
        fixture_test!(stalled_deployment_is_not_written),
        fixture_test!(rollout_of_ten_pods_has_few_writes),
        fixture_test!(rollout_of_ten_pods_at_once_has_few_writes).needs(Need::Ours),
    ]
}

/// Returns the writes of the Deployment `a` and of its `ReplicaSet`s.
async fn written(s: &Fixture, recorders: [WatchRecorder; 2]) -> [Vec<String>; 2] {
    let [deployments, sets] = recorders;
    let names = |it: Recording| -> Vec<String> {
        let all = it
            .events
            .iter()
            .map(|(kind, object)| format!("{kind} {}", name(object)));
        all.filter(|it| it.contains(" a")).collect()
    };
    [names(deployments.stop(s).await), names(sets.stop(s).await)]
}

async fn recorders(s: &Fixture) -> [WatchRecorder; 2] {
    [
        WatchRecorder::of(s, "deployments").await,
        WatchRecorder::of(s, "replicasets").await,
    ]
}

async fn complete_deployment_is_not_written(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    s.rolled_out(&d, "i:2").await;
    // The status changes until the last old pod has ended.
    s.until("all have ended", async || {
        let mut reported = s.sets(&d).await;
        reported.push(s.get(&d).await);
        let none = |it: &Value| counter_of(&it["status"], "terminatingReplicas") == 0;
        (s.all_pods().await.len() == 2 && reported.iter().all(none)).then_some(())
    })
    .await;
    s.synced(&d).await;
    let recorders = recorders(&s).await;
    let label = json!({"metadata": {"labels": {"example.com/more": "labels"}}});
    s.change(&d, label.clone()).await;
    for set in s.sets(&d).await {
        s.change_set(&name(&set), label.clone()).await;
    }
    // A later Deployment is complete, so this one was synced.
    let other = s.completed(deployment("b", 1)).await;
    s.synced(&other).await;
    let [deployments, sets] = written(&s, recorders).await;
    // All writes are those of the test.
    assert_eq!(
        (deployments.len(), sets.len()),
        (1, 2),
        "{deployments:?} {sets:?}"
    );
}

async fn stalled_deployment_is_not_written(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 2), (BAD, 1)]).await;
    s.status(&d, "all are counted", |status| {
        counter_of(status, "updatedReplicas") == 1 && counter_of(status, "replicas") == 3
    })
    .await;
    s.synced(&d).await;
    let recorders = recorders(&s).await;
    let label = json!({"metadata": {"labels": {"example.com/more": "labels"}}});
    s.change(&d, label).await;
    let other = s.completed(deployment("b", 1)).await;
    s.synced(&other).await;
    let [deployments, sets] = written(&s, recorders).await;
    assert_eq!(
        (deployments.len(), sets.len()),
        (1, 0),
        "{deployments:?} {sets:?}"
    );
}

/// The number of steps depends on how the pods become Ready: most of them alone, or all at once. The writes are printed
/// here, and counted on a paused clock in `suite/deployment/rollouts.rs`.
async fn rollout_of_ten_pods_has_few_writes(s: Fixture) {
    let d = s.completed(deployment("a", 10)).await;
    let recorders = recorders(&s).await;
    s.rolled_out(&d, "i:2").await;
    let [deployments, sets] = written(&s, recorders).await;
    // One write is that of the test.
    let (ours, theirs) = (deployments.len() - 1, sets.len());
    println!("a rollout of 10 pods: the Deployment was written {ours} times, its ReplicaSets {theirs} times");
    assert_eq!(s.pods("i:2").await.len(), 10);
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 10)]).await;
}

/// All pods are created at once, and the test makes them Ready. The writes are printed here, and counted on a paused
/// clock in `suite/deployment/rollouts.rs`.
async fn rollout_of_ten_pods_at_once_has_few_writes(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 10), elsewhere()), steps("100%", 0)))
        .await;
    s.make_ready("i:1", 10).await;
    s.complete(&d).await;
    let (mut of_deployment, mut of_sets) = (Vec::new(), Vec::new());
    for number in 2..=4 {
        let recorders = recorders(&s).await;
        let image_now = format!("i:{number}");
        s.change(&d, image(&image_now)).await;
        s.make_ready(&image_now, 10).await;
        s.complete(&d).await;
        let [deployments, sets] = written(&s, recorders).await;
        assert_eq!(s.pods(&image_now).await.len(), 10);
        // One write is that of the test.
        of_deployment.push(deployments.len() - 1);
        of_sets.push(sets.len());
    }
    println!(
        "all at once: the Deployment was written {of_deployment:?} times, its ReplicaSets {of_sets:?} times"
    );
}
