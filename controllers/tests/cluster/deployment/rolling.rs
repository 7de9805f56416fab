//! Rolling updates stay within maxSurge and maxUnavailable.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    BAD, annotated, annotation, condition, condition_fields, controller, counter_of, deployment, image,
    image_of, name, names, revision, steps,
};
use super::recorder::WatchRecorder;

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(rollout_with_surge_only),
        fixture_test!(rollout_with_unavailable_only),
        fixture_test!(rollout_with_percentages),
        fixture_test!(rollout_all_at_once),
        fixture_test!(rollout_with_both_limits_rounded_to_zero),
        fixture_test!(third_template_during_a_rollout),
        fixture_test!(first_template_again_during_a_rollout),
        fixture_test!(many_templates_during_a_rollout),
        fixture_test!(unavailable_old_pods_do_not_block_a_rollout),
        fixture_test!(stalled_rollout_keeps_old_pods_available),
        fixture_test!(template_annotation_starts_a_rollout),
        fixture_test!(deployment_annotation_does_not_start_a_rollout),
        fixture_test!(rollout_waits_for_min_ready_seconds),
    ]
}

fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && condition(&pod["status"], "Ready").is_some_and(|it| it["status"] == "True")
}

/// Returns the sum of the sizes.
fn total(sets: &BTreeMap<String, Value>) -> u64 {
    sets.values()
        .map(|set| counter_of(&set["spec"], "replicas"))
        .sum()
}

/// Rolls from i:1 to i:2 and checks that there are never more than `most` pods or fewer than `least` Ready ones.
async fn rolls(s: &Fixture, body: Value, most: u64, least: usize) -> Deployment {
    let replicas = body["spec"]["replicas"].as_u64().expect("a number");
    let d = s.completed(body).await;
    let first = name(&s.set_of(&d, "i:1").await);
    let (sets, pods) = (
        WatchRecorder::of(s, "replicasets").await,
        WatchRecorder::of(s, "pods").await,
    );
    let now = s.rolled_out(&d, "i:2").await;
    assert_eq!(revision(&now), "2");
    let (sets, pods) = (sets.stop(s).await, pods.stop(s).await);
    let (mut highest, mut lowest) = (0, usize::MAX);
    sets.replay(|now| highest = highest.max(total(now)));
    pods.replay(|now| lowest = lowest.min(now.values().filter(|pod| is_ready(pod)).count()));
    assert!(
        highest <= most && lowest >= least,
        "at most {highest}, at least {lowest}"
    );

    let second = name(&s.set_of(&d, "i:2").await);
    assert_eq!(
        s.sizes(&d).await,
        [("i:1".to_owned(), 0), ("i:2".to_owned(), replicas)].into()
    );
    // Each step has an event with the old and the new size.
    let reported = |set: &str, to: u64| {
        let wanted = format!("replica set {set} ");
        let end = format!(" to {to}");
        move |it: &[String; 3]| it[2].contains(&wanted) && it[2].ends_with(&end) && it[0] == "Normal"
    };
    s.until("the last steps have events", async || {
        let events = s.events(&d).await;
        (events.iter().any(reported(&first, 0)) && events.iter().any(reported(&second, replicas)))
            .then_some(())
    })
    .await;
    for set in [first, second] {
        for size in sets.distinct(|it| (name(it) == set).then(|| counter_of(&it["spec"], "replicas"))) {
            let Some(size) = size else { continue };
            let reported = reported(&set, size);
            // The initial size has no event here.
            let known = s.events(&d).await.iter().any(&reported);
            assert!(
                known || size == 0 || size == replicas,
                "{set} to {size} has no event"
            );
        }
    }
    d
}

async fn rollout_with_surge_only(s: Fixture) {
    rolls(&s, with(deployment("a", 3), steps(1, 0)), 4, 3).await;
}

async fn rollout_with_unavailable_only(s: Fixture) {
    rolls(&s, with(deployment("a", 3), steps(0, 1)), 3, 2).await;
}

/// 25% of 5: maxSurge rounds up, maxUnavailable rounds down.
async fn rollout_with_percentages(s: Fixture) {
    rolls(&s, deployment("a", 5), 7, 4).await;
}

async fn rollout_all_at_once(s: Fixture) {
    let sets = WatchRecorder::of(&s, "replicasets").await;
    rolls(&s, with(deployment("a", 3), steps("200%", 0)), 9, 3).await;
    let second = |it: &Value| (revision(it) == "2").then(|| counter_of(&it["spec"], "replicas"));
    let sizes: Vec<u64> = sets
        .stop(&s)
        .await
        .distinct(second)
        .into_iter()
        .flatten()
        .collect();
    assert!(sizes.iter().all(|it| *it == 3), "{sizes:?}");
}

/// maxUnavailable becomes 1.
async fn rollout_with_both_limits_rounded_to_zero(s: Fixture) {
    rolls(&s, with(deployment("a", 3), steps(0, "10%")), 3, 2).await;
}

