//! What it costs: seen by somebody who watches.

use coxswain_tests::fixtures::with;
use coxswain_tests::{Need, Test};
use serde_json::json;

use super::objects::{BAD, deployment, elsewhere, image, name, names, steps};
use super::stage::Stage;
use super::tape::{Recorded, Tape};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(a_steady_one_is_not_written),
        staged!(a_stuck_one_is_not_written),
        staged!(a_rollout_of_ten_is_told),
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

/// Each wave is made Ready by the test, all at once; what is counted is printed.
async fn a_rollout_of_ten_is_told(s: Stage) {
    let d = s.completed(deployment("a", 10)).await;
    let tapes = tapes(&s).await;
    s.rolled(&d, "i:2").await;
    s.looked_at(&d).await;
    let [deployments, sets] = written(&s, tapes).await;
    println!(
        "a rollout of 10 pods: the Deployment was written {} times, its ReplicaSets {} times",
        deployments.len() - 5,
        sets.len()
    );
    assert_eq!(names(&s.pods("i:2").await).len(), 10);
    // In the worst case each pod is a step: one down, one up, and what each of the three then says.
    assert!(deployments.len() + sets.len() < 150, "{deployments:?} {sets:?}");
}

async fn a_rollout_of_ten_at_once_costs_little(s: Stage) {
    let d = s
        .create(with(with(deployment("a", 10), elsewhere()), steps("100%", 0)))
        .await;
    s.make_ready("i:1", 10).await;
    s.complete(&d).await;
    let tapes = tapes(&s).await;
    s.change(&d, image("i:2")).await;
    s.make_ready("i:2", 10).await;
    s.complete(&d).await;
    let [deployments, sets] = written(&s, tapes).await;
    println!("at once: {} and {}", deployments.len(), sets.len());
    assert!(deployments.len() + sets.len() <= 60, "{deployments:?} {sets:?}");
}
