//! Eviction: a delete that asks the budgets first. Their status is written by the tests, as no controller runs.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{MERGE, budget, budgets, named, policy, with},
    test,
};
use serde_json::{Value, json};

use super::{create, success};
use crate::expect::{bad_request, not_found, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(eviction_removes_an_unscheduled_pod),
        test!(eviction_marks_a_scheduled_pod),
        test!(eviction_checks_name_and_preconditions),
        test!(eviction_dry_run_changes_nothing),
        test!(eviction_waits_for_a_new_budget),
        test!(eviction_over_budget_is_429),
        test!(eviction_within_budget_takes_one),
        test!(eviction_of_a_pending_pod_needs_no_budget),
        test!(eviction_with_two_budgets_is_an_error),
    ]
}

async fn evict(c: &Cluster, path: &str, change: Value) -> Reply {
    let body = with(named(policy(c), "Eviction", "a"), change);
    c.api().post(&format!("{path}/eviction"), body).await
}

async fn eviction_removes_an_unscheduled_pod(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    success(&evict(&c, &path, json!({})).await);
    not_found(&c.api().get(&path).await, "pods", "a");
    not_found(&evict(&c, &path, json!({})).await, "pods", "a");
}

async fn eviction_marks_a_scheduled_pod(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({"nodeName": "n"})).await;
    success(&evict(&c, &path, json!({})).await);
    let read = c.api().get(&path).await.expect(200);
    assert!(read["metadata"]["deletionTimestamp"].is_string(), "{read:#}");
    assert_eq!(read["metadata"]["deletionGracePeriodSeconds"], 30);
    if c.version() >= (1, 26) {
        let condition = &read["status"]["conditions"][0];
        assert_eq!(
            (&condition["type"], &condition["status"]),
            (&json!("DisruptionTarget"), &json!("True"))
        );
        assert_eq!(condition["reason"], "EvictionByEvictionAPI");
        assert_eq!(condition["message"], "Eviction API: evicting");
    }
    success(&evict(&c, &path, json!({})).await);
    success(&evict(&c, &path, json!({"deleteOptions": {"gracePeriodSeconds": 0}})).await);
    not_found(&c.api().get(&path).await, "pods", "a");
}

async fn eviction_checks_name_and_preconditions(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let reply = evict(&c, &path, json!({"metadata": {"name": "b"}})).await;
    bad_request(&reply, "name in URL does not match name in Eviction object");
    let reply = evict(
        &c,
        &path,
        json!({"deleteOptions": {"preconditions": {"uid": "other"}}}),
    )
    .await;
    reply.expect_error(409, "Conflict");
    let uid = before["metadata"]["uid"].as_str().expect("a uid");
    let message = format!(
        "Operation cannot be fulfilled on Pod \"a\": the UID in the precondition (other) does not match the UID in record \
         ({uid}). The object might have been deleted and then recreated"
    );
    reply.check(reply.message() == message, &format!("expected {message}"));
    unchanged(&c, &path, &before).await;
}

async fn eviction_dry_run_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let body = named(policy(&c), "Eviction", "a");
    success(&c.api().post(&format!("{path}/eviction?dryRun=All"), body).await);
    success(&evict(&c, &path, json!({"deleteOptions": {"dryRun": ["All"]}})).await);
    unchanged(&c, &path, &before).await;
}

/// A running, ready pod `a` and a budget `p` for it, with this status if any.
async fn guarded(c: &Cluster, ns: &str, status: Option<Value>) -> (String, String) {
    let path = create(c, ns, json!({"nodeName": "n"})).await;
    let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    c.api()
        .patch(&format!("{path}/status"), MERGE, json!({"status": running}))
        .await
        .expect(200);
    c.api().post(&budgets(c, ns), budget(c, "p")).await.expect(201);
    let guard = format!("{}/p", budgets(c, ns));
    if let Some(status) = status {
        let status = with(status, json!({"observedGeneration": 1}));
        c.api()
            .patch(&format!("{guard}/status"), MERGE, json!({"status": status}))
            .await
            .expect(200);
    }
    (path, guard)
}

