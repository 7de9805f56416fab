//! The progress deadline.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{
    BAD, NEVER, condition, condition_fields, counter_of, deployment, elsewhere, image, name, reason,
    recreate, steps, text,
};
use super::recorder::WatchRecorder;

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(deadline_is_reported),
        fixture_test!(rollout_continues_after_the_deadline),
        fixture_test!(new_template_restarts_the_deadline),
        fixture_test!(complete_rollout_does_not_exceed_the_deadline),
        fixture_test!(progress_restarts_the_deadline),
        fixture_test!(shorter_deadline_applies_at_once),
        fixture_test!(no_deadline_means_no_progressing_condition),
        fixture_test!(recreate_exceeds_the_deadline),
        fixture_test!(zero_replicas_complete_at_once),
    ]
}

fn deadline(seconds: u64) -> Value {
    json!({"spec": {"progressDeadlineSeconds": seconds}})
}

fn time(object: &Value, kind: &str, field: &str) -> Timestamp {
    let it = condition(&object["status"], kind).unwrap_or_else(|| panic!("no {kind}: {object:#}"));
    text(&it[field]).parse().expect("a time")
}

/// Never too early. The time is printed here, and checked to the second on a paused clock in
/// `suite/deployment/rollouts.rs`.
async fn deadline_is_reported(s: Fixture) {
    let deadline = SignedDuration::from_secs(2);
    let mut times = Vec::new();
    for round in 0..3 {
        let passed = times_out(&s, &format!("a{round}"), deadline).await;
        times.push(passed.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!("timed out {times:.1?} s after the last step, with a deadline of {deadline:#}");
}

/// Returns the time from the last progress to the report.
async fn times_out(s: &Fixture, named: &str, after: SignedDuration) -> SignedDuration {
    let tape = WatchRecorder::of(s, "deployments").await;
    let seconds = u64::try_from(after.as_secs()).expect("seconds");
    let d = s
        .create(with(with(deployment(named, 2), image(BAD)), deadline(seconds)))
        .await;
    let now = s.exceeds_deadline(&d, 2).await;
    let seen = s.now();
    let set = name(&s.set_of(&d, BAD).await);
    let message = format!("ReplicaSet \"{set}\" has timed out progressing.");
    assert_eq!(
        condition_fields(&now, "Progressing"),
        ["False", "ProgressDeadlineExceeded", &message]
    );
    assert_eq!(condition_fields(&now, "Available")[0], "False");
    let recorded = tape.stop(s).await;
    let last = recorded.events.iter().rev().find(|(_, it)| {
        let progresses = condition(&it["status"], "Progressing").is_some_and(|it| it["status"] == "True");
        name(it) == d.name && progresses
    });
    let since = time(
        &last.expect("it was progressing").1,
        "Progressing",
        "lastUpdateTime",
    );
    let passed = seen.duration_since(since);
    assert!(passed >= after, "after {passed:#} already");
    passed
}

async fn rollout_continues_after_the_deadline(s: Fixture) {
    let body = with(
        with(deployment("a", 2), elsewhere()),
        with(deadline(1), steps(1, 0)),
    );
    let d = s.create(body).await;
    s.make_ready("i:1", 2).await;
    s.complete(&d).await;
    s.change(&d, image("i:2")).await;
    let before = s.exceeds_deadline(&d, 1).await;
    assert_eq!(condition_fields(&before, "Available")[0], "True");
    // The next reason stays until it is read.
    s.change(&d, deadline(600)).await;
    s.status(&d, "observed", |_| true).await;
    s.make_ready("i:2", 1).await;
    let now = s.has_reason(&d, "Progressing", "ReplicaSetUpdated").await;
    let message = format!(
        "ReplicaSet \"{}\" is progressing.",
        name(&s.set_of(&d, "i:2").await)
    );
    assert_eq!(
        condition_fields(&now, "Progressing"),
        ["True", "ReplicaSetUpdated", &message]
    );
    let [was, is] = [&before, &now].map(|it| time(it, "Progressing", "lastTransitionTime"));
    assert!(is >= was, "{was} {is}");
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

async fn new_template_restarts_the_deadline(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 2), image(BAD)), deadline(1)))
        .await;
    s.has_reason(&d, "Progressing", "ProgressDeadlineExceeded").await;
    let now = s.rolled_out(&d, "i:2").await;
    assert_eq!(condition_fields(&now, "Progressing")[0], "True");
    s.has_sizes(&d, &[(BAD, 0), ("i:2", 2)]).await;
}

