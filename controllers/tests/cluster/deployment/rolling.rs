//! From one template to the next, without ever too many or too few.

use std::collections::BTreeMap;

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, annotated, annotation, condition, controller, counter_of, deployment, image, image_of, name, names,
    revision, said, steps,
};
use super::stage::{Deployment, Stage};
use super::tape::Tape;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(rolls_by_adding),
        staged!(rolls_by_removing),
        staged!(rolls_by_percentages),
        staged!(rolls_all_at_once),
        staged!(rolls_though_both_limits_round_to_nothing),
        staged!(rolls_on_to_a_third_template_in_the_middle),
        staged!(rolls_back_in_the_middle),
        staged!(rolls_through_many_at_once),
        staged!(unhealthy_pods_of_the_past_do_not_hold_it_up),
        staged!(what_is_stuck_keeps_the_rest_available),
        staged!(an_annotation_of_the_template_is_a_rollout),
        staged!(an_annotation_of_the_deployment_is_none),
        staged!(new_pods_wait_until_they_are_available),
    ]
}

fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && condition(&pod["status"], "Ready").is_some_and(|it| it["status"] == "True")
}

/// The sizes of the `ReplicaSet`s, together.
fn total(sets: &BTreeMap<String, Value>) -> u64 {
    sets.values()
        .map(|set| counter_of(&set["spec"], "replicas"))
        .sum()
}

/// Rolls from i:1 to i:2, and sees to it that there are at no moment more pods than `most` nor less than `least` that are
/// Ready.
async fn rolls(s: &Stage, body: Value, most: u64, least: usize) -> Deployment {
    let replicas = body["spec"]["replicas"].as_u64().expect("a number");
    let d = s.completed(body).await;
    let first = name(&s.set_of(&d, "i:1").await);
    let (sets, pods) = (Tape::of(s, "replicasets").await, Tape::of(s, "pods").await);
    let now = s.rolled(&d, "i:2").await;
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
    // There is an event for each step, and it tells from where to where.
    let told = |set: &str, to: u64| {
        let wanted = format!("replica set {set} ");
        let end = format!(" to {to}");
        move |it: &[String; 3]| it[2].contains(&wanted) && it[2].ends_with(&end) && it[0] == "Normal"
    };
    s.until("the last steps are told", async || {
        let events = s.events(&d).await;
        (events.iter().any(told(&first, 0)) && events.iter().any(told(&second, replicas))).then_some(())
    })
    .await;
    for set in [first, second] {
        for size in sets.story(|it| (name(it) == set).then(|| counter_of(&it["spec"], "replicas"))) {
            let Some(size) = size else { continue };
            let told = told(&set, size);
            // That it began with all of them, or with none, needs no words.
            let known = s.events(&d).await.iter().any(&told);
            assert!(
                known || size == 0 || size == replicas,
                "{set} to {size} is not told"
            );
        }
    }
    d
}

async fn rolls_by_adding(s: Stage) {
    rolls(&s, with(deployment("a", 3), steps(1, 0)), 4, 3).await;
}

async fn rolls_by_removing(s: Stage) {
    rolls(&s, with(deployment("a", 3), steps(0, 1)), 3, 2).await;
}

/// 25% of 5: up for what is added, down for what is removed.
async fn rolls_by_percentages(s: Stage) {
    rolls(&s, deployment("a", 5), 7, 4).await;
}

async fn rolls_all_at_once(s: Stage) {
    let sets = Tape::of(&s, "replicasets").await;
    rolls(&s, with(deployment("a", 3), steps("200%", 0)), 9, 3).await;
    let second = |it: &Value| (revision(it) == "2").then(|| counter_of(&it["spec"], "replicas"));
    let sizes: Vec<u64> = sets.stop(&s).await.story(second).into_iter().flatten().collect();
    assert!(sizes.iter().all(|it| *it == 3), "{sizes:?}");
}

/// Then one may be missing.
async fn rolls_though_both_limits_round_to_nothing(s: Stage) {
    rolls(&s, with(deployment("a", 3), steps(0, "10%")), 3, 2).await;
}

async fn rolls_on_to_a_third_template_in_the_middle(s: Stage) {
    let d = s.completed(with(deployment("a", 4), steps(1, 1))).await;
    let sets = Tape::of(&s, "replicasets").await;
    let pods = Tape::of(&s, "pods").await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 2)]).await;
    let now = s.rolled(&d, "i:3").await;
    assert_eq!(revision(&now), "3");
    s.sized(&d, &[("i:1", 0), (BAD, 0), ("i:3", 4)]).await;
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

/// What is there of the first template is used again.
async fn rolls_back_in_the_middle(s: Stage) {
    let d = s.completed(with(deployment("a", 4), steps(1, 1))).await;
    let (first, pods) = (s.set_of(&d, "i:1").await, s.pods("i:1").await);
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 2)]).await;
    let kept = s.has_pods("i:1", 3).await;
    let now = s.rolled(&d, "i:1").await;
    assert_eq!(revision(&now), "3");
    s.sized(&d, &[("i:1", 4), (BAD, 0)]).await;
    let set = s.set_of(&d, "i:1").await;
    assert_eq!(set["metadata"]["uid"], first["metadata"]["uid"]);
    let now = names(&s.pods("i:1").await);
    assert!(names(&kept).is_subset(&now), "{now:?}");
    assert_eq!(pods.len(), 4);
}

async fn rolls_through_many_at_once(s: Stage) {
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
    s.looked_at(&d).await;
    assert_eq!(s.sizes(&d).await, sizes);
}

async fn unhealthy_pods_of_the_past_do_not_hold_it_up(s: Stage) {
    let bad = with(with(deployment("a", 4), steps(0, 1)), image(BAD));
    let d = s.create(bad).await;
    s.sized(&d, &[(BAD, 4)]).await;
    s.rolled(&d, "i:2").await;
    s.sized(&d, &[(BAD, 0), ("i:2", 4)]).await;
}

async fn what_is_stuck_keeps_the_rest_available(s: Stage) {
    let d = s.completed(with(deployment("a", 4), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 4), (BAD, 1)]).await;
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
    assert_eq!(said(&now, "Available")[0], "True");
    s.change(&d, image("i:2")).await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 0), (BAD, 0), ("i:2", 4)]).await;
}

async fn an_annotation_of_the_template_is_a_rollout(s: Stage) {
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

async fn an_annotation_of_the_deployment_is_none(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let before = s.all_pods().await;
    let change = annotated(json!({"example.com/note": "a"}));
    s.change(&d, change).await;
    s.looked_at(&d).await;
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

/// Ready is not enough.
async fn new_pods_wait_until_they_are_available(s: Stage) {
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    let wait = json!({"spec": {"minReadySeconds": 500}});
    s.change(&d, with(wait, image("i:2"))).await;
    s.status(&d, "the new one is ready", |status| {
        counter_of(status, "readyReplicas") == 3
    })
    .await;
    let now = s.sized(&d, &[("i:1", 2), ("i:2", 1)]).await;
    assert_eq!(counter_of(&now["status"], "availableReplicas"), 2, "{now:#}");
    // What is old keeps its own.
    assert!(s.set_of(&d, "i:1").await["spec"]["minReadySeconds"].is_null());
    assert_eq!(s.set_of(&d, "i:2").await["spec"]["minReadySeconds"], 500);
    s.change(&d, json!({"spec": {"minReadySeconds": 0}})).await;
    s.complete(&d).await;
    assert!(s.set_of(&d, "i:2").await["spec"]["minReadySeconds"].is_null());
}
