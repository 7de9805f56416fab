//! What it costs: seen by somebody who watches.

use coxswain_tests::fixtures::with;
use coxswain_tests::{Need, Test};
use serde_json::json;

use super::stage::{Stage, count, counter_of, drain, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [each!(
        a_pod_costs_a_create_and_a_delete_and_an_owner_two_writes,
        needs(Need::Ours)
    )]
    .concat()
}

/// The writes of the owner depend on how busy the machine is: they are printed here, and counted on a paused clock in
/// `suite/replicaset/replicas.rs`. Those of pods do not.
async fn a_pod_costs_a_create_and_a_delete_and_an_owner_two_writes(s: Stage) {
    let mut written = [Vec::new(), Vec::new()];
    for round in 0..3 {
        let said = up_and_down(&s, &format!("a{round}")).await;
        assert_eq!(said.each_ref().map(|it| it.last().copied()), [Some(40), Some(5)]);
        for (all, said) in written.iter_mut().zip(&said) {
            all.push(said.len());
        }
    }
    let [up, down] = written;
    println!("status writes of an owner: {up:?} for 40 more pods, {down:?} for 35 fewer");
}

/// Makes 40 pods, and leaves 5 of them. What was said of how many there are, each time.
async fn up_and_down(s: &Stage, named: &str) -> [Vec<u64>; 2] {
    let (mut of_owners, mut of_pods) = (s.watch_owners().await, s.watch_pods().await);
    let labels = json!({"app": named});
    let change = json!({"spec": {
        "selector": s.kind.selector(&labels), "template": {"metadata": {"labels": labels}},
    }});
    let owner = s.settled(with(s.owner_elsewhere(named, 40), change)).await;
    let (pods, up) = (drain(&mut of_pods).await, drain(&mut of_owners).await);
    assert_eq!((pods.len(), count(&pods, "ADDED")), (40, 40), "{pods:#?}");
    assert_eq!(count(&up, "ADDED"), 1);

    s.scale(&owner, 5).await;
    s.counts(&owner, "replicas", 5).await;
    let (pods, down) = (drain(&mut of_pods).await, drain(&mut of_owners).await);
    // Each of them once: the mark of its deletion. Nobody ends them.
    assert_eq!((pods.len(), count(&pods, "MODIFIED")), (35, 35), "{pods:#?}");
    assert!(
        pods.iter()
            .all(|it| !text(&it["object"]["metadata"]["deletionTimestamp"]).is_empty())
    );
    [up, down].map(|writes| {
        let modified = writes.iter().filter(|it| it["type"] == "MODIFIED");
        let said = modified.map(|it| counter_of(&it["object"]["status"], "replicas"));
        said.collect()
    })
}