#[track_caller]
fn over_budget(reply: &Reply, cause: &str) {
    reply.expect_error(429, "TooManyRequests");
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    reply.check(reply.message() == message, &format!("expected {message}"));
    let causes = reply.causes();
    let found = causes.len() == 1 && causes[0].reason == "DisruptionBudget" && causes[0].message == cause;
    reply.check(found, &format!("expected the cause {cause}"));
}

async fn eviction_waits_for_a_new_budget(c: Cluster) {
    let ns = c.namespace().await;
    let (path, _) = guarded(&c, &ns, None).await;
    let before = c.api().get(&path).await.expect(200);
    let reply = evict(&c, &path, json!({})).await;
    over_budget(
        &reply,
        "The disruption budget p is still being processed by the server.",
    );
    if speaks_1_36(&c) {
        reply.check(
            reply.json()["details"]["retryAfterSeconds"] == 10,
            "expected a time to retry",
        );
        reply.check(
            reply.header("retry-after") == Some("10"),
            "expected it in a header too",
        );
    }
    unchanged(&c, &path, &before).await;
}

async fn eviction_over_budget_is_429(c: Cluster) {
    let ns = c.namespace().await;
    let status =
        json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1});
    let (path, guard) = guarded(&c, &ns, Some(status)).await;
    let (before, budget) = (
        c.api().get(&path).await.expect(200),
        c.api().get(&guard).await.expect(200),
    );
    let reply = evict(&c, &path, json!({})).await;
    over_budget(
        &reply,
        "The disruption budget p needs 1 healthy pods and has 1 currently",
    );
    reply.check(reply.header("retry-after").is_none(), "no time to retry");
    unchanged(&c, &path, &before).await;
    unchanged(&c, &guard, &budget).await;
    // A plain delete does not ask.
    c.api()
        .delete(&path, json!({"gracePeriodSeconds": 0}))
        .await
        .expect(200);
}

async fn eviction_within_budget_takes_one(c: Cluster) {
    let ns = c.namespace().await;
    let status =
        json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2});
    let (path, guard) = guarded(&c, &ns, Some(status)).await;
    let before = c.api().get(&guard).await.expect(200);
    let body = named(policy(&c), "Eviction", "a");
    success(&c.api().post(&format!("{path}/eviction?dryRun=All"), body).await);
    unchanged(&c, &guard, &before).await;
    success(&evict(&c, &path, json!({})).await);
    let after = c.api().get(&guard).await.expect(200);
    assert_eq!(after["status"]["disruptionsAllowed"], 0);
    assert!(after["status"]["disruptedPods"]["a"].is_string(), "{after:#}");
    assert_eq!(
        after["status"]["currentHealthy"], 2,
        "the rest is left to the controller"
    );
    if c.version() >= (1, 21) {
        let condition = &after["status"]["conditions"][0];
        assert_eq!(
            (&condition["type"], &condition["status"]),
            (&json!("DisruptionAllowed"), &json!("False"))
        );
        assert_eq!(condition["reason"], "InsufficientPods");
    }
    let read = c.api().get(&path).await.expect(200);
    assert!(read["metadata"]["deletionTimestamp"].is_string(), "{read:#}");
}

async fn eviction_of_a_pending_pod_needs_no_budget(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    c.api().post(&budgets(&c, &ns), budget(&c, "p")).await.expect(201);
    success(&evict(&c, &path, json!({})).await);
    not_found(&c.api().get(&path).await, "pods", "a");
}

async fn eviction_with_two_budgets_is_an_error(c: Cluster) {
    let ns = c.namespace().await;
    let (path, _) = guarded(&c, &ns, None).await;
    c.api().post(&budgets(&c, &ns), budget(&c, "q")).await.expect(201);
    let reply = evict(&c, &path, json!({})).await;
    reply.expect_error(500, "");
    let message =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    reply.check(reply.message() == message, &format!("expected {message}"));
}
