//! Conditions in the order in which they come, and their times.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{BAD, NEVER, condition, deployment, elsewhere, image, name, reason, said, steps, text};
use super::stage::{Deployment, Stage};
use super::tape::{Recorded, Tape};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(from_the_first_to_the_last),
        staged!(one_that_is_found),
        staged!(available_or_not),
        staged!(a_scaled_one_stays_complete),
        staged!(messages_name_the_replica_set_of_now),
    ]
}

/// What was said of Progressing, one after the other.
fn story(recorded: &Recorded, d: &Deployment) -> Vec<[String; 3]> {
    let mut story = recorded.story(|it| {
        if name(it) == d.name {
            said(it, "Progressing")
        } else {
            Default::default()
        }
    });
    story.retain(|it| !it[1].is_empty());
    story.dedup();
    story
}

async fn from_the_first_to_the_last(s: Stage) {
    let tape = Tape::of(&s, "deployments").await;
    let d = s
        .create(with(with(deployment("a", 2), elsewhere()), steps(1, 0)))
        .await;
    s.make_ready("i:1", 1).await;
    s.says(&d, "Progressing", "ReplicaSetUpdated").await;
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
    assert_eq!(story(&recorded, &d), wanted.map(|it| it.map(str::to_owned)));
    // It was True all the time.
    let times = recorded
        .story(|it| condition(&it["status"], "Progressing").map(|it| text(&it["lastTransitionTime"])));
    assert!(times.iter().flatten().count() == 1, "{times:?}");

    let tape = Tape::of(&s, "deployments").await;
    s.change(&d, image("i:2")).await;
    for _ in 0..2 {
        s.make_ready("i:2", 1).await;
    }
    s.complete(&d).await;
    let story = story(&tape.stop(&s).await, &d);
    let reasons: Vec<&str> = story.iter().map(|it| &*it[1]).collect();
    // A label may have been all that was written first.
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

/// There was nothing to be told before, and nothing has moved since.
async fn one_that_is_found(s: Stage) {
    let none = json!({"spec": {"progressDeadlineSeconds": NEVER}});
    let d = s.create(with(with(deployment("a", 1), image(BAD)), none)).await;
    let set = name(&s.has_set(&d).await);
    s.status(&d, "the pod is counted", |status| status["updatedReplicas"] == 1)
        .await;
    s.change(&d, json!({"spec": {"progressDeadlineSeconds": 600}}))
        .await;
    let now = s.says(&d, "Progressing", "FoundNewReplicaSet").await;
    let message = format!("Found new replica set \"{set}\"");
    assert_eq!(
        said(&now, "Progressing"),
        ["True", "FoundNewReplicaSet", &message]
    );
    let now = s.looked_at(&d).await;
    assert_eq!(reason(&now, "Progressing"), "FoundNewReplicaSet");
}

/// With a quarter of four missing it still is.
async fn available_or_not(s: Stage) {
    let d = s.create(with(deployment("a", 4), elsewhere())).await;
    let is = |now: &Value| {
        let it = condition(&now["status"], "Available")
            .cloned()
            .unwrap_or_default();
        (said(now, "Available"), it["lastTransitionTime"].clone())
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

/// That it is scaled is no rollout.
async fn a_scaled_one_stays_complete(s: Stage) {
    let d = s.create(with(deployment("a", 1), elsewhere())).await;
    s.make_ready("i:1", 1).await;
    s.complete(&d).await;
    let before = condition(&s.get(&d).await["status"], "Progressing").cloned();
    s.scale(&d, 3).await;
    s.has_pods("i:1", 3).await;
    let now = s.looked_at(&d).await;
    assert_eq!(condition(&now["status"], "Progressing").cloned(), before);
    assert_eq!(reason(&now, "Available"), "MinimumReplicasUnavailable");
}

async fn messages_name_the_replica_set_of_now(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    for image in ["i:2", "i:1"] {
        let now = s.rolled(&d, image).await;
        let set = name(&s.set_of(&d, image).await);
        let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
        assert_eq!(said(&now, "Progressing")[2], message);
    }
}
