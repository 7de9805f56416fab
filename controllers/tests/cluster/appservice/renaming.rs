//! Another Deployment for the same `AppService`.

use coxswain_tests::Test;
use serde_json::json;

use super::stage::{Stage, app};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(the_old_one_goes_when_the_new_one_is_available),
        staged!(the_old_one_stays_while_the_new_one_is_not),
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
