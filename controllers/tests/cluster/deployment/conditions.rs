//! The order and the times of conditions.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    BAD, NEVER, condition, condition_fields, deployment, elsewhere, image, name, reason, steps, text,
};
use super::recorder::{Recording, WatchRecorder};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(progressing_reasons_follow_the_rollout),
        fixture_test!(existing_set_is_reported_as_found),
        fixture_test!(available_follows_min_available),
        fixture_test!(scaling_keeps_the_rollout_complete),
        fixture_test!(messages_name_the_current_set),
    ]
}

/// Returns the sequence of Progressing conditions.
fn distinct(recorded: &Recording, d: &Deployment) -> Vec<[String; 3]> {
    let mut story = recorded.distinct(|it| {
        if name(it) == d.name {
            condition_fields(it, "Progressing")
        } else {
            Default::default()
        }
    });
    story.retain(|it| !it[1].is_empty());
    story.dedup();
    story
}

async fn progressing_reasons_follow_the_rollout(s: Fixture) {
    let tape = WatchRecorder::of(&s, "deployments").await;
    let d = s
        .create(with(with(deployment("a", 2), elsewhere()), steps(1, 0)))
        .await;
    s.make_ready("i:1", 1).await;
    s.has_reason(&d, "Progressing", "ReplicaSetUpdated").await;
    s.make_ready("i:1", 1).await;
    s.complete(&d).await;
    let set = name(&s.set_of(&d, "i:1").await);
    let recorded = tape.stop(&s).await;
    let wanted = [
        [
            "True",
            "NewReplicaSetCreated",
            &format!("Created new replica set \"{set}\""),
        ],
        [
            "True",
            "ReplicaSetUpdated",
            &format!("ReplicaSet \"{set}\" is progressing."),
        ],
        [
            "True",
            "NewReplicaSetAvailable",
            &format!("ReplicaSet \"{set}\" has successfully progressed."),
        ],
    ];
    assert_eq!(distinct(&recorded, &d), wanted.map(|it| it.map(str::to_owned)));
    // The status was True all the time.
    let times = recorded
        .distinct(|it| condition(&it["status"], "Progressing").map(|it| text(&it["lastTransitionTime"])));
    assert!(times.iter().flatten().count() == 1, "{times:?}");

    let tape = WatchRecorder::of(&s, "deployments").await;
    s.change(&d, image("i:2")).await;
    for _ in 0..2 {
        s.make_ready("i:2", 1).await;
    }
    s.complete(&d).await;
    let story = distinct(&tape.stop(&s).await, &d);
    let reasons: Vec<&str> = story.iter().map(|it| &*it[1]).collect();
    // The first write may have been a label only.
    let reasons = reasons
        .strip_prefix(&["NewReplicaSetAvailable"])
        .unwrap_or(&reasons);
    assert_eq!(
        reasons,
        [
            "NewReplicaSetCreated",
            "ReplicaSetUpdated",
            "NewReplicaSetAvailable"
        ]
    );
}

async fn existing_set_is_reported_as_found(s: Fixture) {
    let none = json!({"spec": {"progressDeadlineSeconds": NEVER}});
    let d = s.create(with(with(deployment("a", 1), image(BAD)), none)).await;
    let set = name(&s.has_set(&d).await);
    s.status(&d, "the pod is counted", |status| status["updatedReplicas"] == 1)
        .await;
    s.change(&d, json!({"spec": {"progressDeadlineSeconds": 600}}))
        .await;
    let now = s.has_reason(&d, "Progressing", "FoundNewReplicaSet").await;
    let message = format!("Found new replica set \"{set}\"");
    assert_eq!(
        condition_fields(&now, "Progressing"),
        ["True", "FoundNewReplicaSet", &message]
    );
    let now = s.synced(&d).await;
    assert_eq!(reason(&now, "Progressing"), "FoundNewReplicaSet");
}

/// With 4 replicas one pod may be unavailable.
async fn available_follows_min_available(s: Fixture) {
    let d = s.create(with(deployment("a", 4), elsewhere())).await;
    let is = |now: &Value| {
        let it = condition(&now["status"], "Available")
            .cloned()
            .unwrap_or_default();
        (
            condition_fields(now, "Available"),
            it["lastTransitionTime"].clone(),
        )
    };
    let up = [
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    ];
    let down = [
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    ];
    for (ready, wanted) in [(1, down), (2, down), (3, up), (4, up)] {
        s.make_ready("i:1", 1).await;
        let now = s
            .status(&d, "so many", |status| status["availableReplicas"] == ready)
            .await;
        assert_eq!(is(&now).0, wanted, "{now:#}");
    }
    let since = is(&s.get(&d).await).1;
    for (pod, wanted) in s.pods("i:1").await.iter().zip([up, down]) {
        s.later_than(&json!({"metadata": {"creationTimestamp": since}}))
            .await;
        s.change_pod(pod, json!({"conditions": [s.ready("False")]})).await;
        let left = if wanted == up { 3 } else { 2 };
        let now = s
            .status(&d, "one is missing", |status| status["availableReplicas"] == left)
            .await;
        assert_eq!(is(&now).0, wanted, "{now:#}");
        assert_eq!(is(&now).1 == since, wanted == up, "{now:#}");
    }
}

async fn scaling_keeps_the_rollout_complete(s: Fixture) {
    let d = s.create(with(deployment("a", 1), elsewhere())).await;
    s.make_ready("i:1", 1).await;
    s.complete(&d).await;
    let before = condition(&s.get(&d).await["status"], "Progressing").cloned();
    s.scale(&d, 3).await;
    s.has_pods("i:1", 3).await;
    let now = s.synced(&d).await;
    assert_eq!(condition(&now["status"], "Progressing").cloned(), before);
    assert_eq!(reason(&now, "Available"), "MinimumReplicasUnavailable");
}

async fn messages_name_the_current_set(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    for image in ["i:2", "i:1"] {
        let now = s.rolled_out(&d, image).await;
        let set = name(&s.set_of(&d, image).await);
        let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
        assert_eq!(condition_fields(&now, "Progressing")[2], message);
    }
}
