//! Annotations and fields that are copied from a Deployment to its `ReplicaSet`.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{
    BAD, DESIRED, MAX, REVISION, annotated, annotation, deployment, image, name, names, steps,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(annotations_are_copied_to_the_current_set),
        fixture_test!(reserved_annotations_are_not_copied),
        fixture_test!(removed_annotation_stays_on_the_set),
        fixture_test!(changed_annotation_of_the_set_is_restored),
        fixture_test!(min_ready_seconds_are_copied_to_the_current_set),
        fixture_test!(active_sets_have_size_annotations),
    ]
}

const NOTE: &str = "example.com/note";
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

async fn annotations_are_copied_to_the_current_set(s: Fixture) {
    let d = s
        .completed(with(
            deployment("a", 1),
            annotated(json!({NOTE: "a", "kubernetes.io/change-cause": "first"})),
        ))
        .await;
    let first = s.set_of(&d, "i:1").await;
    assert_eq!(annotation(&first, NOTE), "a");
    assert_eq!(annotation(&first, "kubernetes.io/change-cause"), "first");
    s.rolled_out(&d, "i:2").await;
    let second = name(&s.set_of(&d, "i:2").await);
    s.change(&d, annotated(json!({NOTE: "b", "example.com/more": ""})))
        .await;
    let now = s
        .set_is(&second, "has it", |set| annotation(set, NOTE) == "b")
        .await;
    assert_eq!(now["metadata"]["annotations"]["example.com/more"], "");
    // Old ReplicaSets are unchanged.
    s.synced(&d).await;
    assert_eq!(annotation(&s.set_of(&d, "i:1").await, NOTE), "a");
}

async fn reserved_annotations_are_not_copied(s: Fixture) {
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

async fn removed_annotation_stays_on_the_set(s: Fixture) {
    let d = s
        .completed(with(deployment("a", 1), annotated(json!({NOTE: "a"}))))
        .await;
    s.change(&d, annotated(json!({NOTE: null}))).await;
    let now = s.synced(&d).await;
    assert_eq!(annotation(&now, NOTE), "");
    assert_eq!(annotation(&s.set_of(&d, "i:1").await, NOTE), "a");
    s.rolled_out(&d, "i:2").await;
    assert_eq!(annotation(&s.set_of(&d, "i:2").await, NOTE), "");
}

async fn changed_annotation_of_the_set_is_restored(s: Fixture) {
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

async fn min_ready_seconds_are_copied_to_the_current_set(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled_out(&d, "i:2").await;
    let sets = ["i:1", "i:2"].map(|image| s.set_of(&d, image));
    let [first, second] = sets;
    let (first, second) = (name(&first.await), name(&second.await));
    let pods = s.pods("i:2").await;
    s.change(&d, json!({"spec": {"minReadySeconds": 3}})).await;
    s.set_is(&second, "has it", |set| set["spec"]["minReadySeconds"] == 3)
        .await;
    s.synced(&d).await;
    assert!(s.get_set(&first).await["spec"]["minReadySeconds"].is_null());
    assert_eq!(names(&s.pods("i:2").await), names(&pods));
}

async fn active_sets_have_size_annotations(s: Fixture) {
    let d = s.completed(with(deployment("a", 4), steps(2, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 4), (BAD, 2)]).await;
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
