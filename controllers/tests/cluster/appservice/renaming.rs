//! Changes of `deploymentName`.

use serde_json::json;
use steersman_harness::{Test, fixtures};

use super::fixture::{Fixture, app};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(previous_deployment_is_deleted_when_the_new_one_is_available),
        fixture_test!(previous_deployment_stays_while_the_new_one_is_unavailable),
        fixture_test!(renaming_back_keeps_the_original_deployment),
        fixture_test!(renaming_to_a_foreign_deployment_and_back),
    ]
}

async fn previous_deployment_is_deleted_when_the_new_one_is_available(s: Fixture) {
    for policy in ["Delete", "Orphan"] {
        let name = policy.to_lowercase();
        let (old, new) = (format!("{name}-1"), format!("{name}-2"));
        s.create_ready(app(
            &name,
            json!({"deploymentName": old, "deletionPolicy": policy}),
        ))
        .await;
        s.patch_spec(&name, json!({"deploymentName": new})).await;
        s.wait_deleted("deployments", &old).await;
        assert_eq!(s.get("deployments", &new).await["status"]["availableReplicas"], 2);
        s.wait_ready(&name).await;
    }
}

async fn previous_deployment_stays_while_the_new_one_is_unavailable(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    // Pods of this image never become ready.
    s.patch_spec("a", json!({"deploymentName": "b", "image": "i:404"}))
        .await;
    s.wait_until("the new Deployment exists", async || {
        let it = s.read("deployments", "b").await;
        (it.status == 200 && it.json()["status"]["updatedReplicas"] == 2).then_some(())
    })
    .await;
    s.create_ready(app("other", json!({}))).await;
    assert_eq!(s.get("deployments", "a").await["status"]["availableReplicas"], 2);
    s.patch_spec("a", json!({"image": "i:1"})).await;
    s.wait_deleted("deployments", "a").await;
    s.wait_ready("a").await;
}

async fn renaming_back_keeps_the_original_deployment(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    let first = s.get("deployments", "a").await["metadata"]["uid"].clone();
    // Pods of this image never become ready, so the first Deployment is kept.
    for name in ["b", "c"] {
        s.patch_spec("a", json!({"deploymentName": name, "image": "i:404"}))
            .await;
        s.wait_until("the next Deployment exists", async || {
            (s.read("deployments", name).await.status == 200).then_some(())
        })
        .await;
    }
    s.patch_spec("a", json!({"deploymentName": "a", "image": "i:1"}))
        .await;
    for name in ["b", "c"] {
        s.wait_deleted("deployments", name).await;
    }
    let now = s.wait_ready("a").await;
    assert_eq!(now["status"]["availableReplicas"], 2);
    assert_eq!(s.get("deployments", "a").await["metadata"]["uid"], first);
    s.patch_spec("a", json!({"deploymentName": "b"})).await;
    s.wait_deleted("deployments", "a").await;
    s.wait_ready("a").await;
}

async fn renaming_to_a_foreign_deployment_and_back(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    let first = s.get("deployments", "a").await["metadata"]["uid"].clone();
    let theirs = s.create("deployments", fixtures::deployment("theirs")).await;
    s.patch_spec("a", json!({"deploymentName": "theirs"})).await;
    s.wait_stalled("a", "ErrResourceExists").await;
    s.create_ready(app("other", json!({}))).await;
    assert_eq!(s.get("deployments", "a").await["metadata"]["uid"], first, "kept");
    let after = s.get("deployments", "theirs").await;
    assert_eq!(after["spec"], theirs["spec"]);
    assert!(after["metadata"].get("ownerReferences").is_none() && after["metadata"].get("labels").is_none());
    s.patch_spec("a", json!({"deploymentName": "a"})).await;
    s.wait_ready("a").await;
    assert_eq!(s.get("deployments", "a").await["metadata"]["uid"], first);
    assert_eq!(s.read("deployments", "theirs").await.status, 200);
}
