//! How much of the past is kept.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, DESIRED, MAX, NEVER, REVISION, annotated, deployment, image, image_of, name, replica_set, revision,
    steps,
};
use super::stage::{Deployment, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(keeps_as_many_as_it_should),
        staged!(keeps_none),
        staged!(keeps_all),
        staged!(a_lower_limit_counts_at_once),
        staged!(goes_by_revision_and_not_by_age),
        staged!(goes_by_age_if_revisions_do_not_tell),
        staged!(nothing_goes_before_the_rollout_is_complete),
        staged!(those_that_are_going_do_not_count),
        staged!(those_that_have_pods_stay_and_none_goes_instead),
    ]
}

fn limit(limit: u64) -> Value {
    json!({"spec": {"revisionHistoryLimit": limit}})
}

/// Waits until what is left are these.
async fn left(s: &Stage, d: &Deployment, wanted: &[&str]) {
    let images = async || -> Vec<String> {
        s.sets(d)
            .await
            .iter()
            .map(|set| image_of(&set["spec"]["template"]))
            .collect()
    };
    s.until(format!("{wanted:?} are left"), async || {
        (images().await == wanted).then_some(())
    })
    .await;
    s.looked_at(d).await;
    assert_eq!(images().await, wanted);
}

async fn keeps_as_many_as_it_should(s: Stage) {
    let d = s.completed(with(deployment("a", 1), limit(2))).await;
    for number in 2..=5 {
        s.rolled(&d, &format!("i:{number}")).await;
    }
    left(&s, &d, &["i:3", "i:4", "i:5"]).await;
    // The numbers go on.
    assert_eq!(revision(&s.get(&d).await), "5");
}

async fn keeps_none(s: Stage) {
    let d = s.completed(with(deployment("a", 2), limit(0))).await;
    s.rolled(&d, "i:2").await;
    left(&s, &d, &["i:2"]).await;
    let now = s.rolled(&d, "i:1").await;
    assert_eq!(revision(&now), "3");
    left(&s, &d, &["i:1"]).await;
}

async fn keeps_all(s: Stage) {
    let d = s.completed(with(deployment("a", 0), limit(NEVER))).await;
    for number in 2..=13 {
        s.rolled(&d, &format!("i:{number}")).await;
    }
    s.looked_at(&d).await;
    assert_eq!(s.sets(&d).await.len(), 13);
    s.change(&d, limit(10)).await;
    s.until("two are gone", async || {
        (s.sets(&d).await.len() == 11).then_some(())
    })
    .await;
}

async fn a_lower_limit_counts_at_once(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    for number in 2..=4 {
        s.rolled(&d, &format!("i:{number}")).await;
    }
    s.change(&d, limit(1)).await;
    left(&s, &d, &["i:3", "i:4"]).await;
}

async fn goes_by_revision_and_not_by_age(s: Stage) {
    let d = s.completed(with(deployment("a", 0), limit(2))).await;
    for image in ["i:2", "i:3", "i:1", "i:4"] {
        s.rolled(&d, image).await;
    }
    // The oldest one has come back in the meantime.
    left(&s, &d, &["i:3", "i:1", "i:4"]).await;
}

async fn goes_by_age_if_revisions_do_not_tell(s: Stage) {
    for (set, number) in [("z", "x"), ("y", "x"), ("x", "x")] {
        let old = with(replica_set("a", set, 0), image(&format!("i:{set}")));
        let old = s
            .create_set(with(old, annotated(json!({REVISION: number}))))
            .await;
        s.later_than(&old).await;
    }
    let d = s.completed(with(deployment("a", 1), limit(1))).await;
    left(&s, &d, &["i:x", "i:1"]).await;
}

async fn nothing_goes_before_the_rollout_is_complete(s: Stage) {
    let d = s.completed(with(deployment("a", 1), limit(1))).await;
    s.rolled(&d, "i:2").await;
    s.change(&d, image(BAD)).await;
    s.has_pods(BAD, 1).await;
    left(&s, &d, &["i:1", "i:2", BAD]).await;
    s.rolled(&d, "i:4").await;
    left(&s, &d, &[BAD, "i:4"]).await;
}

async fn those_that_are_going_do_not_count(s: Stage) {
    let d = s.completed(with(deployment("a", 1), limit(2))).await;
    s.rolled(&d, "i:2").await;
    let held = name(&s.set_of(&d, "i:1").await);
    s.change_set(&held, json!({"metadata": {"finalizers": ["example.com/hold"]}}))
        .await;
    s.delete_set(&held).await;
    for image in ["i:3", "i:4"] {
        s.rolled(&d, image).await;
    }
    // Two that are kept, and one that cannot go yet.
    left(&s, &d, &["i:1", "i:2", "i:3", "i:4"]).await;
    s.change_set(&held, json!({"metadata": {"finalizers": null}}))
        .await;
    left(&s, &d, &["i:2", "i:3", "i:4"]).await;
}

/// Paused half-way, so that the first revision still has pods.
async fn those_that_have_pods_stay_and_none_goes_instead(s: Stage) {
    for (number, size) in [(1, 2), (2, 0), (3, 1)] {
        let note = json!({REVISION: number.to_string(), DESIRED: "3", MAX: "3"});
        let set = with(
            replica_set("a", &format!("set-{number}"), size),
            image(&format!("i:{number}")),
        );
        s.create_set(with(set, annotated(note))).await;
    }
    let change = json!({"spec": {"paused": true, "revisionHistoryLimit": 1}});
    let d = s
        .create(with(
            with(deployment("a", 3), steps(0, 1)),
            with(image("i:3"), change),
        ))
        .await;
    s.sized(&d, &[("i:1", 2), ("i:2", 0), ("i:3", 1)]).await;
    s.change(&d, limit(0)).await;
    left(&s, &d, &["i:1", "i:3"]).await;
}
