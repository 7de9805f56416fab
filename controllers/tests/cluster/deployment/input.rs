//! What people ask for.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, MAX, annotation, controller, counter_of, deployment, elsewhere, image, replica_set, steps,
};
use super::stage::Stage;
use super::tape::Tape;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(some_things_cannot_be_asked_for),
        staged!(a_selector_of_nearly_everything_takes_no_more_than_it_may),
        staged!(all_may_be_missing),
        staged!(more_may_be_missing_than_there_are),
        staged!(a_surge_may_be_enormous),
        staged!(percentages_of_few_are_rounded),
        staged!(limits_may_change_in_the_middle),
    ]
}

/// So that nobody has to say what they would mean: a selector of everything is one of them.
async fn some_things_cannot_be_asked_for(s: Stage) {
    let everything = json!({"spec": {"selector": {"matchLabels": null}}});
    for (change, field) in [
        (everything, "spec.selector"),
        (steps(0, 0), "spec.strategy.rollingUpdate.maxUnavailable"),
        (steps(0, "101%"), "spec.strategy.rollingUpdate.maxUnavailable"),
        (
            json!({"spec": {"minReadySeconds": 600}}),
            "spec.progressDeadlineSeconds",
        ),
    ] {
        let body = with(deployment("a", 1), change);
        let refused = s.c.api().post(&s.path("deployments", ""), body).await;
        refused.expect_error(422, "Invalid");
        let causes = refused.causes();
        assert!(causes.iter().any(|it| it.field == field), "{causes:?}");
    }
}

async fn a_selector_of_nearly_everything_takes_no_more_than_it_may(s: Stage) {
    let other = s.completed(deployment("b", 2)).await;
    s.create_set(with(replica_set("c", "c", 1), image("i:c"))).await;
    let selector =
        json!({"matchLabels": null, "matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]});
    let d = s
        .completed(with(deployment("a", 1), json!({"spec": {"selector": selector}})))
        .await;
    // What was nobody's is its own now, and what was somebody's is not.
    assert_eq!(controller(&s.get_set("c").await), Some(&*d.uid));
    s.set_is("c", "is rolled away", |set| set["spec"]["replicas"] == 0)
        .await;
    assert_eq!(s.sets(&other).await.len(), 1);
    s.rolled(&other, "i:2").await;
    s.sized(&other, &[("i:1", 0), ("i:2", 2)]).await;
    s.rolled(&d, "i:3").await;
}

/// They go at once, and the new ones come at once.
async fn all_may_be_missing(s: Stage) {
    let d = s
        .create(with(with(deployment("a", 3), elsewhere()), steps(0, "100%")))
        .await;
    s.make_ready("i:1", 3).await;
    s.complete(&d).await;
    let tape = Tape::of(&s, "replicasets").await;
    s.change(&d, image("i:2")).await;
    s.sized(&d, &[("i:1", 0), ("i:2", 3)]).await;
    let mut highest = 0;
    tape.stop(&s).await.replay(|now| {
        let total = now
            .values()
            .map(|set: &Value| counter_of(&set["spec"], "replicas"))
            .sum();
        highest = highest.max(total);
    });
    assert_eq!(highest, 3);
}

async fn more_may_be_missing_than_there_are(s: Stage) {
    let d = s.completed(with(deployment("a", 2), steps(0, 10))).await;
    s.change(&d, image(BAD)).await;
    s.has_pods(BAD, 2).await;
    s.sized(&d, &[("i:1", 0), (BAD, 2)]).await;
}

async fn a_surge_may_be_enormous(s: Stage) {
    let d = s
        .completed(with(deployment("a", 2), steps(2_000_000_000, 0)))
        .await;
    let set = s.set_of(&d, "i:1").await;
    assert_eq!(annotation(&set, MAX), "2000000002");
    s.rolled(&d, "i:2").await;
    s.scale(&d, 3).await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 0), ("i:2", 3)]).await;
}

async fn percentages_of_few_are_rounded(s: Stage) {
    // Up to 1, and down to 0.
    let d = s.completed(with(deployment("a", 1), steps("1%", "99%"))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 1), (BAD, 1)]).await;
    assert_eq!(annotation(&s.set_of(&d, BAD).await, MAX), "2");
}

async fn limits_may_change_in_the_middle(s: Stage) {
    let d = s.completed(with(deployment("a", 4), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 4), (BAD, 1)]).await;
    s.change(&d, steps(3, 1)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 4)]).await;
    s.change(&d, steps(0, 2)).await;
    s.sized(&d, &[("i:1", 2), (BAD, 4)]).await;
}
