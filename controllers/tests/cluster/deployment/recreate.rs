//! The strategy that ends all pods before it makes any.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    BAD, DESIRED, MAX, annotation, counter_of, deployment, elsewhere, image, image_of, name, names, recreate,
    revision, said, steps,
};
use super::stage::{Deployment, Stage};
use super::tape::Tape;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(no_new_pod_before_the_last_old_one_is_gone),
        staged!(waits_for_the_end_of_those_that_terminate),
        staged!(finished_pods_do_not_hold_it_up),
        staged!(takes_up_what_it_has_of_a_template),
        staged!(is_only_available_with_all),
        staged!(a_change_of_the_strategy_is_no_rollout),
        staged!(scales_as_any_other),
        staged!(what_is_half_way_is_ended_first),
    ]
}

async fn no_new_pod_before_the_last_old_one_is_gone(s: Stage) {
    let d = s.completed(with(deployment("a", 3), recreate())).await;
    let (pods, sets) = (Tape::of(&s, "pods").await, Tape::of(&s, "replicasets").await);
    let now = s.rolled(&d, "i:2").await;
    assert_eq!(revision(&now), "2");
    pods.stop(&s).await.replay(|now| {
        let of = |image: &str| now.values().filter(|pod| image_of(pod) == image).count();
        assert!(
            of("i:1") == 0 || of("i:2") == 0,
            "{} and {}",
            of("i:1"),
            of("i:2")
        );
    });
    let second = |it: &Value| (revision(it) == "2").then(|| counter_of(&it["spec"], "replicas"));
    let sizes: Vec<u64> = sets.stop(&s).await.story(second).into_iter().flatten().collect();
    assert!(sizes.iter().all(|it| *it == 3), "{sizes:?}");
    s.sized(&d, &[("i:1", 0), ("i:2", 3)]).await;
    let (first, second) = (s.set_of(&d, "i:1").await, s.set_of(&d, "i:2").await);
    let down = format!("Scaled down replica set {} from 3 to 0", name(&first));
    let up = format!("Scaled up replica set {} from 0 to 3", name(&second));
    for message in [down, up] {
        s.event(&d, "Normal", "ScalingReplicaSet", &message).await;
    }
}

/// A Deployment whose pods are on the test's own node, and Ready.
async fn staged(s: &Stage, replicas: u32) -> Deployment {
    let d = s
        .create(with(with(deployment("a", replicas), elsewhere()), recreate()))
        .await;
    s.make_ready("i:1", usize::try_from(replicas).expect("few")).await;
    s.complete(&d).await;
    d
}

async fn waits_for_the_end_of_those_that_terminate(s: Stage) {
    let d = staged(&s, 2).await;
    s.change(&d, image("i:2")).await;
    // Nothing but the old one, of which nothing is wanted.
    s.sized(&d, &[("i:1", 0)]).await;
    s.has_pods("i:1", 0).await;
    s.says(&d, "Available", "MinimumReplicasUnavailable").await;
    let pods = s.all_pods().await;
    assert_eq!(pods.len(), 2);
    s.end(&pods[0]).await;
    s.sized(&d, &[("i:1", 0)]).await;
    // The last one wakes it.
    s.end(&pods[1]).await;
    s.has_pods("i:2", 2).await;
    s.sized(&d, &[("i:1", 0), ("i:2", 2)]).await;
    s.make_ready("i:2", 2).await;
    s.complete(&d).await;
}

async fn finished_pods_do_not_hold_it_up(s: Stage) {
    let d = staged(&s, 2).await;
    let pods = s.pods("i:1").await;
    for (pod, phase) in pods.iter().zip(["Failed", "Succeeded"]) {
        s.change_pod(pod, json!({"phase": phase})).await;
    }
    let four = s.has_pods("i:1", 4).await;
    s.change(&d, image("i:2")).await;
    s.sized(&d, &[("i:1", 0)]).await;
    s.has_pods("i:1", 2).await;
    for pod in four.iter().filter(|pod| !names(&pods).contains(&name(pod))) {
        s.end(pod).await;
    }
    s.has_pods("i:2", 2).await;
    assert_eq!(names(&s.pods("i:1").await), names(&pods));
}

async fn takes_up_what_it_has_of_a_template(s: Stage) {
    let d = s.completed(with(deployment("a", 2), recreate())).await;
    s.rolled(&d, "i:2").await;
    let now = s.rolled(&d, "i:1").await;
    assert_eq!(revision(&now), "3");
    s.sized(&d, &[("i:1", 2), ("i:2", 0)]).await;
    assert_eq!(s.sets(&d).await.len(), 2);
}

async fn is_only_available_with_all(s: Stage) {
    let d = s
        .create(with(with(deployment("a", 3), elsewhere()), recreate()))
        .await;
    s.make_ready("i:1", 2).await;
    let now = s
        .status(&d, "two are available", |status| {
            counter_of(status, "availableReplicas") == 2
        })
        .await;
    let missing = "Deployment does not have minimum availability.";
    assert_eq!(
        said(&now, "Available"),
        ["False", "MinimumReplicasUnavailable", missing]
    );
    s.make_ready("i:1", 1).await;
    s.says(&d, "Available", "MinimumReplicasAvailable").await;
}

async fn a_change_of_the_strategy_is_no_rollout(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let pods = names(&s.all_pods().await);
    s.change(&d, recreate()).await;
    s.looked_at(&d).await;
    s.change(&d, steps(1, 0)).await;
    s.looked_at(&d).await;
    assert_eq!(names(&s.all_pods().await), pods);
    assert_eq!(s.sets(&d).await.len(), 1);
}

async fn scales_as_any_other(s: Stage) {
    let d = s.completed(with(deployment("a", 2), recreate())).await;
    for replicas in [4, 1, 0, 2] {
        s.scale(&d, replicas).await;
        s.complete(&d).await;
        s.sized(&d, &[("i:1", replicas.into())]).await;
    }
    // No surge.
    let set = s.set_of(&d, "i:1").await;
    let kept = [DESIRED, MAX].map(|key| annotation(&set, key));
    assert_eq!(kept, ["2", "2"]);
}

async fn what_is_half_way_is_ended_first(s: Stage) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    let pods = Tape::of(&s, "pods").await;
    s.change(&d, with(recreate(), image("i:3"))).await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 0), (BAD, 0), ("i:3", 3)]).await;
    pods.stop(&s).await.replay(|now| {
        let new = now.values().filter(|pod| image_of(pod) == "i:3").count();
        assert!(new == 0 || new == now.len(), "{new} of {}", now.len());
    });
}
