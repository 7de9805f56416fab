//! Metadata and conditions of other clients survive all writes.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Fixture, condition, controller, name, names};

pub fn tests() -> Vec<Test> {
    [
        each!(owner_keeps_metadata_of_other_clients),
        each!(owner_keeps_concurrent_changes_of_other_clients),
        each!(conditions_of_other_clients_survive_a_failure),
        each!(pod_keeps_metadata_of_other_clients),
    ]
    .concat()
}

/// The metadata of other clients.
fn foreign(object: &Value) -> [Value; 4] {
    let meta = &object["metadata"];
    ["labels", "annotations", "finalizers", "ownerReferences"].map(|field| meta[field].clone())
}

async fn owner_keeps_metadata_of_other_clients(s: Fixture) {
    let other = s.bystander("c").await;
    let meta = json!({
        "labels": {"example.com/team": "a"}, "annotations": {"example.com/note": "b"},
        "finalizers": ["example.com/hold"], "ownerReferences": [other],
    });
    let body = with(s.owner_on_unmanaged_node("a", 2), json!({"metadata": meta}));
    let owner = s.settled(body).await;
    let before = s.get(&owner).await;
    for pod in s.pods_of(&owner).await {
        s.make_ready(&name(&pod), 10).await;
    }
    s.counts(&owner, "readyReplicas", 2).await;
    // Later changes are kept too.
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

/// Most status writes conflict.
async fn owner_keeps_concurrent_changes_of_other_clients(s: Fixture) {
    // The defaults of one of the kinds.
    let labels = json!({"app": "a"});
    let body = with(
        s.owner_on_unmanaged_node("a", 1),
        json!({"metadata": {"labels": labels}}),
    );
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
    // The cache may not show the deletes of the last scale down: then those pods are counted, and replaced later.
    s.owns(&owner, 5).await;
    s.synced(&owner).await;
    assert_eq!(s.pods_of(&owner).await.len(), 5);
}

async fn conditions_of_other_clients_survive_a_failure(s: Fixture) {
    let foreign = json!({
        "type": "example.com/Liked", "status": "True", "reason": "Nice", "message": "It is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    s.change_status(&owner, json!({"conditions": [foreign]})).await;
    for fails in [true, false] {
        // Only the create of a pod validates finalizers.
        let finalizers = if fails {
            json!(["unqualified"])
        } else {
            Value::Null
        };
        let template = json!({"metadata": {"finalizers": finalizers}});
        s.change(&owner, json!({"spec": {"template": template, "replicas": 2}}))
            .await;
        let now = s
            .status(&owner, "ReplicaFailure changes", |status| {
                condition(status, "ReplicaFailure").is_some() == fails
            })
            .await;
        let kept = condition(&now["status"], "example.com/Liked");
        assert_eq!(kept, Some(&foreign), "{now:#}");
    }
    s.counts(&owner, "replicas", 2).await;
}

async fn pod_keeps_metadata_of_other_clients(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let pods = s.pods_of(&owner).await;
    let (kept, going) = (name(&pods[0]), name(&pods[1]));
    s.make_ready(&kept, 100).await;
    // Pods and owners have separate watches: a sync before the Ready event could delete that pod.
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
    // Release and adopt it: it is Ready, so its replacement is deleted.
    for label in ["b", "a"] {
        s.change_pod(&kept, json!({"metadata": {"labels": {"app": label}}}))
            .await;
        s.pod_is(&kept, "is released or adopted", |pod| {
            controller(pod).is_none() == (label == "b")
        })
        .await;
    }
    s.until("the replacement is deleted", async || {
        (names(&s.pods().await) == [kept.clone()].into()).then_some(())
    })
    .await;
    assert_eq!(foreign(&s.get_pod(&kept).await), foreign(&before.0));
}
