//! What it costs: seen by somebody who watches.

use coxswain_tests::{Need, Test};

use super::stage::{Stage, count, counter_of, drain, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [each!(
        a_pod_costs_a_create_and_a_delete_and_an_owner_two_writes,
        needs(Need::Ours)
    )]
    .concat()
}

async fn a_pod_costs_a_create_and_a_delete_and_an_owner_two_writes(s: Stage) {
    let (mut of_owners, mut of_pods) = (s.watch_owners().await, s.watch_pods().await);
    let owner = s.settled(s.owner_elsewhere("a", 40)).await;
    let (pods, writes) = (drain(&mut of_pods).await, drain(&mut of_owners).await);
    assert_eq!((pods.len(), count(&pods, "ADDED")), (40, 40), "{pods:#?}");
    let said: Vec<u64> = writes
        .iter()
        .map(|it| counter_of(&it["object"]["status"], "replicas"))
        .collect();
    assert_eq!(count(&writes, "ADDED"), 1);
    assert!(count(&writes, "MODIFIED") <= 2, "it said {said:?}");

    s.scale(&owner, 5).await;
    s.counts(&owner, "replicas", 5).await;
    let (pods, writes) = (drain(&mut of_pods).await, drain(&mut of_owners).await);
    // Each of them once: the mark of its deletion. Nobody ends them.
    assert_eq!((pods.len(), count(&pods, "MODIFIED")), (35, 35), "{pods:#?}");
    assert!(
        pods.iter()
            .all(|it| !text(&it["object"]["metadata"]["deletionTimestamp"]).is_empty())
    );
    // One of them is the test's own.
    let said: Vec<u64> = writes
        .iter()
        .map(|it| counter_of(&it["object"]["status"], "replicas"))
        .collect();
    assert!(count(&writes, "MODIFIED") <= 3, "it said {said:?}");
}
