//! `ReplicaSet`s that cannot be made, or cannot make pods.

use coxswain_tests::Test;
use coxswain_tests::fixtures::{self, MERGE, with};
use serde_json::{Value, json};

use super::objects::{condition, deployment, image, name, replica_set, revision, said};
use super::stage::Stage;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(pods_that_cannot_be_made_are_told_and_mended),
        staged!(the_way_back_is_open),
        staged!(one_that_fails_does_not_hold_up_another),
        staged!(a_replica_set_that_cannot_be_made_is_told),
    ]
}

/// A template that is fine, until a pod is made of it: nobody looks at the finalizers in it.
fn refused() -> Value {
    json!({"spec": {"template": {"metadata": {"finalizers": ["unqualified"]}}}})
}

async fn pods_that_cannot_be_made_are_told_and_mended(s: Stage) {
    let d = s.create(with(deployment("a", 2), refused())).await;
    let now = s.says(&d, "ReplicaFailure", "FailedCreate").await;
    let sets = s.sets(&d).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(said(&now, "ReplicaFailure"), said(&sets[0], "ReplicaFailure"));
    let told = condition(&now["status"], "ReplicaFailure").expect("it is told");
    let source = condition(&sets[0]["status"], "ReplicaFailure").expect("it fails");
    for time in ["lastUpdateTime", "lastTransitionTime"] {
        assert_eq!(told[time], source["lastTransitionTime"], "{now:#}");
    }
    assert_eq!(said(&now, "Available")[0], "False");
    let mended = json!({"spec": {"template": {"metadata": {"finalizers": null}}}});
    s.change(&d, mended).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "2");
    s.says(&d, "ReplicaFailure", "").await;
}

async fn the_way_back_is_open(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, refused()).await;
    let now = s.says(&d, "ReplicaFailure", "FailedCreate").await;
    assert_eq!(said(&now, "Available")[0], "True");
    let mended = json!({"spec": {"template": {"metadata": {"finalizers": null}}}});
    s.change(&d, mended).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "3");
    s.says(&d, "ReplicaFailure", "").await;
    assert_eq!(s.pods("i:1").await.len(), 2);
}

async fn one_that_fails_does_not_hold_up_another(s: Stage) {
    let bad = s.create(with(deployment("a", 3), refused())).await;
    s.says(&bad, "ReplicaFailure", "FailedCreate").await;
    let good = s.completed(deployment("b", 3)).await;
    s.rolled(&good, "i:2").await;
}

async fn a_replica_set_that_cannot_be_made_is_told(s: Stage) {
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
        // What its controller would write, which does not run here.
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
    let now = s.says(&d, "Progressing", "ReplicaSetCreateError").await;
    let [status, _, message] = said(&now, "Progressing");
    assert_eq!(status, "False");
    let begins = "Failed to create new replica set \"a-";
    assert!(
        message.starts_with(begins) && message.contains("exceeded quota: q"),
        "{message}"
    );
    s.event(&d, "Warning", "ReplicaSetCreateError", &message).await;
    s.c.api().delete(&format!("{quotas}/q"), ()).await.expect(200);
    // It is tried again by itself, after a while; or now, if there is a reason.
    s.change(&d, image("i:2")).await;
    let now = s.complete(&d).await;
    assert_eq!(name(&now), "a");
}
