//! Revisions of templates.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{
    REVISION, annotated, annotation, deployment, image, name, reason, replica_set, revision,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(each_template_gets_the_next_revision),
        fixture_test!(repeated_template_gets_a_new_revision_and_history),
        fixture_test!(history_is_truncated),
        fixture_test!(revision_is_64_bit),
        fixture_test!(invalid_revision_is_ignored),
        fixture_test!(invalid_revision_of_the_current_set_is_kept),
        fixture_test!(removed_revision_is_restored),
        fixture_test!(revision_of_the_deployment_follows_its_set),
        fixture_test!(equivalent_template_does_not_start_a_rollout),
    ]
}

/// The revisions that a `ReplicaSet` had before.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

async fn each_template_gets_the_next_revision(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    for number in 2..=4 {
        let now = s.rolled_out(&d, &format!("i:{number}")).await;
        assert_eq!(revision(&now), number.to_string());
    }
    let sets = s.sets(&d).await;
    let numbers: Vec<String> = sets.iter().map(revision).collect();
    assert_eq!(numbers, ["1", "2", "3", "4"]);
    assert!(
        sets.iter().all(|set| annotation(set, HISTORY).is_empty()),
        "{sets:#?}"
    );
}

async fn repeated_template_gets_a_new_revision_and_history(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    for to in ["i:2", "i:1", "i:2", "i:1"] {
        s.rolled_out(&d, to).await;
    }
    assert_eq!(revision(&s.get(&d).await), "5");
    let first = s.set_of(&d, "i:1").await;
    assert_eq!(
        (revision(&first), annotation(&first, HISTORY)),
        ("5".to_owned(), "1,3".to_owned())
    );
    let second = s.set_of(&d, "i:2").await;
    assert_eq!(
        (revision(&second), annotation(&second, HISTORY)),
        ("4".to_owned(), "2".to_owned())
    );
}

async fn history_is_truncated(s: Fixture) {
    let d = s.completed(deployment("a", 0)).await;
    s.rolled_out(&d, "i:2").await;
    let first = name(&s.set_of(&d, "i:1").await);
    // 1999 characters: another revision drops the first one.
    let history = vec!["123"; 500].join(",");
    s.change_set(&first, annotated(json!({HISTORY: history}))).await;
    s.rolled_out(&d, "i:1").await;
    let now = annotation(&s.get_set(&first).await, HISTORY);
    assert_eq!(now, format!("{},1", vec!["123"; 499].join(",")));
}

async fn revision_is_64_bit(s: Fixture) {
    let wide = 3_546_343_826_724_305_832_u64;
    let old = with(replica_set("a", "old", 0), image("i:0"));
    s.create_set(with(old, annotated(json!({REVISION: wide.to_string()}))))
        .await;
    let d = s.completed(deployment("a", 1)).await;
    assert_eq!(revision(&s.get(&d).await), (wide + 1).to_string());
    assert_eq!(revision(&s.set_of(&d, "i:1").await), (wide + 1).to_string());
}

async fn invalid_revision_is_ignored(s: Fixture) {
    for (set, number) in [("old-1", "many"), ("old-2", "7"), ("old-3", "")] {
        let old = with(replica_set("a", set, 0), image(&format!("i:{set}")));
        s.create_set(with(old, annotated(json!({REVISION: number}))))
            .await;
    }
    let d = s.completed(deployment("a", 1)).await;
    assert_eq!(revision(&s.get(&d).await), "8");
    assert_eq!(revision(&s.get_set("old-1").await), "many");
}

async fn invalid_revision_of_the_current_set_is_kept(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({REVISION: "many"}))).await;
    s.synced(&d).await;
    assert_eq!(revision(&s.get_set(&set).await), "many");
    // It does not affect other ReplicaSets.
    s.rolled_out(&d, "i:2").await;
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 1)]).await;
}

async fn removed_revision_is_restored(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled_out(&d, "i:2").await;
    let set = name(&s.set_of(&d, "i:2").await);
    s.change_set(&set, annotated(json!({REVISION: null}))).await;
    let now = s.set_is(&set, "has it again", |set| revision(set) == "2").await;
    assert_eq!(annotation(&now, HISTORY), "");
}

async fn revision_of_the_deployment_follows_its_set(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let generation = s.get(&d).await["metadata"]["generation"].clone();
    let set = name(&s.set_of(&d, "i:1").await);
    s.change_set(&set, annotated(json!({REVISION: "9"}))).await;
    let now = s
        .until("it has it too", async || {
            let now = s.get(&d).await;
            (revision(&now) == "9").then_some(now)
        })
        .await;
    // The write does not change the generation.
    assert_eq!(now["metadata"]["generation"], generation);
    let now = s.rolled_out(&d, "i:2").await;
    assert_eq!(revision(&now), "10");
}

/// Quantities, times and empty lists have several forms.
async fn equivalent_template_does_not_start_a_rollout(s: Fixture) {
    let written = |cpu: &str, memory: &str, empty: Value| {
        let container = json!({
            "name": "c", "image": "i:1", "env": empty, "resources": {"requests": {"cpu": cpu, "memory": memory}},
        });
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let first = written("1500m", "1024Mi", json!([]));
    s.create_set(with(replica_set("a", "old", 1), first.clone()))
        .await;
    let d = s
        .completed(with(deployment("a", 1), written("1.5", "1Gi", Value::Null)))
        .await;
    assert_eq!(s.sets(&d).await.len(), 1);
    s.change(&d, first).await;
    let now = s.synced(&d).await;
    assert_eq!(s.sets(&d).await.len(), 1);
    assert_eq!(reason(&now, "Progressing"), "NewReplicaSetAvailable");
    assert_eq!(s.all_pods().await.len(), 1);
}
