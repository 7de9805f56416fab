//! What a Deployment passes on to its `ReplicaSet`, outside of rollouts too.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, DESIRED, MAX, REVISION, annotated, annotation, deployment, image, name, names, steps,
};
use super::stage::Stage;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(annotations_are_passed_on),
        staged!(some_annotations_are_not_passed_on),
        staged!(an_annotation_that_is_taken_away_stays_on_the_replica_set),
        staged!(what_is_changed_on_the_replica_set_is_put_right),
        staged!(min_ready_seconds_are_passed_on_to_the_current_one),
        staged!(sizes_are_noted_on_all_that_are_active),
    ]
}

const NOTE: &str = "example.com/note";
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

async fn annotations_are_passed_on(s: Stage) {
    let d = s
        .completed(with(
            deployment("a", 1),
            annotated(json!({NOTE: "a", "kubernetes.io/change-cause": "first"})),
        ))
        .await;
    let first = s.set_of(&d, "i:1").await;
    assert_eq!(annotation(&first, NOTE), "a");
    assert_eq!(annotation(&first, "kubernetes.io/change-cause"), "first");
    s.rolled(&d, "i:2").await;
    let second = name(&s.set_of(&d, "i:2").await);
    s.change(&d, annotated(json!({NOTE: "b", "example.com/more": ""})))
        .await;
    let now = s
        .set_is(&second, "has it", |set| annotation(set, NOTE) == "b")
        .await;
    assert_eq!(now["metadata"]["annotations"]["example.com/more"], "");
    // What is old is left as it was.
    s.looked_at(&d).await;
    assert_eq!(annotation(&s.set_of(&d, "i:1").await, NOTE), "a");
}

async fn some_annotations_are_not_passed_on(s: Stage) {
    let theirs =
        json!({APPLIED: "{}", DESIRED: "77", MAX: "77", "deployment.kubernetes.io/revision-history": "77"});
    let d = s
        .completed(with(deployment("a", 1), annotated(theirs.clone())))
        .await;
    let set = s.set_of(&d, "i:1").await;
    assert_eq!(
        set["metadata"]["annotations"],
        json!({REVISION: "1", DESIRED: "1", MAX: "2"})
    );
    let now = s.get(&d).await;
    assert_eq!(
        now["metadata"]["annotations"],
        with(theirs, json!({REVISION: "1"}))
    );
}

async fn an_annotation_that_is_taken_away_stays_on_the_replica_set(s: Stage) {
    let d = s
        .completed(with(deployment("a", 1), annotated(json!({NOTE: "a"}))))
        .await;
    s.change(&d, annotated(json!({NOTE: null}))).await;
    let now = s.looked_at(&d).await;
    assert_eq!(annotation(&now, NOTE), "");
    assert_eq!(annotation(&s.set_of(&d, "i:1").await, NOTE), "a");
    s.rolled(&d, "i:2").await;
    assert_eq!(annotation(&s.set_of(&d, "i:2").await, NOTE), "");
}

async fn what_is_changed_on_the_replica_set_is_put_right(s: Stage) {
    let d = s
        .completed(with(deployment("a", 1), annotated(json!({NOTE: "a"}))))
        .await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({NOTE: "x", "example.com/own": "y"})))
        .await;
    let now = s
        .set_is(&set, "is put right", |set| annotation(set, NOTE) == "a")
        .await;
    assert_eq!(annotation(&now, "example.com/own"), "y");
    s.change_set(&set, json!({"spec": {"minReadySeconds": 5}})).await;
    s.set_is(&set, "is put right", |set| {
        set["spec"]["minReadySeconds"].is_null()
    })
    .await;
}

async fn min_ready_seconds_are_passed_on_to_the_current_one(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled(&d, "i:2").await;
    let sets = ["i:1", "i:2"].map(|image| s.set_of(&d, image));
    let [first, second] = sets;
    let (first, second) = (name(&first.await), name(&second.await));
    let pods = s.pods("i:2").await;
    s.change(&d, json!({"spec": {"minReadySeconds": 3}})).await;
    s.set_is(&second, "has it", |set| set["spec"]["minReadySeconds"] == 3)
        .await;
    s.looked_at(&d).await;
    assert!(s.get_set(&first).await["spec"]["minReadySeconds"].is_null());
    assert_eq!(names(&s.pods("i:2").await), names(&pods));
}

async fn sizes_are_noted_on_all_that_are_active(s: Stage) {
    let d = s.completed(with(deployment("a", 4), steps(2, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 4), (BAD, 2)]).await;
    let noted = |set: &Value| [DESIRED, MAX].map(|key| annotation(set, key));
    for set in s.sets(&d).await {
        assert_eq!(noted(&set), ["4", "6"], "{set:#}");
    }
    s.scale(&d, 6).await;
    s.until("both are noted", async || {
        let sets = s.sets(&d).await;
        sets.iter().all(|set| noted(set) == ["6", "8"]).then_some(())
    })
    .await;
}
