//! Another size in the middle of a rollout: each `ReplicaSet` gets its share.
//!
//! But for the first test, the `ReplicaSet`s are staged: made by the test with the sizes and notes of a rollout, and adopted
//! by a Deployment that is paused, so that nothing but the scaling happens.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, DESIRED, MAX, annotated, annotation, counter_of, deployment, elsewhere, image, name, replica_set,
    steps,
};
use super::stage::{Deployment, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(eight_and_five_become_twenty_and_thirteen),
        staged!(by_size),
        staged!(one_more_goes_to_the_newest),
        staged!(one_less_goes_from_the_oldest),
        staged!(what_is_left_goes_to_the_largest),
        staged!(halves_are_rounded_up),
        staged!(without_a_note_what_is_there_counts),
        staged!(without_anything_to_go_by_all_goes_to_the_largest),
        staged!(to_zero),
        staged!(those_that_keep_their_size_are_noted_too),
    ]
}

async fn eight_and_five_become_twenty_and_thirteen(s: Stage) {
    let d = s.completed(with(deployment("a", 10), steps(3, 2))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 8), (BAD, 5)]).await;
    s.scale(&d, 30).await;
    s.sized(&d, &[("i:1", 20), (BAD, 13)]).await;
    for set in s.sets(&d).await {
        assert_eq!([DESIRED, MAX].map(|key| annotation(&set, key)), ["30", "33"]);
    }
}

/// A paused Deployment of `replicas` and a surge, and its `ReplicaSet`s of these sizes: i:1, i:2 and so on, and the last one the
/// current one.
async fn staged(s: &Stage, replicas: u32, surge: u32, sizes: &[u32]) -> Deployment {
    let notes = json!({DESIRED: replicas.to_string(), MAX: (replicas + surge).to_string()});
    let d = staged_as(s, replicas, sizes, surge, notes).await;
    let wanted: Vec<u64> = sizes.iter().map(|it| (*it).into()).collect();
    is(s, &d, &wanted).await;
    d
}

/// The same, whatever becomes of it, with these annotations on the `ReplicaSet`s.
async fn staged_as(s: &Stage, replicas: u32, sizes: &[u32], surge: u32, notes: Value) -> Deployment {
    let of = |number: usize| {
        // Each has pods of its own.
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

/// Waits until the sizes are these, and stay so.
async fn is(s: &Stage, d: &Deployment, sizes: &[u64]) {
    let images: Vec<String> = (1..=sizes.len()).map(|number| format!("i:{number}")).collect();
    let wanted: Vec<(&str, u64)> = images.iter().map(|it| &**it).zip(sizes.iter().copied()).collect();
    s.sized(d, &wanted).await;
}

async fn by_size(s: Stage) {
    let d = staged(&s, 10, 3, &[8, 5]).await;
    s.scale(&d, 30).await;
    is(&s, &d, &[20, 13]).await;
    s.scale(&d, 5).await;
    // 20 * 8 / 33 is 4.8, and 13 * 8 / 33 is 3.2.
    is(&s, &d, &[5, 3]).await;
    s.scale(&d, 20).await;
    // 5 * 23 / 8 is 14.4, and 3 * 23 / 8 is 8.6.
    is(&s, &d, &[14, 9]).await;
}

async fn one_more_goes_to_the_newest(s: Stage) {
    let d = staged(&s, 6, 0, &[3, 3]).await;
    s.scale(&d, 7).await;
    is(&s, &d, &[3, 4]).await;
}

async fn one_less_goes_from_the_oldest(s: Stage) {
    let d = staged(&s, 6, 0, &[3, 3]).await;
    s.scale(&d, 5).await;
    is(&s, &d, &[2, 3]).await;
}

async fn what_is_left_goes_to_the_largest(s: Stage) {
    let d = staged(&s, 10, 0, &[3, 4, 3]).await;
    s.scale(&d, 14).await;
    // 4 * 1.4 is 5.6, 3 * 1.4 is 4.2: 6 + 4 + 4.
    is(&s, &d, &[4, 6, 4]).await;
    s.scale(&d, 15).await;
    // 6.4, 4.3, 4.3: one is left.
    is(&s, &d, &[4, 7, 4]).await;
}

async fn halves_are_rounded_up(s: Stage) {
    // 5 * 1.5 is 7.5, which takes all that there is of 3; and leaves 3 * 1.5 with less than it would be.
    let d = staged(&s, 8, 0, &[3, 5]).await;
    s.scale(&d, 12).await;
    is(&s, &d, &[4, 8]).await;
}

/// The number of pods that the Deployment has told of.
async fn without_a_note_what_is_there_counts(s: Stage) {
    let d = s.completed(with(deployment("a", 4), steps(2, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 4), (BAD, 2)]).await;
    for set in s.sets(&d).await {
        s.change_set(&name(&set), annotated(json!({MAX: null}))).await;
    }
    s.status(&d, "all are counted", |status| {
        counter_of(status, "replicas") == 6
    })
    .await;
    s.scale(&d, 10).await;
    s.sized(&d, &[("i:1", 8), (BAD, 4)]).await;
}

/// It is new, so that it has told of none yet.
async fn without_anything_to_go_by_all_goes_to_the_largest(s: Stage) {
    let d = staged_as(&s, 10, &[3, 2], 0, json!({DESIRED: "5"})).await;
    is(&s, &d, &[8, 2]).await;
}

async fn to_zero(s: Stage) {
    let d = staged(&s, 4, 2, &[4, 2]).await;
    s.scale(&d, 0).await;
    is(&s, &d, &[0, 0]).await;
}

async fn those_that_keep_their_size_are_noted_too(s: Stage) {
    let d = staged(&s, 6, 0, &[1, 5]).await;
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
