//! Neither too many nor too few, however fast things change: what a watch from before the first change has seen.

use coxswain_tests::Test;
use serde_json::{Value, json};

use super::stage::{Stage, controller, count, drain, name, names};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(a_burst_of_changes_makes_no_pod_too_many),
        each!(a_burst_of_changes_deletes_no_pod_too_many),
        each!(there_are_never_more_than_the_most_that_was_asked_for),
        each!(pods_that_go_in_a_burst_are_replaced_one_for_one),
        each!(an_owner_made_again_at_once_starts_with_nothing),
    ]
    .concat()
}

/// Whether an event tells that a pod is on its way out.
fn goes(event: &Value) -> bool {
    event["type"] == "DELETED" || event["object"]["metadata"]["deletionTimestamp"].is_string()
}

/// Each change wakes the engine, most of them before it is shown what the last one led to.
async fn a_burst_of_changes_makes_no_pod_too_many(s: Stage) {
    let mut watch = s.watch_pods().await;
    let owner = s.create(s.owner_elsewhere("a", 1)).await;
    for replicas in 2..=30 {
        s.scale(&owner, replicas).await;
        let note = json!({"metadata": {"annotations": {"example.com/wake": replicas.to_string()}}});
        s.change(&owner, note).await;
    }
    s.counts(&owner, "replicas", 30).await;
    let seen = drain(&mut watch).await;
    assert_eq!((seen.len(), count(&seen, "ADDED")), (30, 30), "{seen:#?}");
}

async fn a_burst_of_changes_deletes_no_pod_too_many(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 30)).await;
    let mut watch = s.watch_pods().await;
    for replicas in (5..30).rev() {
        s.scale(&owner, replicas).await;
        let note = json!({"metadata": {"annotations": {"example.com/wake": replicas.to_string()}}});
        s.change(&owner, note).await;
    }
    s.counts(&owner, "replicas", 5).await;
    let seen = drain(&mut watch).await;
    // Each of them once, and nobody ends them.
    assert_eq!((seen.len(), count(&seen, "MODIFIED")), (25, 25), "{seen:#?}");
    assert!(seen.iter().all(goes), "{seen:#?}");
    assert_eq!(s.pods_of(&owner).await.len(), 5);
}

async fn there_are_never_more_than_the_most_that_was_asked_for(s: Stage) {
    let mut watch = s.watch_pods().await;
    let owner = s.create(s.owner_elsewhere("a", 3)).await;
    for replicas in [9, 1, 8, 0, 9, 2, 7, 5] {
        s.scale(&owner, replicas).await;
    }
    s.counts(&owner, "replicas", 5).await;
    let (mut there, mut most) = (0_usize, 0);
    for event in drain(&mut watch).await {
        if goes(&event) {
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

async fn pods_that_go_in_a_burst_are_replaced_one_for_one(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 20)).await;
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
    let seen = drain(&mut watch).await;
    assert_eq!(count(&seen, "ADDED"), 20, "{seen:#?}");
    assert_eq!(seen.iter().filter(|it| goes(it)).count(), 20, "{seen:#?}");
}

/// While the pods of the first are still being made. What was awaited for the first is nothing to the second.
async fn an_owner_made_again_at_once_starts_with_nothing(s: Stage) {
    let mut watch = s.watch_pods().await;
    let first = s.create(s.owner_elsewhere("a", 20)).await;
    s.until("the first has begun", async || {
        (!s.all_pods().await.is_empty()).then_some(())
    })
    .await;
    s.delete(&first, "Background").await;
    let second = s.settled(s.owner_elsewhere("a", 3)).await;
    s.looked_at(&second).await;
    let seen = drain(&mut watch).await;
    // The pods of the first may be collected meanwhile; nothing becomes of those of the second.
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
