//! `ReplicaSet`s that a user has changed.

use serde_json::json;
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{
    BAD, DESIRED, MAX, annotated, annotation, deployment, image, name, revision, steps, text,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(deleted_set_is_created_again),
        fixture_test!(new_set_deleted_during_a_rollout_is_created_again),
        fixture_test!(old_set_deleted_during_a_rollout_is_not_created_again),
        fixture_test!(scaled_set_is_scaled_back),
        fixture_test!(scaled_old_set_is_scaled_back),
        fixture_test!(set_scaled_during_a_rollout_is_scaled_back),
        fixture_test!(invalid_size_annotation_is_ignored),
        fixture_test!(missing_size_annotations_are_ignored),
        fixture_test!(wrong_size_annotation_is_corrected),
        fixture_test!(changed_labels_are_kept),
    ]
}

async fn deleted_set_is_created_again(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled_out(&d, "i:2").await;
    let before = s.set_of(&d, "i:2").await;
    s.delete_set(&name(&before)).await;
    let now = s
        .until("there is another", async || {
            let mut sets = s.sets(&d).await;
            sets.retain(|set| name(set) == name(&before));
            sets.pop()
        })
        .await;
    assert_ne!(now["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(now["spec"], before["spec"]);
    assert_eq!(now["metadata"]["annotations"], before["metadata"]["annotations"]);
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "2");
    assert!(now["status"]["collisionCount"].is_null(), "{now:#}");
}

async fn new_set_deleted_during_a_rollout_is_created_again(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    let before = s.set_of(&d, BAD).await;
    s.delete_set(&name(&before)).await;
    s.until("there is another", async || {
        let sets = s.sets(&d).await;
        let uid = &before["metadata"]["uid"];
        (sets.len() == 2 && sets.iter().all(|set| set["metadata"]["uid"] != *uid)).then_some(())
    })
    .await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.rolled_out(&d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 0), ("i:2", 3)]).await;
}

async fn old_set_deleted_during_a_rollout_is_not_created_again(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.delete_set(&name(&s.set_of(&d, "i:1").await)).await;
    s.has_pods(BAD, 3).await;
    s.has_sizes(&d, &[(BAD, 3)]).await;
}

async fn scaled_set_is_scaled_back(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    for size in [5, 1, 0] {
        s.change_set(&set, json!({"spec": {"replicas": size}})).await;
        s.set_is(&set, "is put right", |set| set["spec"]["replicas"] == 2)
            .await;
    }
    s.complete(&d).await;
    s.has_pods("i:1", 2).await;
}

async fn scaled_old_set_is_scaled_back(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    s.rolled_out(&d, "i:2").await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, json!({"spec": {"replicas": 2}})).await;
    s.set_is(&set, "is put right", |set| set["spec"]["replicas"] == 0)
        .await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 2)]).await;
}

async fn set_scaled_during_a_rollout_is_scaled_back(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    let bad = name(&s.set_of(&d, BAD).await);
    s.change_set(&bad, json!({"spec": {"replicas": 9}})).await;
    s.set_is(&bad, "is put right", |set| set["spec"]["replicas"] == 3)
        .await;
    s.rolled_out(&d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 0), ("i:2", 3)]).await;
}

async fn invalid_size_annotation_is_ignored(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({DESIRED: "many", MAX: "more"})))
        .await;
    s.synced(&d).await;
    assert_eq!(annotation(&s.get_set(&set).await, DESIRED), "many");
    s.scale(&d, 3).await;
    s.complete(&d).await;
    let now = s.get_set(&set).await;
    assert_eq!([DESIRED, MAX].map(|key| annotation(&now, key)), ["3", "4"]);
    s.change_set(&set, annotated(json!({DESIRED: "many", MAX: "more"})))
        .await;
    s.rolled_out(&d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 3)]).await;
}

async fn missing_size_annotations_are_ignored(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({DESIRED: null, MAX: null})))
        .await;
    s.scale(&d, 4).await;
    s.complete(&d).await;
    s.change_set(&set, annotated(json!({DESIRED: null, MAX: null})))
        .await;
    s.rolled_out(&d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 4)]).await;
}

/// The annotation suggests a change of size, but there is nothing to scale.
async fn wrong_size_annotation_is_corrected(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({DESIRED: "7"}))).await;
    s.synced(&d).await;
    s.has_sizes(&d, &[("i:1", 2)]).await;
    s.scale(&d, 3).await;
    s.complete(&d).await;
    assert_eq!(annotation(&s.get_set(&set).await, DESIRED), "3");
}

async fn changed_labels_are_kept(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    let change = json!({"metadata": {"labels": {"pod-template-hash": "mine", "example.com/team": "a"}}});
    s.change_set(&set, change).await;
    s.rolled_out(&d, "i:2").await;
    s.rolled_out(&d, "i:1").await;
    let labels = s.get_set(&set).await["metadata"]["labels"].clone();
    assert_eq!(text(&labels["pod-template-hash"]), "mine");
    assert_eq!(text(&labels["example.com/team"]), "a");
    assert_eq!(s.sets(&d).await.len(), 2);
}
