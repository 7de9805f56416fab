//! Changes that enqueue an owner, each on its own.

use serde_json::{Value, json};
use steersman_harness::{Test, fixtures};

use super::fixture::{Fixture, Owner, condition, controller, name, names};

pub fn tests() -> Vec<Test> {
    [
        each!(pod_without_its_owner_reference_is_adopted_again),
        each!(pod_of_another_controller_is_replaced),
        each!(moved_pod_enqueues_both_owners),
        each!(pod_removed_at_once_is_replaced),
        each!(orphans_selected_by_two_owners_are_adopted_once),
        each!(second_controller_reference_is_rejected),
    ]
    .concat()
}

/// Sets the owner references of a pod.
async fn set_owners(s: &Fixture, pod: &str, refs: Value) {
    s.change_pod(pod, json!({"metadata": {"ownerReferences": refs}}))
        .await;
}

fn controlled_by(s: &Fixture, owner: &Owner) -> Value {
    json!([{
        "apiVersion": s.kind.api_version(), "kind": s.kind.name(), "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// A reference to another existing owner: with an absent one the pod would be garbage.
async fn other_owner(s: &Fixture) -> Value {
    fixtures::with(s.bystander("stranger").await, json!({"controller": true}))
}

async fn pod_without_its_owner_reference_is_adopted_again(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let pods = names(&s.pods_of(&owner).await);
    for pod in &pods {
        set_owners(&s, pod, Value::Null).await;
        s.pod_is(pod, "is adopted again", |pod| {
            controller(pod) == Some(&*owner.uid)
        })
        .await;
    }
    s.synced(&owner).await;
    assert_eq!(names(&s.all_pods().await), pods);
}

async fn pod_of_another_controller_is_replaced(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let given = name(&s.pods_of(&owner).await[0]);
    let stranger = other_owner(&s).await;
    set_owners(&s, &given, json!([stranger])).await;
    let pods = s.owns(&owner, 2).await;
    assert!(!names(&pods).contains(&given));
    s.counts(&owner, "replicas", 2).await;
    s.synced(&owner).await;
    let now = s.get_pod(&given).await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([stranger]));
    assert!(now["metadata"]["deletionTimestamp"].is_null(), "{now:#}");
    assert_eq!(s.all_pods().await.len(), 3);
}

/// One owner has a missing pod, the other a surplus one.
async fn moved_pod_enqueues_both_owners(s: Fixture) {
    let first = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let second = s.settled(s.owner_on_unmanaged_node("b", 2)).await;
    let given = name(&s.pods_of(&first).await[0]);
    s.make_ready(&given, 100).await;
    s.counts(&first, "readyReplicas", 1).await;
    set_owners(&s, &given, controlled_by(&s, &second)).await;
    // It is the only Ready pod: another one is deleted.
    s.counts(&second, "readyReplicas", 1).await;
    s.counts(&first, "readyReplicas", 0).await;
    for owner in [&first, &second] {
        s.owns(owner, 2).await;
        s.counts(owner, "replicas", 2).await;
        s.synced(owner).await;
    }
    assert!(names(&s.pods_of(&second).await).contains(&given));
    assert_eq!((s.pods().await.len(), s.all_pods().await.len()), (4, 5));
}

/// It never has a deletionTimestamp.
async fn pod_removed_at_once_is_replaced(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let gone = name(&s.pods_of(&owner).await[0]);
    let path = format!("{}/{gone}", fixtures::core(&s.ns, "pods"));
    let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    s.c.api().delete(&path, at_once).await.expect(200);
    let pods = s.owns(&owner, 2).await;
    assert!(!names(&pods).contains(&gone));
    s.synced(&owner).await;
    assert_eq!(s.all_pods().await.len(), 2);
}

async fn orphans_selected_by_two_owners_are_adopted_once(s: Fixture) {
    for pod in ["one", "two", "three", "four"] {
        s.pod(pod, json!({})).await;
    }
    let first = s.create(s.owner_on_unmanaged_node("a", 3)).await;
    let second = s.create(s.owner_on_unmanaged_node("b", 3)).await;
    for owner in [&first, &second] {
        let now = s.counts(owner, "replicas", 3).await;
        assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
        s.synced(owner).await;
    }
    let (of_first, of_second) = (s.pods_of(&first).await, s.pods_of(&second).await);
    assert_eq!((of_first.len(), of_second.len()), (3, 3));
    for pod in s.all_pods().await {
        assert_eq!(
            pod["metadata"]["ownerReferences"].as_array().map(Vec::len),
            Some(1),
            "{pod:#}"
        );
    }
    for owner in [&first, &second] {
        let mut events = s.events(owner).await;
        events.retain(|(kind, ..)| kind != "Normal");
        assert!(events.is_empty(), "{events:?}");
    }
}

/// The API server rejects it.
async fn second_controller_reference_is_rejected(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let pod = name(&s.pods_of(&owner).await[0]);
    let path = format!("{}/{pod}", fixtures::core(&s.ns, "pods"));
    let both = json!([controlled_by(&s, &owner)[0], other_owner(&s).await]);
    let change = json!({"metadata": {"ownerReferences": both}});
    s.c.api()
        .patch(&path, fixtures::MERGE, change.clone())
        .await
        .expect(422);
    let new = fixtures::with(fixtures::pod("two"), change);
    s.c.api()
        .post(&fixtures::core(&s.ns, "pods"), new)
        .await
        .expect(422);
    s.synced(&owner).await;
    assert_eq!(names(&s.all_pods().await), [pod.clone()].into());
    assert_eq!(
        s.get_pod(&pod).await["metadata"]["ownerReferences"],
        controlled_by(&s, &owner)
    );
}
