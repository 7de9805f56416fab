//! The number of writes, counted by watches.

use serde_json::json;
use steersman_harness::fixtures::with;
use steersman_harness::{Need, Test};

use super::fixture::{Fixture, count, counter_of, text};

pub fn tests() -> Vec<Test> {
    [each!(pod_costs_one_create_and_one_delete, needs(Need::Ours))].concat()
}

/// The number of status writes depends on the load of the machine: it is printed here, and asserted on a paused clock in
/// `suite/replicaset/replicas.rs`.
async fn pod_costs_one_create_and_one_delete(s: Fixture) {
    let mut written = [Vec::new(), Vec::new()];
    for round in 0..3 {
        let counts = up_and_down(&s, &format!("a{round}")).await;
        assert_eq!(
            counts.each_ref().map(|it| it.last().copied()),
            [Some(40), Some(5)]
        );
        for (all, counts) in written.iter_mut().zip(&counts) {
            all.push(counts.len());
        }
    }
    let [up, down] = written;
    println!("status writes of an owner: {up:?} for 40 more pods, {down:?} for 35 fewer");
}

/// Creates 40 pods and deletes 35. Returns the written values of `status.replicas` of both steps.
async fn up_and_down(s: &Fixture, named: &str) -> [Vec<u64>; 2] {
    let (mut of_owners, mut of_pods) = (s.watch_owners().await, s.watch_pods().await);
    let labels = json!({"app": named});
    let change = json!({"spec": {
        "selector": s.kind.selector(&labels), "template": {"metadata": {"labels": labels}},
    }});
    let owner = s
        .settled(with(s.owner_on_unmanaged_node(named, 40), change))
        .await;
    let (pods, up) = (
        s.drain_pods(&mut of_pods).await,
        s.drain_owners(&mut of_owners).await,
    );
    assert_eq!((pods.len(), count(&pods, "ADDED")), (40, 40), "{pods:#?}");
    assert_eq!(count(&up, "ADDED"), 1);

    s.scale(&owner, 5).await;
    s.counts(&owner, "replicas", 5).await;
    let (pods, down) = (
        s.drain_pods(&mut of_pods).await,
        s.drain_owners(&mut of_owners).await,
    );
    // One deletionTimestamp each: without a kubelet they stay.
    assert_eq!((pods.len(), count(&pods, "MODIFIED")), (35, 35), "{pods:#?}");
    assert!(
        pods.iter()
            .all(|it| !text(&it["object"]["metadata"]["deletionTimestamp"]).is_empty())
    );
    [up, down].map(|writes| {
        let modified = writes.iter().filter(|it| it["type"] == "MODIFIED");
        let counts = modified.map(|it| counter_of(&it["object"]["status"], "replicas"));
        counts.collect()
    })
}
