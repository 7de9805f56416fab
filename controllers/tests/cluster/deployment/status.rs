//! The status of a Deployment.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{
    annotated, condition, condition_fields, counter_of, deployment, elsewhere, image, names, steps,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(counters_are_sums_over_sets),
        fixture_test!(terminating_pods_are_counted).since(1, 35),
        fixture_test!(observed_generation_is_reported),
        fixture_test!(zero_replicas_are_available),
        fixture_test!(conditions_of_other_clients_are_kept),
        fixture_test!(overwritten_status_is_corrected),
        fixture_test!(max_unavailable_above_replicas_allows_none_available),
    ]
}

/// Replicas, updated, ready, available, unavailable.
fn counters(now: &Value) -> [u64; 5] {
    [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ]
    .map(|it| counter_of(&now["status"], it))
}

async fn counters_are_sums_over_sets(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 3), elsewhere()), steps(2, 0)))
        .await;
    s.status(&d, "all are there", |status| counter_of(status, "replicas") == 3)
        .await;
    assert_eq!(counters(&s.synced(&d).await), [3, 3, 0, 0, 3]);
    s.make_ready("i:1", 3).await;
    assert_eq!(counters(&s.complete(&d).await), [3, 3, 3, 3, 0]);
    s.change(&d, image("i:2")).await;
    s.has_sizes(&d, &[("i:1", 3), ("i:2", 2)]).await;
    s.status(&d, "the new ones are there", |status| {
        counter_of(status, "updatedReplicas") == 2
    })
    .await;
    assert_eq!(counters(&s.synced(&d).await), [5, 2, 3, 3, 2]);
    let pod = s.pods("i:1").await.remove(0);
    s.change_pod(&pod, json!({"conditions": [s.ready("False")]}))
        .await;
    s.status(&d, "one is missing", |status| {
        counter_of(status, "readyReplicas") == 2
    })
    .await;
    assert_eq!(counters(&s.synced(&d).await), [5, 2, 2, 2, 3]);
}

async fn terminating_pods_are_counted(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 2), elsewhere()), steps(0, 1)))
        .await;
    s.make_ready("i:1", 2).await;
    let now = s.complete(&d).await;
    assert_eq!(now["status"]["terminatingReplicas"], 0, "{now:#}");
    s.change(&d, image("i:2")).await;
    s.status(&d, "one terminates", |status| status["terminatingReplicas"] == 1)
        .await;
    s.make_ready("i:2", 1).await;
    let now = s
        .status(&d, "two terminate", |status| status["terminatingReplicas"] == 2)
        .await;
    assert!(counter_of(&now["status"], "replicas") <= 2, "{now:#}");
    for pod in s.all_pods().await {
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            s.end(&pod).await;
        }
    }
    s.status(&d, "none terminates", |status| status["terminatingReplicas"] == 0)
        .await;
}

async fn observed_generation_is_reported(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    assert_eq!(s.get(&d).await["status"]["observedGeneration"], 1);
    for change in [
        image("i:2"),
        annotated(json!({"example.com/note": "a"})),
        json!({"spec": {"revisionHistoryLimit": 3}}),
    ] {
        let changed = s.change(&d, change).await;
        s.status(&d, "observed", |status| {
            status["observedGeneration"] == changed["metadata"]["generation"]
        })
        .await;
    }
    let now = s.complete(&d).await;
    assert_eq!(
        now["metadata"]["generation"], 4,
        "it writes nothing that makes another"
    );
}

async fn zero_replicas_are_available(s: Fixture) {
    let d = s.completed(deployment("a", 0)).await;
    let now = s.synced(&d).await;
    assert_eq!(counters(&now), [0; 5]);
    assert_eq!(
        condition_fields(&now, "Available")[..2],
        ["True", "MinimumReplicasAvailable"]
    );
    assert_eq!(
        condition_fields(&now, "Progressing")[..2],
        ["True", "NewReplicaSetAvailable"]
    );
}

async fn conditions_of_other_clients_are_kept(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let foreign = json!({
        "type": "example.com/Liked", "status": "True", "reason": "Nice", "message": "It is",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut conditions = s.get(&d).await["status"]["conditions"].clone();
    conditions
        .as_array_mut()
        .expect("a list")
        .insert(0, foreign.clone());
    s.change_status(&d, json!({"conditions": conditions})).await;
    s.rolled_out(&d, "i:2").await;
    s.scale(&d, 2).await;
    s.complete(&d).await;
    s.change(&d, json!({"spec": {"paused": true}})).await;
    let now = s.has_reason(&d, "Progressing", "DeploymentPaused").await;
    assert_eq!(condition(&now["status"], "example.com/Liked"), Some(&foreign));
    assert_eq!(
        now["status"]["conditions"].as_array().expect("a list").len(),
        3,
        "{now:#}"
    );
}

async fn overwritten_status_is_corrected(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let before = s.get(&d).await;
    let pods = names(&s.all_pods().await);
    let lie = json!({"replicas": 7, "readyReplicas": 7, "availableReplicas": 1, "updatedReplicas": 0});
    s.change_status(&d, lie).await;
    let now = s.complete(&d).await;
    assert_eq!(counters(&now), counters(&before));
    s.change_status(&d, json!({"conditions": null})).await;
    let now = s.complete(&d).await;
    for kind in ["Available", "Progressing"] {
        assert_eq!(condition_fields(&now, kind), condition_fields(&before, kind));
    }
    assert_eq!(names(&s.all_pods().await), pods);
}

async fn max_unavailable_above_replicas_allows_none_available(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 2), elsewhere()), steps(0, 10)))
        .await;
    s.status(&d, "all are there", |status| {
        counter_of(status, "unavailableReplicas") == 2
    })
    .await;
    let now = s.synced(&d).await;
    assert_eq!(condition_fields(&now, "Available")[0], "True");
}
