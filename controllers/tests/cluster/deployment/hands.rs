//! `ReplicaSet`s that somebody has laid hands on.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::json;

use super::objects::{
    BAD, DESIRED, MAX, annotated, annotation, deployment, image, name, revision, steps, text,
};
use super::stage::Stage;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(one_that_is_deleted_is_made_again),
        staged!(a_new_one_that_is_deleted_in_the_middle_is_made_again),
        staged!(an_old_one_that_is_deleted_in_the_middle_is_not_missed),
        staged!(one_that_is_scaled_is_put_right),
        staged!(an_old_one_that_is_scaled_is_put_right),
        staged!(one_that_is_scaled_in_the_middle_is_put_right),
        staged!(a_note_that_is_no_number_does_not_get_in_the_way),
        staged!(notes_that_are_missing_do_not_get_in_the_way),
        staged!(a_note_of_another_size_is_put_right),
        staged!(labels_that_are_changed_stay),
    ]
}

async fn one_that_is_deleted_is_made_again(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled(&d, "i:2").await;
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

async fn a_new_one_that_is_deleted_in_the_middle_is_made_again(s: Stage) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    let before = s.set_of(&d, BAD).await;
    s.delete_set(&name(&before)).await;
    s.until("there is another", async || {
        let sets = s.sets(&d).await;
        let uid = &before["metadata"]["uid"];
        (sets.len() == 2 && sets.iter().all(|set| set["metadata"]["uid"] != *uid)).then_some(())
    })
    .await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.rolled(&d, "i:2").await;
    s.sized(&d, &[("i:1", 0), (BAD, 0), ("i:2", 3)]).await;
}

async fn an_old_one_that_is_deleted_in_the_middle_is_not_missed(s: Stage) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.delete_set(&name(&s.set_of(&d, "i:1").await)).await;
    s.has_pods(BAD, 3).await;
    s.sized(&d, &[(BAD, 3)]).await;
}

async fn one_that_is_scaled_is_put_right(s: Stage) {
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

async fn an_old_one_that_is_scaled_is_put_right(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    s.rolled(&d, "i:2").await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, json!({"spec": {"replicas": 2}})).await;
    s.set_is(&set, "is put right", |set| set["spec"]["replicas"] == 0)
        .await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 0), ("i:2", 2)]).await;
}

async fn one_that_is_scaled_in_the_middle_is_put_right(s: Stage) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    let bad = name(&s.set_of(&d, BAD).await);
    s.change_set(&bad, json!({"spec": {"replicas": 9}})).await;
    s.set_is(&bad, "is put right", |set| set["spec"]["replicas"] == 3)
        .await;
    s.rolled(&d, "i:2").await;
    s.sized(&d, &[("i:1", 0), (BAD, 0), ("i:2", 3)]).await;
}

async fn a_note_that_is_no_number_does_not_get_in_the_way(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({DESIRED: "many", MAX: "more"})))
        .await;
    s.looked_at(&d).await;
    assert_eq!(annotation(&s.get_set(&set).await, DESIRED), "many");
    s.scale(&d, 3).await;
    s.complete(&d).await;
    let now = s.get_set(&set).await;
    assert_eq!([DESIRED, MAX].map(|key| annotation(&now, key)), ["3", "4"]);
    s.change_set(&set, annotated(json!({DESIRED: "many", MAX: "more"})))
        .await;
    s.rolled(&d, "i:2").await;
    s.sized(&d, &[("i:1", 0), ("i:2", 3)]).await;
}

async fn notes_that_are_missing_do_not_get_in_the_way(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({DESIRED: null, MAX: null})))
        .await;
    s.scale(&d, 4).await;
    s.complete(&d).await;
    s.change_set(&set, annotated(json!({DESIRED: null, MAX: null})))
        .await;
    s.rolled(&d, "i:2").await;
    s.sized(&d, &[("i:1", 0), ("i:2", 4)]).await;
}

/// It looks as if the Deployment had another size, but then it has not: there is nothing to scale, and the note stays as it
/// is until there is.
async fn a_note_of_another_size_is_put_right(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({DESIRED: "7"}))).await;
    s.looked_at(&d).await;
    s.sized(&d, &[("i:1", 2)]).await;
    s.scale(&d, 3).await;
    s.complete(&d).await;
    assert_eq!(annotation(&s.get_set(&set).await, DESIRED), "3");
}

async fn labels_that_are_changed_stay(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    let change = json!({"metadata": {"labels": {"pod-template-hash": "mine", "example.com/team": "a"}}});
    s.change_set(&set, change).await;
    s.rolled(&d, "i:2").await;
    s.rolled(&d, "i:1").await;
    let labels = s.get_set(&set).await["metadata"]["labels"].clone();
    assert_eq!(text(&labels["pod-template-hash"]), "mine");
    assert_eq!(text(&labels["example.com/team"]), "a");
    assert_eq!(s.sets(&d).await.len(), 2);
}
