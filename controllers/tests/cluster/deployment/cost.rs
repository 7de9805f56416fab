//! What it costs: seen by somebody who watches.

use coxswain_tests::fixtures::with;
use coxswain_tests::{Need, Test};
use serde_json::{Value, json};

use super::objects::{BAD, counter_of, deployment, elsewhere, image, name, steps};
use super::stage::Stage;
use super::tape::{Recorded, Tape};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(a_steady_one_is_not_written),
        staged!(a_stuck_one_is_not_written),
        staged!(a_rollout_of_ten_costs_little),
        staged!(a_rollout_of_ten_at_once_costs_little).needs(Need::Ours),
    ]
}

/// Of each kind, what was written of the Deployment `a` and its `ReplicaSet`s.
async fn written(s: &Stage, tapes: [Tape; 2]) -> [Vec<String>; 2] {
    let [deployments, sets] = tapes;
    let names = |it: Recorded| -> Vec<String> {
        let all = it
            .events
            .iter()
            .map(|(kind, object)| format!("{kind} {}", name(object)));
        all.filter(|it| it.contains(" a")).collect()
    };
    [names(deployments.stop(s).await), names(sets.stop(s).await)]
}

async fn tapes(s: &Stage) -> [Tape; 2] {
    [Tape::of(s, "deployments").await, Tape::of(s, "replicasets").await]
}

/// Whatever makes it look: what it sees is what it said.
async fn a_steady_one_is_not_written(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    s.rolled(&d, "i:2").await;
    // Until the last of the old pods has ended there is something to say.
    s.until("all have ended", async || {
        let mut told = s.sets(&d).await;
        told.push(s.get(&d).await);
        let none = |it: &Value| counter_of(&it["status"], "terminatingReplicas") == 0;
        (s.all_pods().await.len() == 2 && told.iter().all(none)).then_some(())
    })
    .await;
    s.looked_at(&d).await;
    let tapes = tapes(&s).await;
    let label = json!({"metadata": {"labels": {"example.com/more": "labels"}}});
    s.change(&d, label.clone()).await;
    for set in s.sets(&d).await {
        s.change_set(&name(&set), label.clone()).await;
    }
    // By the time that another one is done that came later.
    let other = s.completed(deployment("b", 1)).await;
    s.looked_at(&other).await;
    let [deployments, sets] = written(&s, tapes).await;
    // They are all the test's own.
    assert_eq!(
        (deployments.len(), sets.len()),
        (1, 2),
        "{deployments:?} {sets:?}"
    );
}

async fn a_stuck_one_is_not_written(s: Stage) {
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 2), (BAD, 1)]).await;
    s.status(&d, "all are counted", |status| {
        counter_of(status, "updatedReplicas") == 1 && counter_of(status, "replicas") == 3
    })
    .await;
    s.looked_at(&d).await;
    let tapes = tapes(&s).await;
    let label = json!({"metadata": {"labels": {"example.com/more": "labels"}}});
    s.change(&d, label).await;
    let other = s.completed(deployment("b", 1)).await;
    s.looked_at(&other).await;
    let [deployments, sets] = written(&s, tapes).await;
    assert_eq!(
        (deployments.len(), sets.len()),
        (1, 0),
        "{deployments:?} {sets:?}"
    );
}

/// The number of steps depends on how the pods become Ready: most of them alone, or all at once. The writes are printed here,
/// and counted on a paused clock in `suite/deployment/rollouts.rs`.
async fn a_rollout_of_ten_costs_little(s: Stage) {
    let d = s.completed(deployment("a", 10)).await;
    let tapes = tapes(&s).await;
    s.rolled(&d, "i:2").await;
    let [deployments, sets] = written(&s, tapes).await;
    // One of them is the test's own.
    let (ours, theirs) = (deployments.len() - 1, sets.len());
    println!("a rollout of 10 pods: the Deployment was written {ours} times, its ReplicaSets {theirs} times");
    assert_eq!(s.pods("i:2").await.len(), 10);
    s.sized(&d, &[("i:1", 0), ("i:2", 10)]).await;
}

/// All of them are made at once, and the test makes all of them Ready. The writes are printed here, and counted on a paused
/// clock in `suite/deployment/rollouts.rs`.
async fn a_rollout_of_ten_at_once_costs_little(s: Stage) {
    let d = s
        .create(with(with(deployment("a", 10), elsewhere()), steps("100%", 0)))
        .await;
    s.make_ready("i:1", 10).await;
    s.complete(&d).await;
    let (mut of_deployment, mut of_sets) = (Vec::new(), Vec::new());
    for number in 2..=4 {
        let tapes = tapes(&s).await;
        let image_now = format!("i:{number}");
        s.change(&d, image(&image_now)).await;
        s.make_ready(&image_now, 10).await;
        s.complete(&d).await;
        let [deployments, sets] = written(&s, tapes).await;
        assert_eq!(s.pods(&image_now).await.len(), 10);
        // One of them is the test's own.
        of_deployment.push(deployments.len() - 1);
        of_sets.push(sets.len());
    }
    println!(
        "all at once: the Deployment was written {of_deployment:?} times, its ReplicaSets {of_sets:?} times"
    );
}
