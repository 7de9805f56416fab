//! What others have written on owners and pods survives all that is done to them.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::stage::{Stage, condition, controller, name, names};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(an_owner_keeps_what_others_wrote_on_it),
        each!(an_owner_keeps_what_others_write_while_its_status_is_written),
        each!(conditions_of_others_survive_a_failure),
        each!(a_pod_keeps_what_others_wrote_on_it),
    ]
    .concat()
}

/// What is not the controller's.
fn foreign(object: &Value) -> [Value; 4] {
    let meta = &object["metadata"];
    ["labels", "annotations", "finalizers", "ownerReferences"].map(|field| meta[field].clone())
}

async fn an_owner_keeps_what_others_wrote_on_it(s: Stage) {
    let other = s.bystander("c").await;
    let meta = json!({
        "labels": {"example.com/team": "a"}, "annotations": {"example.com/note": "b"},
        "finalizers": ["example.com/hold"], "ownerReferences": [other],
    });
    let body = with(s.owner_elsewhere("a", 2), json!({"metadata": meta}));
    let owner = s.settled(body).await;
    let before = s.get(&owner).await;
    for pod in s.pods_of(&owner).await {
        s.make_ready(&name(&pod), 10).await;
    }
    s.counts(&owner, "readyReplicas", 2).await;
    // What came in the meantime is kept too.
    s.change(
        &owner,
        json!({"metadata": {"annotations": {"example.com/late": "d"}}}),
    )
    .await;
    for replicas in [4, 1, 0, 2] {
        s.scale(&owner, replicas).await;
        s.counts(&owner, "replicas", replicas.into()).await;
    }
    let now = s.get(&owner).await;
    let wanted = with(
        before.clone(),
        json!({"metadata": {"annotations": {"example.com/late": "d"}}}),
    );
    assert_eq!(foreign(&now), foreign(&wanted));
    assert_eq!(now["spec"], before["spec"]);
}

/// Most writes of the status meet an owner that has changed since it was read.
async fn an_owner_keeps_what_others_write_while_its_status_is_written(s: Stage) {
    // What one of the kinds has by default.
    let labels = json!({"app": "a"});
    let body = with(s.owner_elsewhere("a", 1), json!({"metadata": {"labels": labels}}));
    let owner = s.create(body).await;
    let mut wanted = json!({});
    for round in 0..40_u32 {
        let (key, value) = (format!("example.com/note-{round}"), json!(round.to_string()));
        wanted[&key] = value.clone();
        let meta = json!({"labels": {&key: value}, "annotations": {&key: value}});
        let spec = json!({"replicas": 1 + round % 5});
        s.change(&owner, json!({"metadata": meta, "spec": spec})).await;
    }
    let now = s.counts(&owner, "replicas", 5).await;
    assert_eq!(now["metadata"]["annotations"], wanted, "{now:#}");
    assert_eq!(now["metadata"]["labels"], with(wanted, labels), "{now:#}");
    s.looked_at(&owner).await;
    assert_eq!(s.pods_of(&owner).await.len(), 5);
}

async fn conditions_of_others_survive_a_failure(s: Stage) {
    let foreign = json!({
        "type": "example.com/Liked", "status": "True", "reason": "Nice", "message": "It is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let owner = s.settled(s.owner_elsewhere("a", 1)).await;
    s.change_status(&owner, json!({"conditions": [foreign]})).await;
    for fails in [true, false] {
        // Nobody looks at finalizers before a pod is made of them.
        let finalizers = if fails {
            json!(["unqualified"])
        } else {
            Value::Null
        };
        let template = json!({"metadata": {"finalizers": finalizers}});
        s.change(&owner, json!({"spec": {"template": template, "replicas": 2}}))
            .await;
        let now = s
            .status(&owner, "it fails, and then not", |status| {
                condition(status, "ReplicaFailure").is_some() == fails
            })
            .await;
        let kept = condition(&now["status"], "example.com/Liked");
        assert_eq!(kept, Some(&foreign), "{now:#}");
    }
    s.counts(&owner, "replicas", 2).await;
}

async fn a_pod_keeps_what_others_wrote_on_it(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
    let pods = s.pods_of(&owner).await;
    let (kept, going) = (name(&pods[0]), name(&pods[1]));
    s.make_ready(&kept, 100).await;
    // Pods and owners come by different watches: who has not seen which one is Ready may delete that one.
    s.counts(&owner, "readyReplicas", 1).await;
    for pod in [&kept, &going] {
        let meta = json!({
            "labels": {"example.com/team": "a"}, "annotations": {"example.com/note": "b"},
            "finalizers": ["example.com/hold"],
        });
        s.change_pod(pod, json!({"metadata": meta})).await;
    }
    let before = (s.get_pod(&kept).await, s.get_pod(&going).await);
    s.scale(&owner, 1).await;
    let gone = s
        .pod_is(&going, "is deleted", |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    s.counts(&owner, "replicas", 1).await;
    assert_eq!(foreign(&gone), foreign(&before.1));
    assert_eq!(foreign(&s.get_pod(&kept).await), foreign(&before.0));
    // Out and in again: it is Ready, so that the one that was made in its place has to go.
    for label in ["b", "a"] {
        s.change_pod(&kept, json!({"metadata": {"labels": {"app": label}}}))
            .await;
        s.pod_is(&kept, "is let go or taken", |pod| {
            controller(pod).is_none() == (label == "b")
        })
        .await;
    }
    s.until("the other is gone", async || {
        (names(&s.pods().await) == [kept.clone()].into()).then_some(())
    })
    .await;
    assert_eq!(foreign(&s.get_pod(&kept).await), foreign(&before.0));
}
