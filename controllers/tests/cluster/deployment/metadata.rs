//! Metadata of other clients is kept.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    BAD, DESIRED, MAX, REVISION, annotated, condition, controller, deployment, image, image_of, name, steps,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(foreign_metadata_of_a_deployment_is_kept),
        fixture_test!(foreign_metadata_of_a_set_is_kept),
    ]
}

/// Returns the metadata that the controller does not own.
fn foreign(object: &Value) -> [Value; 4] {
    let ours = json!({
        REVISION: null, DESIRED: null, MAX: null, "deployment.kubernetes.io/revision-history": null,
    });
    let meta = with(object["metadata"].clone(), json!({"annotations": ours}));
    ["labels", "annotations", "finalizers", "ownerReferences"].map(|field| meta[field].clone())
}

fn theirs() -> Value {
    json!({
        "labels": {"example.com/team": "a"}, "annotations": {"example.com/own": "b"},
        "finalizers": ["example.com/hold"],
    })
}

/// Rolls, scales, stalls, pauses, resumes and rolls back a Deployment.
async fn everything(s: &Fixture, d: &Deployment) {
    s.rolled_out(d, "i:2").await;
    s.scale(d, 4).await;
    s.complete(d).await;
    s.change(d, image(BAD)).await;
    s.has_pods(BAD, 1).await;
    s.change(d, json!({"spec": {"paused": true, "replicas": 6}}))
        .await;
    s.has_reason(d, "Progressing", "DeploymentPaused").await;
    s.synced(d).await;
    s.change(d, json!({"spec": {"paused": false, "replicas": 2}}))
        .await;
    s.change(d, image("i:1")).await;
    s.complete(d).await;
    s.change(d, annotated(json!({"deprecated.deployment.rollback.to": "2"})))
        .await;
    s.until("it is rolled back", async || {
        let now = s.get(d).await;
        (image_of(&now["spec"]["template"]) == "i:2").then_some(())
    })
    .await;
    s.complete(d).await;
}

async fn foreign_metadata_of_a_deployment_is_kept(s: Fixture) {
    let meta = with(theirs(), json!({"ownerReferences": [s.other_owner().await]}));
    let d = s
        .completed(with(
            with(deployment("a", 2), json!({"metadata": meta})),
            steps(1, 0),
        ))
        .await;
    let before = s.get(&d).await;
    let liked = json!({
        "type": "example.com/Liked", "status": "True", "reason": "Nice", "message": "It is",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut conditions = before["status"]["conditions"].clone();
    conditions.as_array_mut().expect("a list").push(liked.clone());
    s.change_status(&d, json!({"conditions": conditions})).await;
    everything(&s, &d).await;
    let now = s.get(&d).await;
    assert_eq!(foreign(&now), foreign(&before));
    assert_eq!(condition(&now["status"], "example.com/Liked"), Some(&liked));
    let without = json!({"replicas": null, "template": null, "progressDeadlineSeconds": null});
    assert_eq!(
        with(now["spec"].clone(), without.clone()),
        with(before["spec"].clone(), without)
    );
}

async fn foreign_metadata_of_a_set_is_kept(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    let set = name(&s.set_of(&d, "i:1").await);
    let reference = s.other_owner().await;
    let own = s.get_set(&set).await["metadata"]["ownerReferences"][0].clone();
    let meta = with(theirs(), json!({"ownerReferences": [own, reference]}));
    let before = s.change_set(&set, json!({"metadata": meta})).await;
    everything(&s, &d).await;
    let now = s.get_set(&set).await;
    assert_eq!(foreign(&now), foreign(&before));
    for part in ["selector", "template"] {
        assert_eq!(now["spec"][part], before["spec"][part]);
    }
    assert_eq!(controller(&now), Some(&*d.uid));
}
