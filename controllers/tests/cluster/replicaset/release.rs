//! Pods that an owner's selector does not mean any more are nobody's.

use coxswain_tests::{Need, Test};
use serde_json::json;

use super::stage::{Stage, controller, name, names, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(a_pod_that_does_not_match_any_more_is_let_go_and_replaced),
        each!(a_pod_that_is_let_go_keeps_all_else),
        each!(a_pod_that_comes_back_is_one_too_many),
        // KCM deletes by name: a pod that it has not yet seen relabelled goes with the others.
        each!(a_released_pod_is_not_deleted_with_the_others, needs(Need::Ours)),
    ]
    .concat()
}

async fn a_pod_that_does_not_match_any_more_is_let_go_and_replaced(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
    let old = name(&s.pods_of(&owner).await[0]);
    s.change_pod(&old, json!({"metadata": {"labels": {"app": "debug"}}}))
        .await;
    let free = s.pod_is(&old, "is let go", |pod| controller(pod).is_none()).await;
    assert!(free["metadata"]["ownerReferences"].is_null(), "{free:#}");
    let pods = s.owns(&owner, 2).await;
    assert!(!names(&pods).contains(&old));
    s.counts(&owner, "replicas", 2).await;
    s.looked_at(&owner).await;
    let now = s.get_pod(&old).await;
    assert!(now["metadata"]["deletionTimestamp"].is_null(), "{now:#}");
    assert_eq!(s.all_pods().await.len(), 3);
}

async fn a_pod_that_is_let_go_keeps_all_else(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 1)).await;
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
    let now = s.pod_is(&old, "is let go", |pod| controller(pod).is_none()).await;
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

async fn a_pod_that_comes_back_is_one_too_many(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 1)).await;
    let old = name(&s.pods_of(&owner).await[0]);
    s.change_pod(&old, json!({"metadata": {"labels": {"app": "debug"}}}))
        .await;
    s.owns(&owner, 1).await;
    s.pod_is(&old, "is let go", |pod| controller(pod).is_none()).await;
    s.make_ready(&old, 100).await;
    s.change_pod(&old, json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    s.until("it is back, and the other gone", async || {
        let pods = s.pods_of(&owner).await;
        (pods.len() == 1 && name(&pods[0]) == old).then_some(())
    })
    .await;
    s.counts(&owner, "readyReplicas", 1).await;
}

/// Let go and scaled down at the same time.
async fn a_released_pod_is_not_deleted_with_the_others(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 4)).await;
    let kept = text(&s.pods_of(&owner).await[2]["metadata"]["name"]);
    s.change_pod(&kept, json!({"metadata": {"labels": {"app": "debug"}}}))
        .await;
    s.scale(&owner, 0).await;
    s.counts(&owner, "replicas", 0).await;
    s.pod_is(&kept, "is let go", |pod| controller(pod).is_none())
        .await;
    s.looked_at(&owner).await;
    assert_eq!(names(&s.pods().await), [kept].into());
}
