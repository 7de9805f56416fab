//! Failures to create `ReplicaSet`s or pods.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::{self, MERGE, with};

use super::fixture::Fixture;
use super::objects::{condition, condition_fields, deployment, image, name, replica_set, revision};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(replica_failure_is_reported_and_cleared),
        fixture_test!(failed_rollout_can_be_undone),
        fixture_test!(failing_deployment_does_not_block_another),
        fixture_test!(failed_set_creation_is_reported),
    ]
}

/// A valid template of an invalid pod: finalizers of a template are not validated.
fn refused() -> Value {
    json!({"spec": {"template": {"metadata": {"finalizers": ["unqualified"]}}}})
}

async fn replica_failure_is_reported_and_cleared(s: Fixture) {
    let d = s.create(with(deployment("a", 2), refused())).await;
    let now = s.has_reason(&d, "ReplicaFailure", "FailedCreate").await;
    let sets = s.sets(&d).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(
        condition_fields(&now, "ReplicaFailure"),
        condition_fields(&sets[0], "ReplicaFailure")
    );
    let reported = condition(&now["status"], "ReplicaFailure").expect("a condition");
    let source = condition(&sets[0]["status"], "ReplicaFailure").expect("it fails");
    for time in ["lastUpdateTime", "lastTransitionTime"] {
        assert_eq!(reported[time], source["lastTransitionTime"], "{now:#}");
    }
    assert_eq!(condition_fields(&now, "Available")[0], "False");
    let mended = json!({"spec": {"template": {"metadata": {"finalizers": null}}}});
    s.change(&d, mended).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "2");
    s.has_reason(&d, "ReplicaFailure", "").await;
}

async fn failed_rollout_can_be_undone(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, refused()).await;
    let now = s.has_reason(&d, "ReplicaFailure", "FailedCreate").await;
    assert_eq!(condition_fields(&now, "Available")[0], "True");
    let mended = json!({"spec": {"template": {"metadata": {"finalizers": null}}}});
    s.change(&d, mended).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "3");
    s.has_reason(&d, "ReplicaFailure", "").await;
    assert_eq!(s.pods("i:1").await.len(), 2);
}

async fn failing_deployment_does_not_block_another(s: Fixture) {
    let bad = s.create(with(deployment("a", 3), refused())).await;
    s.has_reason(&bad, "ReplicaFailure", "FailedCreate").await;
    let good = s.completed(deployment("b", 3)).await;
    s.rolled_out(&good, "i:2").await;
}

async fn failed_set_creation_is_reported(s: Fixture) {
    s.create_set(replica_set("other", "other", 0)).await;
    let quotas = fixtures::core(&s.ns, "resourcequotas");
    let hard = json!({"count/replicasets.apps": "1"});
    let quota = with(
        fixtures::named("v1", "ResourceQuota", "q"),
        json!({"spec": {"hard": hard}}),
    );
    s.c.api().post(&quotas, quota).await.expect(201);
    let status = json!({"hard": hard, "used": {"count/replicasets.apps": "1"}});
    if !s.c.has_kcm() {
        // As the replicaset controller, which does not run here, would write it.
        let path = format!("{quotas}/q/status");
        let change = json!({"status": status});
        s.c.api().patch(&path, MERGE, change).await.expect(200);
    }
    s.until("the quota is counted", async || {
        let now = s.c.api().get(&format!("{quotas}/q")).await.expect(200);
        (now["status"] == status).then_some(())
    })
    .await;
    let dry = format!("{}?dryRun=All", s.path("replicasets", ""));
    s.until("the quota is known", async || {
        let set = replica_set("dry", "dry", 0);
        (s.c.api().post(&dry, set).await.status == 403).then_some(())
    })
    .await;

    let d = s.create(deployment("a", 1)).await;
    let now = s.has_reason(&d, "Progressing", "ReplicaSetCreateError").await;
    let [status, _, message] = condition_fields(&now, "Progressing");
    assert_eq!(status, "False");
    let begins = "Failed to create new replica set \"a-";
    assert!(
        message.starts_with(begins) && message.contains("exceeded quota: q"),
        "{message}"
    );
    s.event(&d, "Warning", "ReplicaSetCreateError", &message).await;
    s.c.api().delete(&format!("{quotas}/q"), ()).await.expect(200);
    // The create is retried with backoff, or after an event.
    s.change(&d, image("i:2")).await;
    let now = s.complete(&d).await;
    assert_eq!(name(&now), "a");
}
