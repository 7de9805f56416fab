//! Unusual specs.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{
    BAD, MAX, annotation, controller, counter_of, deployment, elsewhere, image, replica_set, steps,
};
use super::recorder::WatchRecorder;

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(invalid_specs_are_rejected),
        fixture_test!(broad_selector_adopts_only_orphans),
        fixture_test!(max_unavailable_of_all_replaces_all_at_once),
        fixture_test!(max_unavailable_above_replicas_is_capped),
        fixture_test!(large_max_surge_is_accepted),
        fixture_test!(percentages_are_rounded),
        fixture_test!(strategy_may_change_during_a_rollout),
    ]
}

/// An empty selector is one of them.
async fn invalid_specs_are_rejected(s: Fixture) {
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

async fn broad_selector_adopts_only_orphans(s: Fixture) {
    let other = s.completed(deployment("b", 2)).await;
    s.create_set(with(replica_set("c", "c", 1), image("i:c"))).await;
    let selector =
        json!({"matchLabels": null, "matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]});
    let d = s
        .completed(with(deployment("a", 1), json!({"spec": {"selector": selector}})))
        .await;
    // Orphans are adopted, and ReplicaSets with a controller are not.
    assert_eq!(controller(&s.get_set("c").await), Some(&*d.uid));
    s.set_is("c", "is rolled away", |set| set["spec"]["replicas"] == 0)
        .await;
    assert_eq!(s.sets(&other).await.len(), 1);
    s.rolled_out(&other, "i:2").await;
    s.has_sizes(&other, &[("i:1", 0), ("i:2", 2)]).await;
    s.rolled_out(&d, "i:3").await;
}

async fn max_unavailable_of_all_replaces_all_at_once(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 3), elsewhere()), steps(0, "100%")))
        .await;
    s.make_ready("i:1", 3).await;
    s.complete(&d).await;
    let tape = WatchRecorder::of(&s, "replicasets").await;
    s.change(&d, image("i:2")).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 3)]).await;
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

async fn max_unavailable_above_replicas_is_capped(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), steps(0, 10))).await;
    s.change(&d, image(BAD)).await;
    s.has_pods(BAD, 2).await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 2)]).await;
}

async fn large_max_surge_is_accepted(s: Fixture) {
    let d = s
        .completed(with(deployment("a", 2), steps(2_000_000_000, 0)))
        .await;
    let set = s.set_of(&d, "i:1").await;
    assert_eq!(annotation(&set, MAX), "2000000002");
    s.rolled_out(&d, "i:2").await;
    s.scale(&d, 3).await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 3)]).await;
}

async fn percentages_are_rounded(s: Fixture) {
    // maxSurge rounds up to 1, maxUnavailable down to 0.
    let d = s.completed(with(deployment("a", 1), steps("1%", "99%"))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 1), (BAD, 1)]).await;
    assert_eq!(annotation(&s.set_of(&d, BAD).await, MAX), "2");
}

async fn strategy_may_change_during_a_rollout(s: Fixture) {
    let d = s.completed(with(deployment("a", 4), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 4), (BAD, 1)]).await;
    s.change(&d, steps(3, 1)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 4)]).await;
    s.change(&d, steps(0, 2)).await;
    s.has_sizes(&d, &[("i:1", 2), (BAD, 4)]).await;
}
