//! Pods go gracefully: a bound pod stays until somebody deletes it with a grace period of 0.

use coxswain_tests::{Cluster, Test, test, time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::support::{
    HOLD, MERGE, assert_gone, bound_pod, core, create, finalizers, held, is_marked, lines, pod, version, with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(bound_pod_stays_for_its_period),
        test!(period_of_the_pod_counts_when_none_is_given),
        test!(period_of_the_options_counts_first),
        test!(marking_counts_as_a_generation).since(1, 36),
        test!(shorter_period_counts),
        test!(equal_or_longer_period_changes_nothing),
        test!(period_of_zero_removes),
        test!(period_of_zero_removes_a_marked_pod),
        // 1.20 takes it as it is, and the pod is gone with the next request.
        test!(negative_period_is_one_second).since(1, 36),
        test!(unbound_pod_goes_at_once),
        test!(ended_pod_goes_at_once),
        test!(pod_with_a_period_of_zero_goes_at_once),
        test!(finalizer_holds_beyond_the_period),
        test!(last_finalizer_does_not_cut_the_period_short),
        test!(last_finalizer_after_the_period_removes),
        test!(finalizers_cannot_change_while_the_period_runs),
        test!(finalizers_change_with_a_shorter_period),
        test!(finalizers_change_when_the_period_is_over),
        test!(unbound_pod_with_policy_is_held),
        test!(dry_run_changes_nothing),
        test!(wrong_uid_is_a_conflict_for_a_marked_pod),
        test!(watch_shows_each_step),
        test!(watch_shows_two_steps_of_an_unbound_pod),
    ]
}

/// Creates a pod and returns its path.
async fn made(c: &Cluster, pod: Value) -> String {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    create(c, &path, &pod).await;
    format!("{path}/a")
}

async fn deleted(c: &Cluster, path: &str, options: Value) -> Value {
    let answer = c.api().delete(path, options).await.expect(200);
    assert_eq!(answer["kind"], "Pod", "{answer:#}");
    answer
}

async fn deleted_with(c: &Cluster, path: &str, seconds: i64) -> Value {
    deleted(c, path, json!({"gracePeriodSeconds": seconds})).await
}

#[track_caller]
fn seconds(object: &Value, field: &str) -> i64 {
    let time: Time = serde_json::from_value(object["metadata"][field].clone()).expect("a time");
    time.0.as_second()
}

fn period(object: &Value) -> &Value {
    &object["metadata"]["deletionGracePeriodSeconds"]
}

/// When the pod is to be gone, counted from its creation.
#[track_caller]
fn end(object: &Value) -> i64 {
    seconds(object, "deletionTimestamp") - seconds(object, "creationTimestamp")
}

async fn bound_pod_stays_for_its_period(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let answer = deleted(&c, &path, json!({})).await;
    assert_eq!(period(&answer), 30);
    assert!((30..60).contains(&end(&answer)), "{answer:#}");
    assert_eq!(c.api().get(&path).await.expect(200), answer);
}

async fn period_of_the_pod_counts_when_none_is_given(c: Cluster) {
    let pod = with(bound_pod("a"), "/spec/terminationGracePeriodSeconds", json!(500));
    let path = made(&c, pod).await;
    let answer = deleted(&c, &path, json!({})).await;
    assert_eq!(period(&answer), 500);
    assert!((500..530).contains(&end(&answer)), "{answer:#}");
}

async fn period_of_the_options_counts_first(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let answer = c
        .api()
        .delete(&format!("{path}?gracePeriodSeconds=900"), ())
        .await;
    assert_eq!(period(&answer.expect(200)), 900);
}

/// Pods have a generation since 1.33.
async fn marking_counts_as_a_generation(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let answer = deleted(&c, &path, json!({})).await;
    assert_eq!(answer["metadata"]["generation"], 2);
    let answer = deleted_with(&c, &path, 5).await;
    assert_eq!(answer["metadata"]["generation"], 2);
}

/// Counted from the first deletion, not from now.
async fn shorter_period_counts(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let first = deleted(&c, &path, json!({})).await;
    let second = deleted_with(&c, &path, 10).await;
    assert_eq!(period(&second), 10);
    assert_eq!(end(&second), end(&first) - 20);
    assert!(version(&second) > version(&first));
    assert_eq!(c.api().get(&path).await.expect(200), second);
}

