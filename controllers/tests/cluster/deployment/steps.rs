//! Single steps of a rollout; the test acts as the kubelet.

use serde_json::Value;
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{condition_fields, counter_of, deployment, elsewhere, image, steps};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(surge_and_unavailable_steps),
        fixture_test!(surge_steps),
        fixture_test!(unavailable_steps),
        fixture_test!(unavailable_pods_are_removed_first),
        fixture_test!(oldest_sets_shrink_first),
        fixture_test!(terminating_pods_do_not_count),
    ]
}

/// Creates a Deployment with Ready pods.
async fn begun(s: &Fixture, replicas: u32, change: Value) -> Deployment {
    let body = with(with(deployment("a", replicas), elsewhere()), change);
    let d = s.create(body).await;
    s.make_ready("i:1", usize::try_from(replicas).expect("few")).await;
    s.complete(&d).await;
    d
}

/// Changes the image in a later second: `ReplicaSet`s of the same second are ordered by name.
async fn roll(s: &Fixture, d: &Deployment, to: &str) {
    for set in s.sets(d).await {
        s.later_than(&set).await;
    }
    s.change(d, image(to)).await;
}

async fn surge_and_unavailable_steps(s: Fixture) {
    let d = begun(&s, 4, steps(1, 1)).await;
    roll(&s, &d, "i:2").await;
    let now = s.has_sizes(&d, &[("i:1", 3), ("i:2", 2)]).await;
    assert_eq!(condition_fields(&now, "Available")[0], "True", "{now:#}");
    for sizes in [[2, 3], [1, 4], [0, 4]] {
        s.make_ready("i:2", 1).await;
        s.has_sizes(&d, &[("i:1", sizes[0]), ("i:2", sizes[1])]).await;
    }
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

async fn surge_steps(s: Fixture) {
    let d = begun(&s, 2, steps(1, 0)).await;
    roll(&s, &d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 2), ("i:2", 1)]).await;
    s.make_ready("i:2", 1).await;
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 2)]).await;
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

async fn unavailable_steps(s: Fixture) {
    let d = begun(&s, 2, steps(0, 1)).await;
    roll(&s, &d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 1)]).await;
    s.make_ready("i:2", 1).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 2)]).await;
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

/// Even those of a newer template.
async fn unavailable_pods_are_removed_first(s: Fixture) {
    let d = begun(&s, 4, steps(2, 0)).await;
    roll(&s, &d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 4), ("i:2", 2)]).await;
    s.make_ready("i:2", 1).await;
    s.has_sizes(&d, &[("i:1", 3), ("i:2", 3)]).await;
    roll(&s, &d, "i:3").await;
    s.has_sizes(&d, &[("i:1", 3), ("i:2", 1), ("i:3", 2)]).await;
    s.make_ready("i:3", 2).await;
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 1), ("i:3", 4)]).await;
}

async fn oldest_sets_shrink_first(s: Fixture) {
    let d = begun(&s, 4, steps(2, 0)).await;
    roll(&s, &d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 4), ("i:2", 2)]).await;
    s.make_ready("i:2", 2).await;
    s.has_sizes(&d, &[("i:1", 2), ("i:2", 4)]).await;
    s.make_ready("i:2", 1).await;
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 4)]).await;
    roll(&s, &d, "i:3").await;
    // The unavailable pod.
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 3), ("i:3", 2)]).await;
    s.make_ready("i:3", 2).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 2), ("i:3", 4)]).await;
}

async fn terminating_pods_do_not_count(s: Fixture) {
    let d = begun(&s, 2, steps(0, 1)).await;
    roll(&s, &d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 1)]).await;
    // The first pod is still terminating, and a new one exists.
    s.has_pods("i:2", 1).await;
    let all = s.all_pods().await;
    assert_eq!(all.len(), 3, "{all:#?}");
    s.status(&d, "they are not counted", |status| {
        counter_of(status, "updatedReplicas") == 1 && counter_of(status, "replicas") == 2
    })
    .await;
}