async fn third_template_during_a_rollout(s: Fixture) {
    let d = s.completed(with(deployment("a", 4), steps(1, 1))).await;
    let sets = WatchRecorder::of(&s, "replicasets").await;
    let pods = WatchRecorder::of(&s, "pods").await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 2)]).await;
    let now = s.rolled_out(&d, "i:3").await;
    assert_eq!(revision(&now), "3");
    s.has_sizes(&d, &[("i:1", 0), (BAD, 0), ("i:3", 4)]).await;
    let (mut highest, mut lowest) = (0, usize::MAX);
    sets.stop(&s)
        .await
        .replay(|now| highest = highest.max(total(now)));
    pods.stop(&s)
        .await
        .replay(|now| lowest = lowest.min(now.values().filter(|pod| is_ready(pod)).count()));
    assert!(
        highest <= 5 && lowest >= 3,
        "at most {highest}, at least {lowest}"
    );
}

/// The `ReplicaSet` of the first template is used again.
async fn first_template_again_during_a_rollout(s: Fixture) {
    let d = s.completed(with(deployment("a", 4), steps(1, 1))).await;
    let (first, pods) = (s.set_of(&d, "i:1").await, s.pods("i:1").await);
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 2)]).await;
    let kept = s.has_pods("i:1", 3).await;
    let now = s.rolled_out(&d, "i:1").await;
    assert_eq!(revision(&now), "3");
    s.has_sizes(&d, &[("i:1", 4), (BAD, 0)]).await;
    let set = s.set_of(&d, "i:1").await;
    assert_eq!(set["metadata"]["uid"], first["metadata"]["uid"]);
    let now = names(&s.pods("i:1").await);
    assert!(names(&kept).is_subset(&now), "{now:?}");
    assert_eq!(pods.len(), 4);
}

async fn many_templates_during_a_rollout(s: Fixture) {
    let d = s.create(deployment("a", 3)).await;
    for number in 2..=6 {
        s.change(&d, image(&format!("i:{number}"))).await;
    }
    s.complete(&d).await;
    let sizes = s.sizes(&d).await;
    assert_eq!(sizes["i:6"], 3);
    assert_eq!(sizes.values().sum::<u64>(), 3, "{sizes:?}");
    let revision = revision(&s.get(&d).await);
    assert_eq!(revision, sizes.len().to_string(), "{sizes:?}");
    s.synced(&d).await;
    assert_eq!(s.sizes(&d).await, sizes);
}

async fn unavailable_old_pods_do_not_block_a_rollout(s: Fixture) {
    let bad = with(with(deployment("a", 4), steps(0, 1)), image(BAD));
    let d = s.create(bad).await;
    s.has_sizes(&d, &[(BAD, 4)]).await;
    s.rolled_out(&d, "i:2").await;
    s.has_sizes(&d, &[(BAD, 0), ("i:2", 4)]).await;
}

async fn stalled_rollout_keeps_old_pods_available(s: Fixture) {
    let d = s.completed(with(deployment("a", 4), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 4), (BAD, 1)]).await;
    let now = s
        .status(&d, "the new one is counted", |status| {
            counter_of(status, "updatedReplicas") == 1
        })
        .await;
    let counters = [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ];
    assert_eq!(counters.map(|it| counter_of(&now["status"], it)), [5, 1, 4, 4, 1]);
    assert_eq!(condition_fields(&now, "Available")[0], "True");
    s.change(&d, image("i:2")).await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 0), ("i:2", 4)]).await;
}

async fn template_annotation_starts_a_rollout(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let restart = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}});
    s.change(&d, json!({"spec": {"template": restart}})).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "2");
    assert_eq!(s.sets(&d).await.len(), 2);
    for pod in s.pods("i:1").await {
        assert_eq!(
            pod["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"],
            "now"
        );
    }
}

async fn deployment_annotation_does_not_start_a_rollout(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let before = s.all_pods().await;
    let change = annotated(json!({"example.com/note": "a"}));
    s.change(&d, change).await;
    s.synced(&d).await;
    let sets = s.sets(&d).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(annotation(&sets[0], "example.com/note"), "a");
    assert_eq!(names(&s.all_pods().await), names(&before));
    assert!(
        before
            .iter()
            .all(|pod| image_of(pod) == "i:1" && controller(pod).is_some())
    );
}

async fn rollout_waits_for_min_ready_seconds(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    let wait = json!({"spec": {"minReadySeconds": 500}});
    s.change(&d, with(wait, image("i:2"))).await;
    s.status(&d, "the new one is ready", |status| {
        counter_of(status, "readyReplicas") == 3
    })
    .await;
    let now = s.has_sizes(&d, &[("i:1", 2), ("i:2", 1)]).await;
    assert_eq!(counter_of(&now["status"], "availableReplicas"), 2, "{now:#}");
    // Old ReplicaSets keep theirs.
    assert!(s.set_of(&d, "i:1").await["spec"]["minReadySeconds"].is_null());
    assert_eq!(s.set_of(&d, "i:2").await["spec"]["minReadySeconds"], 500);
    s.change(&d, json!({"spec": {"minReadySeconds": 0}})).await;
    s.complete(&d).await;
    assert!(s.set_of(&d, "i:2").await["spec"]["minReadySeconds"].is_null());
}