async fn equal_or_longer_period_changes_nothing(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let first = deleted_with(&c, &path, 20).await;
    for options in [
        json!({"gracePeriodSeconds": 20}),
        json!({"gracePeriodSeconds": 60}),
        json!({}),
    ] {
        assert_eq!(deleted(&c, &path, options).await, first);
    }
    assert_eq!(c.api().get(&path).await.expect(200), first);
}

async fn period_of_zero_removes(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let answer = deleted_with(&c, &path, 0).await;
    assert_eq!(period(&answer), 0);
    assert!(is_marked(&answer));
    assert_gone(&c, &path).await;
}

async fn period_of_zero_removes_a_marked_pod(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let begun = time::now();
    let first = deleted(&c, &path, json!({})).await;
    let answer = c
        .api()
        .delete(&format!("{path}?gracePeriodSeconds=0"), ())
        .await
        .expect(200);
    let took = begun.elapsed().as_secs();
    assert_eq!(period(&answer), 0);
    // Counted from the first request, but never in the past: another second may have begun since.
    let early = u64::try_from(end(&answer) - (end(&first) - 30)).expect("not before the first request");
    assert!(early <= took + 1, "{early} s after the first request");
    assert_gone(&c, &path).await;
}

async fn negative_period_is_one_second(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let answer = deleted_with(&c, &path, -5).await;
    assert_eq!(period(&answer), 1);
    assert_eq!(c.api().get(&path).await.expect(200), answer);
}

async fn unbound_pod_goes_at_once(c: Cluster) {
    let path = made(&c, pod("a")).await;
    let answer = deleted_with(&c, &path, 20).await;
    assert_eq!(period(&answer), 0);
    assert!(is_marked(&answer));
    assert_gone(&c, &path).await;
}

