//! What others have written on Deployments and `ReplicaSet`s survives all that is done to them.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, DESIRED, MAX, REVISION, annotated, condition, controller, deployment, image, image_of, name, steps,
};
use super::stage::{Deployment, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(a_deployment_keeps_what_others_wrote_on_it),
        staged!(a_replica_set_keeps_what_others_wrote_on_it),
    ]
}

/// What is not the controller's.
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

/// All that can be done to one: it is rolled, scaled, stuck, paused, resumed and rolled back.
async fn everything(s: &Stage, d: &Deployment) {
    s.rolled(d, "i:2").await;
    s.scale(d, 4).await;
    s.complete(d).await;
    s.change(d, image(BAD)).await;
    s.has_pods(BAD, 1).await;
    s.change(d, json!({"spec": {"paused": true, "replicas": 6}}))
        .await;
    s.says(d, "Progressing", "DeploymentPaused").await;
    s.looked_at(d).await;
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

async fn a_deployment_keeps_what_others_wrote_on_it(s: Stage) {
    let meta = with(theirs(), json!({"ownerReferences": [s.bystander().await]}));
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

async fn a_replica_set_keeps_what_others_wrote_on_it(s: Stage) {
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    let set = name(&s.set_of(&d, "i:1").await);
    let reference = s.bystander().await;
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
