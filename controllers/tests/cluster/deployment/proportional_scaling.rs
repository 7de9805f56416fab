//! Scaling during a rollout.
//!
//! Except for the first test, the test creates the `ReplicaSet`s with the sizes and annotations of a rollout, and a
//! paused Deployment adopts them, so nothing but the scaling happens.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    BAD, DESIRED, MAX, annotated, annotation, counter_of, deployment, elsewhere, image, name, replica_set,
    steps,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(scaling_during_a_rollout_is_proportional),
        fixture_test!(change_is_proportional_to_size),
        fixture_test!(additional_pod_goes_to_the_newest_set),
        fixture_test!(removed_pod_comes_from_the_oldest_set),
        fixture_test!(largest_set_gets_the_rounding_remainder),
        fixture_test!(halves_are_rounded_up),
        fixture_test!(missing_annotation_falls_back_to_status_replicas),
        fixture_test!(missing_annotation_and_status_scale_the_largest_set),
        fixture_test!(zero_replicas_scale_all_sets_to_zero),
        fixture_test!(sets_with_unchanged_size_get_annotations),
    ]
}

async fn scaling_during_a_rollout_is_proportional(s: Fixture) {
    let d = s.completed(with(deployment("a", 10), steps(3, 2))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 8), (BAD, 5)]).await;
    s.scale(&d, 30).await;
    s.has_sizes(&d, &[("i:1", 20), (BAD, 13)]).await;
    for set in s.sets(&d).await {
        assert_eq!([DESIRED, MAX].map(|key| annotation(&set, key)), ["30", "33"]);
    }
}

/// Creates a paused Deployment and its `ReplicaSet`s of these sizes: i:1, i:2 and so on, the last one is current.
async fn create_sets(s: &Fixture, replicas: u32, surge: u32, sizes: &[u32]) -> Deployment {
    let notes = json!({DESIRED: replicas.to_string(), MAX: (replicas + surge).to_string()});
    let d = create_sets_with(s, replicas, sizes, surge, notes).await;
    let wanted: Vec<u64> = sizes.iter().map(|it| (*it).into()).collect();
    is(s, &d, &wanted).await;
    d
}

/// Creates the same with these annotations on the `ReplicaSet`s, without waiting.
async fn create_sets_with(s: &Fixture, replicas: u32, sizes: &[u32], surge: u32, notes: Value) -> Deployment {
    let of = |number: usize| {
        // Each has its own pods.
        let labels = json!({"app": "a", "n": number.to_string()});
        let template = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
        with(template, with(elsewhere(), image(&format!("i:{number}"))))
    };
    for (number, size) in (1..).zip(sizes) {
        let set = with(replica_set("a", &format!("set-{number}"), *size), of(number));
        let own = json!({"spec": {"selector": {"matchLabels": {"n": number.to_string()}}}});
        s.create_set(with(with(set, own), annotated(notes.clone()))).await;
    }
    let body = with(with(deployment("a", replicas), steps(surge, 1)), of(sizes.len()));
    s.create(with(body, json!({"spec": {"paused": true}}))).await
}

/// Waits until the sizes are these, and checks that they stay so.
async fn is(s: &Fixture, d: &Deployment, sizes: &[u64]) {
    let images: Vec<String> = (1..=sizes.len()).map(|number| format!("i:{number}")).collect();
    let wanted: Vec<(&str, u64)> = images.iter().map(|it| &**it).zip(sizes.iter().copied()).collect();
    s.has_sizes(d, &wanted).await;
}

async fn change_is_proportional_to_size(s: Fixture) {
    let d = create_sets(&s, 10, 3, &[8, 5]).await;
    s.scale(&d, 30).await;
    is(&s, &d, &[20, 13]).await;
    s.scale(&d, 5).await;
    // 20 * 8 / 33 is 4.8, and 13 * 8 / 33 is 3.2.
    is(&s, &d, &[5, 3]).await;
    s.scale(&d, 20).await;
    // 5 * 23 / 8 is 14.4, and 3 * 23 / 8 is 8.6.
    is(&s, &d, &[14, 9]).await;
}

async fn additional_pod_goes_to_the_newest_set(s: Fixture) {
    let d = create_sets(&s, 6, 0, &[3, 3]).await;
    s.scale(&d, 7).await;
    is(&s, &d, &[3, 4]).await;
}

async fn removed_pod_comes_from_the_oldest_set(s: Fixture) {
    let d = create_sets(&s, 6, 0, &[3, 3]).await;
    s.scale(&d, 5).await;
    is(&s, &d, &[2, 3]).await;
}

async fn largest_set_gets_the_rounding_remainder(s: Fixture) {
    let d = create_sets(&s, 10, 0, &[3, 4, 3]).await;
    s.scale(&d, 14).await;
    // 4 * 1.4 is 5.6, 3 * 1.4 is 4.2: 6 + 4 + 4.
    is(&s, &d, &[4, 6, 4]).await;
    s.scale(&d, 15).await;
    // 6.4, 4.3, 4.3: a remainder of one.
    is(&s, &d, &[4, 7, 4]).await;
}

async fn halves_are_rounded_up(s: Fixture) {
    // 5 * 1.5 is 7.5, rounded up to 8, which leaves less than 3 * 1.5.
    let d = create_sets(&s, 8, 0, &[3, 5]).await;
    s.scale(&d, 12).await;
    is(&s, &d, &[4, 8]).await;
}

async fn missing_annotation_falls_back_to_status_replicas(s: Fixture) {
    let d = s.completed(with(deployment("a", 4), steps(2, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 4), (BAD, 2)]).await;
    for set in s.sets(&d).await {
        s.change_set(&name(&set), annotated(json!({MAX: null}))).await;
    }
    s.status(&d, "all are counted", |status| {
        counter_of(status, "replicas") == 6
    })
    .await;
    s.scale(&d, 10).await;
    s.has_sizes(&d, &[("i:1", 8), (BAD, 4)]).await;
}

/// A new Deployment has no status yet.
async fn missing_annotation_and_status_scale_the_largest_set(s: Fixture) {
    let d = create_sets_with(&s, 10, &[3, 2], 0, json!({DESIRED: "5"})).await;
    is(&s, &d, &[8, 2]).await;
}

async fn zero_replicas_scale_all_sets_to_zero(s: Fixture) {
    let d = create_sets(&s, 4, 2, &[4, 2]).await;
    s.scale(&d, 0).await;
    is(&s, &d, &[0, 0]).await;
}

async fn sets_with_unchanged_size_get_annotations(s: Fixture) {
    let d = create_sets(&s, 6, 0, &[1, 5]).await;
    s.scale(&d, 7).await;
    is(&s, &d, &[1, 6]).await;
    for set in s.sets(&d).await {
        assert_eq!(
            [DESIRED, MAX].map(|key| annotation(&set, key)),
            ["7", "7"],
            "{set:#}"
        );
    }
}
