//! Another Deployment for the same `AppService`.

use coxswain_tests::{Test, fixtures};
use serde_json::json;

use super::stage::{Stage, app};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(the_old_one_goes_when_the_new_one_is_available),
        staged!(the_old_one_stays_while_the_new_one_is_not),
        staged!(there_and_back),
        staged!(to_one_that_is_not_its_own_and_back),
    ]
}

async fn the_old_one_goes_when_the_new_one_is_available(s: Stage) {
    for policy in ["Delete", "Orphan"] {
        let name = policy.to_lowercase();
        let (old, new) = (format!("{name}-1"), format!("{name}-2"));
        s.serve(app(
            &name,
            json!({"deploymentName": old, "deletionPolicy": policy}),
        ))
        .await;
        s.want(&name, json!({"deploymentName": new})).await;
        s.gone("deployments", &old).await;
        assert_eq!(s.get("deployments", &new).await["status"]["availableReplicas"], 2);
        s.ready(&name).await;
    }
}

async fn the_old_one_stays_while_the_new_one_is_not(s: Stage) {
    s.serve(app("a", json!({}))).await;
    // Pods of this image never become ready.
    s.want("a", json!({"deploymentName": "b", "image": "i:404"}))
        .await;
    s.until("there is a new one", async || {
        let it = s.read("deployments", "b").await;
        (it.status == 200 && it.json()["status"]["updatedReplicas"] == 2).then_some(())
    })
    .await;
    s.serve(app("other", json!({}))).await;
    assert_eq!(s.get("deployments", "a").await["status"]["availableReplicas"], 2);
    s.want("a", json!({"image": "i:1"})).await;
    s.gone("deployments", "a").await;
    s.ready("a").await;
}

async fn there_and_back(s: Stage) {
    s.serve(app("a", json!({}))).await;
    let first = s.get("deployments", "a").await["metadata"]["uid"].clone();
    // Nothing of these becomes ready: what serves is the first one, all the time.
    for name in ["b", "c"] {
        s.want("a", json!({"deploymentName": name, "image": "i:404"}))
            .await;
        s.until("there is another one", async || {
            (s.read("deployments", name).await.status == 200).then_some(())
        })
        .await;
    }
    s.want("a", json!({"deploymentName": "a", "image": "i:1"})).await;
    for name in ["b", "c"] {
        s.gone("deployments", name).await;
    }
    let now = s.ready("a").await;
    assert_eq!(now["status"]["availableReplicas"], 2);
    assert_eq!(s.get("deployments", "a").await["metadata"]["uid"], first);
    s.want("a", json!({"deploymentName": "b"})).await;
    s.gone("deployments", "a").await;
    s.ready("a").await;
}

async fn to_one_that_is_not_its_own_and_back(s: Stage) {
    s.serve(app("a", json!({}))).await;
    let first = s.get("deployments", "a").await["metadata"]["uid"].clone();
    let theirs = s.create("deployments", fixtures::deployment("theirs")).await;
    s.want("a", json!({"deploymentName": "theirs"})).await;
    s.stalled("a", "ErrResourceExists").await;
    s.serve(app("other", json!({}))).await;
    assert_eq!(
        s.get("deployments", "a").await["metadata"]["uid"],
        first,
        "it stays"
    );
    let after = s.get("deployments", "theirs").await;
    assert_eq!(after["spec"], theirs["spec"]);
    assert!(after["metadata"].get("ownerReferences").is_none() && after["metadata"].get("labels").is_none());
    s.want("a", json!({"deploymentName": "a"})).await;
    s.ready("a").await;
    assert_eq!(s.get("deployments", "a").await["metadata"]["uid"], first);
    assert_eq!(s.read("deployments", "theirs").await.status, 200);
}