async fn complete_rollout_does_not_exceed_the_deadline(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 2), elsewhere()), deadline(1)))
        .await;
    s.make_ready("i:1", 2).await;
    s.complete(&d).await;
    for pod in s.pods("i:1").await {
        s.change_pod(&pod, json!({"conditions": [s.ready("False")]}))
            .await;
    }
    s.status(&d, "none is available", |status| {
        counter_of(status, "availableReplicas") == 0
    })
    .await;
    // A later Deployment has exceeded its deadline.
    let other = s
        .create(with(with(deployment("b", 1), image(BAD)), deadline(1)))
        .await;
    s.has_reason(&other, "Progressing", "ProgressDeadlineExceeded")
        .await;
    let now = s.get(&d).await;
    assert_eq!(reason(&now, "Progressing"), "NewReplicaSetAvailable");
    assert_eq!(reason(&now, "Available"), "MinimumReplicasUnavailable");
}

async fn progress_restarts_the_deadline(s: Fixture) {
    let body = with(
        with(deployment("a", 3), elsewhere()),
        with(deadline(600), steps(1, 0)),
    );
    let d = s.create(body).await;
    let mut times = Vec::new();
    for ready in 1..3 {
        s.make_ready("i:1", 1).await;
        let now = s
            .status(&d, "one more", |status| {
                counter_of(status, "readyReplicas") == ready
            })
            .await;
        assert_eq!(reason(&now, "Progressing"), "ReplicaSetUpdated");
        times.push(["lastUpdateTime", "lastTransitionTime"].map(|field| time(&now, "Progressing", field)));
        let past = times.last().expect("it was pushed")[0];
        s.until("a second has passed", async || {
            (s.now().duration_since(past) > SignedDuration::from_secs(1)).then_some(())
        })
        .await;
    }
    assert!(times[1][0] > times[0][0], "{times:?}");
    assert_eq!(times[1][1], times[0][1]);
}

async fn shorter_deadline_applies_at_once(s: Fixture) {
    let d = s.create(with(deployment("a", 1), image(BAD))).await;
    s.has_sizes(&d, &[(BAD, 1)]).await;
    let now = s.get(&d).await;
    assert_eq!(condition_fields(&now, "Progressing")[0], "True");
    s.change(&d, deadline(1)).await;
    s.has_reason(&d, "Progressing", "ProgressDeadlineExceeded").await;
}

async fn no_deadline_means_no_progressing_condition(s: Fixture) {
    let tape = WatchRecorder::of(&s, "deployments").await;
    let d = s.completed(with(deployment("a", 1), deadline(NEVER))).await;
    s.rolled_out(&d, "i:2").await;
    let story = tape.stop(&s).await.distinct(|it| reason(it, "Progressing"));
    assert_eq!(story, [""]);
    // The condition appears with a deadline and disappears with it.
    s.change(&d, deadline(600)).await;
    s.has_reason(&d, "Progressing", "NewReplicaSetAvailable").await;
    s.change(&d, deadline(NEVER)).await;
    s.has_reason(&d, "Progressing", "").await;
}

async fn recreate_exceeds_the_deadline(s: Fixture) {
    let body = with(with(deployment("a", 1), elsewhere()), recreate());
    let d = s.create(with(body, deadline(1))).await;
    s.make_ready("i:1", 1).await;
    s.complete(&d).await;
    s.change(&d, image("i:2")).await;
    s.has_pods("i:1", 0).await;
    let end = s.all_pods().await;
    s.end(&end[0]).await;
    s.has_reason(&d, "Progressing", "ProgressDeadlineExceeded").await;
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

async fn zero_replicas_complete_at_once(s: Fixture) {
    let d = s.completed(with(deployment("a", 0), deadline(1))).await;
    let other = s
        .create(with(with(deployment("b", 1), image(BAD)), deadline(1)))
        .await;
    s.has_reason(&other, "Progressing", "ProgressDeadlineExceeded")
        .await;
    assert_eq!(reason(&s.get(&d).await, "Progressing"), "NewReplicaSetAvailable");
}
