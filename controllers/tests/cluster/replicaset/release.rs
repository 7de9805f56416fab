//! Release of pods that the selector no longer matches.

use serde_json::json;
use steersman_harness::{Need, Test};

use super::fixture::{Fixture, controller, name, names, text};

pub fn tests() -> Vec<Test> {
    [
        each!(relabelled_pod_is_released_and_replaced),
        each!(released_pod_keeps_all_other_fields),
        each!(readopted_pod_replaces_its_replacement),
        // KCM deletes without a resourceVersion: it may delete a pod whose new labels it has not observed.
        each!(released_pod_is_not_deleted_by_a_scale_down, needs(Need::Ours)),
    ]
    .concat()
}

async fn relabelled_pod_is_released_and_replaced(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let old = name(&s.pods_of(&owner).await[0]);
    s.change_pod(&old, json!({"metadata": {"labels": {"app": "debug"}}}))
        .await;
    let free = s
        .pod_is(&old, "is released", |pod| controller(pod).is_none())
        .await;
    assert!(free["metadata"]["ownerReferences"].is_null(), "{free:#}");
    let pods = s.owns(&owner, 2).await;
    assert!(!names(&pods).contains(&old));
    s.counts(&owner, "replicas", 2).await;
    s.synced(&owner).await;
    let now = s.get_pod(&old).await;
    assert!(now["metadata"]["deletionTimestamp"].is_null(), "{now:#}");
    assert_eq!(s.all_pods().await.len(), 3);
}

async fn released_pod_keeps_all_other_fields(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let old = name(&s.pods_of(&owner).await[0]);
    let refs = s.get_pod(&old).await["metadata"]["ownerReferences"].clone();
    let foreign = s.bystander("c").await;
    let change = json!({"metadata": {
        "annotations": {"example.com/note": "a"}, "finalizers": ["example.com/hold"],
        "ownerReferences": [foreign, refs[0]],
    }});
    s.change_pod(&old, change).await;
    let before = s.get_pod(&old).await;
    s.change_pod(
        &old,
        json!({"metadata": {"labels": {"app": "debug", "more": "labels"}}}),
    )
    .await;
    let now = s
        .pod_is(&old, "is released", |pod| controller(pod).is_none())
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([foreign]));
    assert_eq!(
        now["metadata"]["labels"],
        json!({"app": "debug", "more": "labels"})
    );
    for field in ["uid", "annotations", "finalizers"] {
        assert_eq!(now["metadata"][field], before["metadata"][field], "{now:#}");
    }
    assert_eq!(now["spec"], before["spec"]);
}

async fn readopted_pod_replaces_its_replacement(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let old = name(&s.pods_of(&owner).await[0]);
    s.change_pod(&old, json!({"metadata": {"labels": {"app": "debug"}}}))
        .await;
    s.owns(&owner, 1).await;
    s.pod_is(&old, "is released", |pod| controller(pod).is_none())
        .await;
    s.make_ready(&old, 100).await;
    s.change_pod(&old, json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    s.until("it is adopted, and the other pod deleted", async || {
        let pods = s.pods_of(&owner).await;
        (pods.len() == 1 && name(&pods[0]) == old).then_some(())
    })
    .await;
    s.counts(&owner, "readyReplicas", 1).await;
}

/// Relabelled and scaled down at the same time.
async fn released_pod_is_not_deleted_by_a_scale_down(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 4)).await;
    let kept = text(&s.pods_of(&owner).await[2]["metadata"]["name"]);
    s.change_pod(&kept, json!({"metadata": {"labels": {"app": "debug"}}}))
        .await;
    s.scale(&owner, 0).await;
    s.counts(&owner, "replicas", 0).await;
    s.pod_is(&kept, "is released", |pod| controller(pod).is_none())
        .await;
    s.synced(&owner).await;
    assert_eq!(names(&s.pods().await), [kept].into());
}
