//! Release of `ReplicaSet`s, and deletion of Deployments.

use serde_json::json;
use steersman_harness::fixtures::{self, with};
use steersman_harness::{Need, Test};

use super::fixture::Fixture;
use super::objects::{BAD, controller, counter_of, deployment, elsewhere, image, name, names};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(set_that_does_not_match_is_released),
        fixture_test!(release_keeps_other_owner_references),
        fixture_test!(terminating_deployment_only_writes_its_status),
        fixture_test!(deleted_deployment_changes_nothing),
        fixture_test!(terminating_namespace_deletes_the_deployment).needs(Need::Kcm),
    ]
}

async fn set_that_does_not_match_is_released(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled_out(&d, "i:2").await;
    let old = s.set_of(&d, "i:1").await;
    s.change_set(&name(&old), json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    let now = s
        .set_is(&name(&old), "is released", |set| controller(set).is_none())
        .await;
    assert!(now["metadata"]["ownerReferences"].is_null(), "{now:#}");
    assert_eq!(now["metadata"]["annotations"], old["metadata"]["annotations"]);
    s.synced(&d).await;
    assert_eq!(s.sets(&d).await.len(), 1);
    // It is adopted again.
    s.change_set(&name(&old), json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    s.set_is(&name(&old), "is taken", |set| controller(set) == Some(&*d.uid))
        .await;
}

async fn release_keeps_other_owner_references(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled_out(&d, "i:2").await;
    let old = s.set_of(&d, "i:1").await;
    let foreign = s.other_owner().await;
    let ours = old["metadata"]["ownerReferences"][0].clone();
    let change = json!({"metadata": {
        "labels": {"app": "b"}, "ownerReferences": [ours, foreign], "finalizers": ["example.com/hold"],
    }});
    s.change_set(&name(&old), change).await;
    let now = s
        .set_is(&name(&old), "is released", |set| controller(set).is_none())
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([foreign]));
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/hold"]));
}

async fn terminating_deployment_only_writes_its_status(s: Fixture) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let d = s.create(with(with(deployment("a", 2), elsewhere()), held)).await;
    s.make_ready("i:1", 2).await;
    s.complete(&d).await;
    let set = s.set_of(&d, "i:1").await;
    s.delete(&d).await;
    s.change(&d, with(image("i:2"), json!({"spec": {"replicas": 5}})))
        .await;
    s.status(&d, "observed", |_| true).await;
    // Nothing is scaled, but the status is updated.
    for pod in s.pods("i:1").await.iter().take(1) {
        s.change_pod(pod, json!({"conditions": [s.ready("False")]})).await;
    }
    s.status(&d, "one is missing", |status| {
        counter_of(status, "availableReplicas") == 1
    })
    .await;
    assert_eq!(s.sets(&d).await.len(), 1);
    let now = s.get_set(&name(&set)).await;
    assert_eq!(now["spec"], set["spec"]);
    assert_eq!(now["metadata"]["annotations"], set["metadata"]["annotations"]);
    // A deleted ReplicaSet is not created again.
    s.delete_set(&name(&set)).await;
    s.status(&d, "it has none", |status| counter_of(status, "replicas") == 0)
        .await;
    assert!(s.sets(&d).await.is_empty());
}

async fn deleted_deployment_changes_nothing(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 2), (BAD, 1)]).await;
    let before = s.sets(&d).await;
    for set in &before {
        s.add_finalizer(&name(set)).await;
    }
    s.delete(&d).await;
    s.c.api().get(&d.path).await.expect_error(404, "NotFound");
    // Changes of its former ReplicaSets have no effect.
    for set in &before {
        let path = fixtures::apps(&s.ns, "replicasets");
        let path = format!("{path}/{}/status", name(set));
        let lie = json!({"status": {"replicas": 9}});
        s.c.api().patch(&path, fixtures::MERGE, lie).await.expect(200);
    }
    let other = s.completed(deployment("b", 1)).await;
    s.synced(&other).await;
    let now = s.sets(&d).await;
    assert_eq!(names(&now), names(&before));
    for (now, before) in now.iter().zip(&before) {
        assert_eq!(now["spec"], before["spec"]);
    }
}

/// Nothing is created in the terminating namespace.
async fn terminating_namespace_deletes_the_deployment(s: Fixture) {
    let d = s.completed(deployment("a", 3)).await;
    s.change(&d, image("i:2")).await;
    let path = format!("/api/v1/namespaces/{}", s.ns);
    s.c.api().delete(&path, ()).await.expect(200);
    s.until("it is gone", async || {
        (s.c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
}