async fn ended_pod_goes_at_once(c: Cluster) {
    for phase in ["Failed", "Succeeded"] {
        let path = made(&c, bound_pod("a")).await;
        let change = json!({"status": {"phase": phase}});
        c.api()
            .patch(&format!("{path}/status"), MERGE, change)
            .await
            .expect(200);
        let answer = deleted(&c, &path, json!({})).await;
        assert_eq!(period(&answer), 0, "{phase}");
        assert_gone(&c, &path).await;
    }
    let path = made(&c, bound_pod("a")).await;
    let change = json!({"status": {"phase": "Running"}});
    c.api()
        .patch(&format!("{path}/status"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(period(&deleted(&c, &path, json!({})).await), 30);
}

async fn pod_with_a_period_of_zero_goes_at_once(c: Cluster) {
    let pod = with(bound_pod("a"), "/spec/terminationGracePeriodSeconds", json!(0));
    let path = made(&c, pod).await;
    deleted(&c, &path, json!({})).await;
    assert_gone(&c, &path).await;
}

async fn finalizer_holds_beyond_the_period(c: Cluster) {
    let path = made(&c, held(bound_pod("a"))).await;
    let answer = deleted_with(&c, &path, 0).await;
    assert_eq!((period(&answer), finalizers(&answer)), (&json!(0), vec![HOLD]));
    // Neither a period that is shorter than none nor a longer one changes it.
    assert_eq!(deleted_with(&c, &path, 0).await, answer);
    assert_eq!(deleted_with(&c, &path, 30).await, answer);
}

async fn without_finalizers(c: &Cluster, path: &str) -> Value {
    let change = json!({"metadata": {"finalizers": null}});
    c.api().patch(path, MERGE, change).await.expect(200)
}

async fn last_finalizer_does_not_cut_the_period_short(c: Cluster) {
    let path = made(&c, held(bound_pod("a"))).await;
    assert_eq!(period(&deleted(&c, &path, json!({})).await), 30);
    let answer = without_finalizers(&c, &path).await;
    assert_eq!(period(&answer), 30);
    assert_eq!(c.api().get(&path).await.expect(200), answer);
    deleted_with(&c, &path, 0).await;
    assert_gone(&c, &path).await;
}

async fn last_finalizer_after_the_period_removes(c: Cluster) {
    let path = made(&c, held(bound_pod("a"))).await;
    deleted(&c, &path, json!({})).await;
    let answer = deleted_with(&c, &path, 0).await;
    assert_eq!((period(&answer), finalizers(&answer)), (&json!(0), vec![HOLD]));
    without_finalizers(&c, &path).await;
    assert_gone(&c, &path).await;
}

async fn finalizers_cannot_change_while_the_period_runs(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let first = deleted(&c, &path, json!({})).await;
    let again = deleted(&c, &path, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(again, first);

    let path = made(&c, bound_pod("a")).await;
    let first = deleted(&c, &path, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(
        (period(&first), finalizers(&first)),
        (&json!(30), vec!["foregroundDeletion"])
    );
    let again = deleted(&c, &path, json!({"propagationPolicy": "Background"})).await;
    assert_eq!(again, first);
}

async fn finalizers_change_with_a_shorter_period(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    deleted(&c, &path, json!({"propagationPolicy": "Foreground"})).await;
    let options = json!({"propagationPolicy": "Background", "gracePeriodSeconds": 5});
    let answer = deleted(&c, &path, options).await;
    assert_eq!((period(&answer), finalizers(&answer)), (&json!(5), vec![]));
}

async fn finalizers_change_when_the_period_is_over(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    deleted(&c, &path, json!({"propagationPolicy": "Foreground"})).await;
    let answer = deleted_with(&c, &path, 0).await;
    assert_eq!(
        (period(&answer), finalizers(&answer)),
        (&json!(0), vec!["foregroundDeletion"])
    );
    deleted(&c, &path, json!({"propagationPolicy": "Background"})).await;
    assert_gone(&c, &path).await;
}

async fn unbound_pod_with_policy_is_held(c: Cluster) {
    let path = made(&c, pod("a")).await;
    let answer = deleted(&c, &path, json!({"propagationPolicy": "Orphan"})).await;
    assert_eq!(
        (period(&answer), finalizers(&answer)),
        (&json!(0), vec!["orphan"])
    );
    assert_eq!(c.api().get(&path).await.expect(200), answer);
}

async fn dry_run_changes_nothing(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let before = c.api().get(&path).await.expect(200);
    let answer = c
        .api()
        .delete(&format!("{path}?dryRun=All"), ())
        .await
        .expect(200);
    assert_eq!(period(&answer), 30);
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn wrong_uid_is_a_conflict_for_a_marked_pod(c: Cluster) {
    let path = made(&c, bound_pod("a")).await;
    let first = deleted(&c, &path, json!({})).await;
    let options = json!({"preconditions": {"uid": "other"}, "gracePeriodSeconds": 0});
    c.api().delete(&path, options).await.expect_error(409, "Conflict");
    assert_eq!(c.api().get(&path).await.expect(200), first);
}

async fn watch_shows_each_step(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    let mut watch = c.api().watch(&format!("{path}?watch=1")).await;
    create(&c, &path, &bound_pod("a")).await;
    for period in [30, 10, 10, 0] {
        deleted_with(&c, &format!("{path}/a"), period).await;
    }
    assert_eq!(watch.event().await["type"], "ADDED");
    let mut last = 0;
    for (kind, expected) in [
        ("MODIFIED", 30),
        ("MODIFIED", 10),
        ("MODIFIED", 0),
        ("DELETED", 0),
    ] {
        let object = watch.expect(kind).await;
        assert_eq!(period(&object), expected);
        assert!(version(&object) > last);
        last = version(&object);
    }
}

/// It is marked and then removed: two writes.
async fn watch_shows_two_steps_of_an_unbound_pod(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    let mut watch = c.api().watch(&format!("{path}?watch=1")).await;
    create(&c, &path, &pod("a")).await;
    deleted(&c, &format!("{path}/a"), json!({})).await;
    assert_eq!(lines(&mut watch, 2).await, ["ADDED a", "MODIFIED a"]);
    let removed = watch.expect("DELETED").await;
    assert!(is_marked(&removed));
    assert_eq!(period(&removed), 0);
}
