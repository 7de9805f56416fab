//! revisionHistoryLimit.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    BAD, DESIRED, MAX, NEVER, REVISION, annotated, deployment, image, image_of, name, replica_set, revision,
    steps,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(history_limit_is_enforced),
        fixture_test!(history_limit_of_zero_keeps_none),
        fixture_test!(no_history_limit_keeps_all),
        fixture_test!(lower_history_limit_applies_at_once),
        fixture_test!(lowest_revision_is_deleted_first),
        fixture_test!(oldest_set_is_deleted_first_without_revisions),
        fixture_test!(incomplete_rollout_deletes_nothing),
        fixture_test!(terminating_sets_do_not_count),
        fixture_test!(sets_with_pods_are_kept_without_replacement),
    ]
}

fn limit(limit: u64) -> Value {
    json!({"spec": {"revisionHistoryLimit": limit}})
}

/// Waits until these `ReplicaSet`s are left.
async fn left(s: &Fixture, d: &Deployment, wanted: &[&str]) {
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
    s.synced(d).await;
    assert_eq!(images().await, wanted);
}

async fn history_limit_is_enforced(s: Fixture) {
    let d = s.completed(with(deployment("a", 1), limit(2))).await;
    for number in 2..=5 {
        s.rolled_out(&d, &format!("i:{number}")).await;
    }
    left(&s, &d, &["i:3", "i:4", "i:5"]).await;
    // Revisions continue.
    assert_eq!(revision(&s.get(&d).await), "5");
}

async fn history_limit_of_zero_keeps_none(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), limit(0))).await;
    s.rolled_out(&d, "i:2").await;
    left(&s, &d, &["i:2"]).await;
    let now = s.rolled_out(&d, "i:1").await;
    assert_eq!(revision(&now), "3");
    left(&s, &d, &["i:1"]).await;
}

async fn no_history_limit_keeps_all(s: Fixture) {
    let d = s.completed(with(deployment("a", 0), limit(NEVER))).await;
    for number in 2..=13 {
        s.rolled_out(&d, &format!("i:{number}")).await;
    }
    s.synced(&d).await;
    assert_eq!(s.sets(&d).await.len(), 13);
    s.change(&d, limit(10)).await;
    s.until("two are gone", async || {
        (s.sets(&d).await.len() == 11).then_some(())
    })
    .await;
}

async fn lower_history_limit_applies_at_once(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    for number in 2..=4 {
        s.rolled_out(&d, &format!("i:{number}")).await;
    }
    s.change(&d, limit(1)).await;
    left(&s, &d, &["i:3", "i:4"]).await;
}

async fn lowest_revision_is_deleted_first(s: Fixture) {
    let d = s.completed(with(deployment("a", 0), limit(2))).await;
    for image in ["i:2", "i:3", "i:1", "i:4"] {
        s.rolled_out(&d, image).await;
    }
    // The oldest template was rolled out again.
    left(&s, &d, &["i:3", "i:1", "i:4"]).await;
}

async fn oldest_set_is_deleted_first_without_revisions(s: Fixture) {
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

async fn incomplete_rollout_deletes_nothing(s: Fixture) {
    let d = s.completed(with(deployment("a", 1), limit(1))).await;
    s.rolled_out(&d, "i:2").await;
    s.change(&d, image(BAD)).await;
    s.has_pods(BAD, 1).await;
    left(&s, &d, &["i:1", "i:2", BAD]).await;
    s.rolled_out(&d, "i:4").await;
    left(&s, &d, &[BAD, "i:4"]).await;
}

async fn terminating_sets_do_not_count(s: Fixture) {
    let d = s.completed(with(deployment("a", 1), limit(2))).await;
    s.rolled_out(&d, "i:2").await;
    let held = name(&s.set_of(&d, "i:1").await);
    s.change_set(&held, json!({"metadata": {"finalizers": ["example.com/hold"]}}))
        .await;
    s.delete_set(&held).await;
    for image in ["i:3", "i:4"] {
        s.rolled_out(&d, image).await;
    }
    // Two are kept, and one has a finalizer.
    left(&s, &d, &["i:1", "i:2", "i:3", "i:4"]).await;
    s.change_set(&held, json!({"metadata": {"finalizers": null}}))
        .await;
    left(&s, &d, &["i:2", "i:3", "i:4"]).await;
}

/// Paused during the rollout, so the first revision still has pods.
async fn sets_with_pods_are_kept_without_replacement(s: Fixture) {
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
    s.has_sizes(&d, &[("i:1", 2), ("i:2", 0), ("i:3", 1)]).await;
    s.change(&d, limit(0)).await;
    left(&s, &d, &["i:1", "i:3"]).await;
}
