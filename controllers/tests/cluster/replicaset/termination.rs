//! Terminating owners and namespaces.

use serde_json::{Value, json};
use steersman_harness::fixtures::{self, with};
use steersman_harness::{Need, Test};

use super::fixture::{Fixture, Kind, controller, counter_of, name, names, text};

pub fn tests() -> Vec<Test> {
    [
        each!(terminating_owner_only_updates_its_status),
        each!(orphaned_pods_are_kept_and_adopted_by_the_next_owner),
        each!(pods_of_a_deleted_owner_are_kept),
        each!(default_deletion_policy_depends_on_the_kind),
        each!(terminating_namespace_is_removed, needs(Need::Kcm)),
    ]
    .concat()
}

async fn terminating_owner_only_updates_its_status(s: Fixture) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let owner = s.settled(with(s.owner_on_unmanaged_node("a", 4), held)).await;
    let pods = s.pods_of(&owner).await;
    s.delete(&owner, "Background").await;
    assert!(s.get(&owner).await["metadata"]["deletionTimestamp"].is_string());
    // A controller that has not observed the deletion would replace and release pods.
    s.synced(&owner).await;

    // Not replaced, adopted, released or deleted.
    s.delete_pod(&name(&pods[0])).await;
    s.pod("orphan", json!({})).await;
    s.change_pod(&name(&pods[1]), json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    s.scale(&owner, 1).await;
    let now = s.counts(&owner, "replicas", 2).await;
    assert_eq!(counter_of(&now["status"], "fullyLabeledReplicas"), 2, "{now:#}");
    s.synced(&owner).await;
    assert_eq!(controller(&s.get_pod("orphan").await), None);
    assert_eq!(controller(&s.get_pod(&name(&pods[1])).await), Some(&*owner.uid));
    let mut left = names(&pods[1..]);
    left.insert("orphan".to_owned());
    assert_eq!(names(&s.pods().await), left);
    s.scale(&owner, 9).await;
    s.synced(&owner).await;
    assert_eq!(names(&s.pods().await), left);
    // The status stays up to date.
    s.make_ready(&name(&pods[2]), 100).await;
    s.counts(&owner, "readyReplicas", 1).await;
}

/// Without a garbage collector the test orphans the pods.
async fn orphaned_pods_are_kept_and_adopted_by_the_next_owner(s: Fixture) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let first = s.settled(with(s.owner_on_unmanaged_node("a", 3), held)).await;
    let pods = s.pods_of(&first).await;
    let going = s.delete(&first, "Orphan").await;
    assert_eq!(
        going["metadata"]["finalizers"],
        json!(["example.com/hold", "orphan"]),
        "{going:#}"
    );
    for pod in &pods {
        s.change_pod(&name(pod), json!({"metadata": {"ownerReferences": null}}))
            .await;
    }
    s.synced(&first).await;
    s.counts(&first, "replicas", 0).await;
    for pod in s.all_pods().await {
        assert_eq!(controller(&pod), None);
    }
    s.change(&first, json!({"metadata": {"finalizers": null}})).await;

    let second = s.settled(s.owner_on_unmanaged_node("b", 3)).await;
    assert_eq!(names(&s.owns(&second, 3).await), names(&pods));
    s.synced(&second).await;
    assert_eq!(s.all_pods().await.len(), 3);
}

/// A second owner keeps the garbage collector from deleting the pods.
async fn pods_of_a_deleted_owner_are_kept(s: Fixture) {
    let other = s.bystander("c").await;
    let first = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let pods = s.pods_of(&first).await;
    for pod in &pods {
        let refs = json!([pod["metadata"]["ownerReferences"][0], other]);
        s.change_pod(&name(pod), json!({"metadata": {"ownerReferences": refs}}))
            .await;
    }
    let pods = names(&pods);
    s.delete(&first, "Background").await;
    let second = s
        .settled(with(s.owner_on_unmanaged_node("b", 1), other_labels(s.kind)))
        .await;
    s.synced(&second).await;
    let left: Vec<Value> = s.pods().await;
    assert!(names(&left).is_superset(&pods));
    assert_eq!(left.len(), 3);
}

/// A `ReplicationController` orphans its pods by default.
async fn default_deletion_policy_depends_on_the_kind(s: Fixture) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let owner = s.settled(with(s.owner_on_unmanaged_node("a", 2), held)).await;
    let pods = names(&s.pods_of(&owner).await);
    let going = s.delete_by_default_policy(&owner).await;
    let finalizers = match s.kind {
        Kind::ReplicaSet | Kind::AppReplicaSet => json!(["example.com/hold"]),
        Kind::ReplicationController => json!(["example.com/hold", "orphan"]),
    };
    assert_eq!(going["metadata"]["finalizers"], finalizers, "{going:#}");
    // The terminating owner does not act.
    s.scale(&owner, 5).await;
    s.synced(&owner).await;
    assert_eq!(names(&s.pods().await), pods);
}

fn other_labels(kind: Kind) -> Value {
    let labels = json!({"app": "b"});
    json!({"spec": {"selector": kind.selector(&labels), "template": {"metadata": {"labels": labels}}}})
}

/// Deleted pods cannot be replaced there.
async fn terminating_namespace_is_removed(s: Fixture) {
    let owner = s.settled(s.owner("a", 3)).await;
    s.counts(&owner, "readyReplicas", 3).await;
    let path = format!("/api/v1/namespaces/{}", s.ns);
    let gone = s.c.api().delete(&path, ()).await.expect(200);
    assert_eq!(text(&gone["metadata"]["name"]), s.ns);
    s.until("the namespace is gone", async || {
        (s.c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
    let pods = s.c.api().get(&fixtures::core(&s.ns, "pods")).await.expect(200);
    assert_eq!(pods["items"], json!([]));
}
