//! Scaling of a Deployment with one active `ReplicaSet`.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::{MERGE, with};

use super::fixture::Fixture;
use super::objects::{
    BAD, DESIRED, MAX, REVISION, annotated, annotation, condition_fields, counter_of, deployment, elsewhere,
    image, image_of, name, names, replica_set, revision, steps,
};
use super::recorder::WatchRecorder;

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(scale_up_down_to_zero_and_back),
        fixture_test!(scale_by_the_scale_subresource),
        fixture_test!(scale_with_a_new_template),
        fixture_test!(scale_at_the_end_of_a_rollout_removes_old_pods),
        fixture_test!(scale_to_zero_during_a_rollout),
        fixture_test!(scaling_updates_the_max_replicas_annotation),
        fixture_test!(scale_from_zero_without_a_current_set),
        fixture_test!(set_at_the_desired_size_is_not_written),
    ]
}

async fn scale_up_down_to_zero_and_back(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), steps("50%", 0))).await;
    let set = name(&s.set_of(&d, "i:1").await);
    let mut from = 2;
    for (to, max) in [(4, "6"), (1, "2"), (0, "0"), (3, "5")] {
        s.scale(&d, to).await;
        let now = s.complete(&d).await;
        assert_eq!(condition_fields(&now, "Available")[0], "True", "{now:#}");
        assert_eq!(revision(&now), "1");
        let now = s.get_set(&set).await;
        assert_eq!(
            [DESIRED, MAX].map(|key| annotation(&now, key)),
            [&to.to_string(), max]
        );
        let how = if to > from { "up" } else { "down" };
        let message = format!("Scaled {how} replica set {set} from {from} to {to}");
        s.event(&d, "Normal", "ScalingReplicaSet", &message).await;
        from = to;
    }
    assert_eq!(s.all_sets().await.len(), 1);
    assert_eq!(s.events(&d).await.len(), 5);
}

async fn scale_by_the_scale_subresource(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let path = format!("{}/scale", d.path);
    let change = json!({"spec": {"replicas": 3}});
    s.c.api().patch(&path, MERGE, change).await.expect(200);
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 3)]).await;
    let scale = s.c.api().get(&path).await.expect(200);
    assert_eq!(scale["status"]["replicas"], 3, "{scale:#}");
    assert_eq!(scale["status"]["selector"], "app=a", "{scale:#}");
}

/// The old `ReplicaSet` is scaled first, so maxSurge is relative to the new size.
async fn scale_with_a_new_template(s: Fixture) {
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    let tape = WatchRecorder::of(&s, "replicasets").await;
    s.change(&d, with(image("i:2"), json!({"spec": {"replicas": 4}})))
        .await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 4)]).await;
    let story = tape
        .stop(&s)
        .await
        .distinct(|set| (image_of(&set["spec"]["template"]), annotation(set, DESIRED)));
    let scaled = story
        .iter()
        .position(|it| *it == ("i:1".to_owned(), "4".to_owned()));
    let made = story.iter().position(|it| it.0 == "i:2");
    assert!(
        scaled.expect("it was scaled") < made.expect("it was made"),
        "{story:?}"
    );
}

/// The new `ReplicaSet` has all desired pods, so the old ones are scaled to 0.
async fn scale_at_the_end_of_a_rollout_removes_old_pods(s: Fixture) {
    let d = s
        .create(with(with(deployment("a", 2), elsewhere()), steps(2, 0)))
        .await;
    s.make_ready("i:1", 2).await;
    s.complete(&d).await;
    s.change(&d, image("i:2")).await;
    s.has_sizes(&d, &[("i:1", 2), ("i:2", 2)]).await;
    s.change(&d, json!({"spec": {"paused": true}})).await;
    s.has_reason(&d, "Progressing", "DeploymentPaused").await;
    s.make_ready("i:2", 2).await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 2)]).await;
}

async fn scale_to_zero_during_a_rollout(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.scale(&d, 0).await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 0)]).await;
    // Scaling up again uses the new ReplicaSet only.
    s.scale(&d, 2).await;
    s.has_pods(BAD, 2).await;
    s.has_sizes(&d, &[("i:1", 0), (BAD, 2)]).await;
}

/// A change of maxSurge alone does not update it.
async fn scaling_updates_the_max_replicas_annotation(s: Fixture) {
    let d = s.completed(with(deployment("a", 4), steps(1, 0))).await;
    let set = name(&s.set_of(&d, "i:1").await);
    assert_eq!(annotation(&s.get_set(&set).await, MAX), "5");
    s.change(&d, steps(3, 0)).await;
    s.synced(&d).await;
    assert_eq!(annotation(&s.get_set(&set).await, MAX), "5");
    s.scale(&d, 5).await;
    s.complete(&d).await;
    assert_eq!(annotation(&s.get_set(&set).await, MAX), "8");
}

/// A paused Deployment creates none, so the newest existing one is scaled.
async fn scale_from_zero_without_a_current_set(s: Fixture) {
    for number in 1..=2 {
        let old = with(
            replica_set("a", &format!("old-{number}"), 0),
            image(&format!("i:-{number}")),
        );
        s.create_set(with(old, annotated(json!({REVISION: number.to_string()}))))
            .await;
    }
    let body = with(deployment("a", 2), json!({"spec": {"paused": true}}));
    let d = s.create(body).await;
    s.has_sizes(&d, &[("i:-1", 0), ("i:-2", 2)]).await;
    s.has_pods("i:-2", 2).await;
}

async fn set_at_the_desired_size_is_not_written(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    let before = s.all_pods().await;
    s.scale(&d, 5).await;
    s.complete(&d).await;
    let now = names(&s.all_pods().await);
    assert!(names(&before).is_subset(&now) && now.len() == 5, "{now:?}");
    let sizes: Vec<u64> = s
        .sets(&d)
        .await
        .iter()
        .map(|set: &Value| counter_of(&set["spec"], "replicas"))
        .collect();
    assert_eq!(sizes, [5]);
}
