//! Owners, and namespaces, that go.

use coxswain_tests::fixtures::{self, with};
use coxswain_tests::{Need, Test};
use serde_json::{Value, json};

use super::stage::{Kind, Stage, controller, counter_of, name, names, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(an_owner_that_is_going_does_nothing_but_count),
        each!(pods_that_are_orphaned_are_left_alone_and_taken_by_the_next),
        each!(an_owner_that_is_gone_leaves_its_pods_alone),
        each!(what_is_deleted_plainly_goes_as_its_kind_does),
        each!(a_namespace_that_is_going_goes, needs(Need::Kcm)),
    ]
    .concat()
}

async fn an_owner_that_is_going_does_nothing_but_count(s: Stage) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let owner = s.settled(with(s.owner_elsewhere("a", 4), held)).await;
    let pods = s.pods_of(&owner).await;
    s.delete(&owner, "Background").await;
    assert!(s.get(&owner).await["metadata"]["deletionTimestamp"].is_string());

    // Not replaced, not adopted, not let go, not deleted.
    s.delete_pod(&name(&pods[0])).await;
    s.pod("orphan", json!({})).await;
    s.change_pod(&name(&pods[1]), json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    s.scale(&owner, 1).await;
    let now = s.counts(&owner, "replicas", 2).await;
    assert_eq!(counter_of(&now["status"], "fullyLabeledReplicas"), 2, "{now:#}");
    s.looked_at(&owner).await;
    assert_eq!(controller(&s.get_pod("orphan").await), None);
    assert_eq!(controller(&s.get_pod(&name(&pods[1])).await), Some(&*owner.uid));
    let mut left = names(&pods[1..]);
    left.insert("orphan".to_owned());
    assert_eq!(names(&s.pods().await), left);
    s.scale(&owner, 9).await;
    s.looked_at(&owner).await;
    assert_eq!(names(&s.pods().await), left);
    // What it counts goes on being right.
    s.make_ready(&name(&pods[2]), 100).await;
    s.counts(&owner, "readyReplicas", 1).await;
}

/// The test does what a garbage collector does, if there is none.
async fn pods_that_are_orphaned_are_left_alone_and_taken_by_the_next(s: Stage) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let first = s.settled(with(s.owner_elsewhere("a", 3), held)).await;
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
    s.looked_at(&first).await;
    s.counts(&first, "replicas", 0).await;
    for pod in s.all_pods().await {
        assert_eq!(controller(&pod), None);
    }
    s.change(&first, json!({"metadata": {"finalizers": null}})).await;

    let second = s.settled(s.owner_elsewhere("b", 3)).await;
    assert_eq!(names(&s.owns(&second, 3).await), names(&pods));
    s.looked_at(&second).await;
    assert_eq!(s.all_pods().await.len(), 3);
}

/// They have another owner as well, for which a garbage collector leaves them alone too.
async fn an_owner_that_is_gone_leaves_its_pods_alone(s: Stage) {
    let other = s.bystander("c").await;
    let first = s.settled(s.owner_elsewhere("a", 2)).await;
    let pods = s.pods_of(&first).await;
    for pod in &pods {
        let refs = json!([pod["metadata"]["ownerReferences"][0], other]);
        s.change_pod(&name(pod), json!({"metadata": {"ownerReferences": refs}}))
            .await;
    }
    let pods = names(&pods);
    s.delete(&first, "Background").await;
    let second = s
        .settled(with(s.owner_elsewhere("b", 1), other_labels(s.kind)))
        .await;
    s.looked_at(&second).await;
    let left: Vec<Value> = s.pods().await;
    assert!(names(&left).is_superset(&pods));
    assert_eq!(left.len(), 3);
}

/// A `ReplicationController` leaves its pods behind unless it is told otherwise: that is older than the others.
async fn what_is_deleted_plainly_goes_as_its_kind_does(s: Stage) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let owner = s.settled(with(s.owner_elsewhere("a", 2), held)).await;
    let pods = names(&s.pods_of(&owner).await);
    let going = s.delete_plainly(&owner).await;
    let finalizers = match s.kind {
        Kind::ReplicaSet | Kind::AppReplicaSet => json!(["example.com/hold"]),
        Kind::ReplicationController => json!(["example.com/hold", "orphan"]),
    };
    assert_eq!(going["metadata"]["finalizers"], finalizers, "{going:#}");
    // It is on its way, and does nothing.
    s.scale(&owner, 5).await;
    s.looked_at(&owner).await;
    assert_eq!(names(&s.pods().await), pods);
}

fn other_labels(kind: Kind) -> Value {
    let labels = json!({"app": "b"});
    json!({"spec": {"selector": kind.selector(&labels), "template": {"metadata": {"labels": labels}}}})
}

/// What is deleted in it cannot be replaced, and nobody minds.
async fn a_namespace_that_is_going_goes(s: Stage) {
    let owner = s.settled(s.owner("a", 3)).await;
    s.counts(&owner, "readyReplicas", 3).await;
    let path = format!("/api/v1/namespaces/{}", s.ns);
    let gone = s.c.api().delete(&path, ()).await.expect(200);
    assert_eq!(text(&gone["metadata"]["name"]), s.ns);
    s.until("it is gone", async || {
        (s.c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
    let pods = s.c.api().get(&fixtures::core(&s.ns, "pods")).await.expect(200);
    assert_eq!(pods["items"], json!([]));
}
