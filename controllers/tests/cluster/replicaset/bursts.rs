//! Fast changes lead to neither surplus nor missing pods, as a watch from before the first change shows.

use serde_json::{Value, json};
use steersman_harness::Test;

use super::fixture::{Fixture, controller, count, name, names};

pub fn tests() -> Vec<Test> {
    [
        each!(burst_of_changes_creates_no_surplus_pod),
        each!(burst_of_changes_deletes_no_other_pod),
        each!(pods_never_exceed_the_largest_desired_number),
        each!(pods_deleted_in_a_burst_are_replaced_once),
        each!(recreated_owner_starts_without_expectations),
    ]
    .concat()
}

/// Reports whether an event shows a deleted or terminating pod.
fn is_terminating(event: &Value) -> bool {
    event["type"] == "DELETED" || event["object"]["metadata"]["deletionTimestamp"].is_string()
}

/// Each change enqueues the owner, mostly before the cache shows the last write.
async fn burst_of_changes_creates_no_surplus_pod(s: Fixture) {
    let mut watch = s.watch_pods().await;
    let owner = s.create(s.owner_on_unmanaged_node("a", 1)).await;
    for replicas in 2..=30 {
        s.scale(&owner, replicas).await;
        let note = json!({"metadata": {"annotations": {"example.com/wake": replicas.to_string()}}});
        s.change(&owner, note).await;
    }
    s.counts(&owner, "replicas", 30).await;
    let seen = s.drain_pods(&mut watch).await;
    assert_eq!((seen.len(), count(&seen, "ADDED")), (30, 30), "{seen:#?}");
}

async fn burst_of_changes_deletes_no_other_pod(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 30)).await;
    let mut watch = s.watch_pods().await;
    for replicas in (5..30).rev() {
        s.scale(&owner, replicas).await;
        let note = json!({"metadata": {"annotations": {"example.com/wake": replicas.to_string()}}});
        s.change(&owner, note).await;
    }
    s.counts(&owner, "replicas", 5).await;
    let seen = s.drain_pods(&mut watch).await;
    // One deletionTimestamp each: without a kubelet they stay.
    assert_eq!((seen.len(), count(&seen, "MODIFIED")), (25, 25), "{seen:#?}");
    assert!(seen.iter().all(is_terminating), "{seen:#?}");
    assert_eq!(s.pods_of(&owner).await.len(), 5);
}

async fn pods_never_exceed_the_largest_desired_number(s: Fixture) {
    let mut watch = s.watch_pods().await;
    let owner = s.create(s.owner_on_unmanaged_node("a", 3)).await;
    for replicas in [9, 1, 8, 0, 9, 2, 7, 5] {
        s.scale(&owner, replicas).await;
    }
    s.counts(&owner, "replicas", 5).await;
    // The cache may not show the deletes of the scale to 2: then those pods are counted, and replaced later.
    s.owns(&owner, 5).await;
    let (mut there, mut most) = (0_usize, 0);
    for event in s.drain_pods(&mut watch).await {
        if is_terminating(&event) {
            there -= 1;
        } else {
            assert_eq!(event["type"], "ADDED", "{event:#}");
            there += 1;
        }
        most = most.max(there);
    }
    assert!(most <= 9, "{most} at once");
    assert_eq!((there, s.pods_of(&owner).await.len()), (5, 5));
}

async fn pods_deleted_in_a_burst_are_replaced_once(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 20)).await;
    let old = s.pods_of(&owner).await;
    let mut watch = s.watch_pods().await;
    for pod in &old {
        s.delete_pod(&name(pod)).await;
    }
    s.until("all are replaced", async || {
        let now = names(&s.pods_of(&owner).await);
        (now.len() == 20 && now.is_disjoint(&names(&old))).then_some(())
    })
    .await;
    s.counts(&owner, "replicas", 20).await;
    let seen = s.drain_pods(&mut watch).await;
    assert_eq!(count(&seen, "ADDED"), 20, "{seen:#?}");
    assert_eq!(
        seen.iter().filter(|it| is_terminating(it)).count(),
        20,
        "{seen:#?}"
    );
}

/// The first owner is deleted while it creates pods. Its expectations do not affect the second.
async fn recreated_owner_starts_without_expectations(s: Fixture) {
    let mut watch = s.watch_pods().await;
    let first = s.create(s.owner_on_unmanaged_node("a", 20)).await;
    s.until("the first owner creates pods", async || {
        (!s.all_pods().await.is_empty()).then_some(())
    })
    .await;
    s.delete(&first, "Background").await;
    let second = s.settled(s.owner_on_unmanaged_node("a", 3)).await;
    s.synced(&second).await;
    let seen = s.drain_pods(&mut watch).await;
    // The garbage collector may delete pods of the first owner. Pods of the second stay.
    let of = |uid: &str| {
        let its = seen.iter().filter(|it| controller(&it["object"]) == Some(uid));
        its.cloned().collect::<Vec<_>>()
    };
    let (of_first, of_second) = (of(&first.uid), of(&second.uid));
    assert_eq!(count(&of_second, "ADDED"), 3, "{seen:#?}");
    assert_eq!(of_second.len(), 3, "{seen:#?}");
    assert!(count(&of_first, "ADDED") <= 20, "{seen:#?}");
    assert_eq!(of_first.len() + 3, seen.len(), "{seen:#?}");
}
