//! Rollback by the deprecated annotation.

use serde_json::{Value, json};
use steersman_harness::fixtures::with;
use steersman_harness::{Need, Test};

use super::fixture::{Deployment, Fixture};
use super::objects::{HASH, REVISION, annotated, annotation, deployment, image, image_of, revision};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(rollback_to_a_revision),
        fixture_test!(rollback_to_the_previous_revision),
        fixture_test!(rollback_restores_annotations),
        fixture_test!(rollback_to_an_unknown_revision_is_reported),
        fixture_test!(rollback_without_a_previous_revision_is_reported),
        fixture_test!(rollback_to_the_same_template_is_reported),
        // A real API server rejects an invalid number.
        fixture_test!(invalid_rollback_revision_is_ignored).needs(Need::Sandbox),
        fixture_test!(paused_deployment_is_not_rolled_back),
    ]
}

const BACK: &str = "deprecated.deployment.rollback.to";

/// Requests a rollback and waits until the request is removed.
async fn back(s: &Fixture, d: &Deployment, to: &str) -> Value {
    s.change(d, annotated(json!({BACK: to}))).await;
    s.until("it is answered", async || {
        let now = s.get(d).await;
        now["metadata"]["annotations"][BACK].is_null().then_some(now)
    })
    .await
}

async fn three(s: &Fixture) -> Deployment {
    let d = s.completed(deployment("a", 1)).await;
    for to in ["i:2", "i:3"] {
        s.rolled_out(&d, to).await;
    }
    d
}

async fn rollback_to_a_revision(s: Fixture) {
    let d = three(&s).await;
    let template = s.set_of(&d, "i:1").await["spec"]["template"].clone();
    back(&s, &d, "1").await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "4");
    let without = json!({"metadata": {"labels": {HASH: null}}});
    assert_eq!(now["spec"]["template"], with(template, without));
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 0), ("i:3", 0)]).await;
    s.event(
        &d,
        "Normal",
        "DeploymentRollback",
        "Rolled back deployment \"a\" to revision 1",
    )
    .await;
}

async fn rollback_to_the_previous_revision(s: Fixture) {
    let d = three(&s).await;
    back(&s, &d, "0").await;
    let now = s.complete(&d).await;
    assert_eq!(
        (image_of(&now["spec"]["template"]), revision(&now)),
        ("i:2".to_owned(), "4".to_owned())
    );
    s.event(
        &d,
        "Normal",
        "DeploymentRollback",
        "Rolled back deployment \"a\" to revision 2",
    )
    .await;
}

async fn rollback_restores_annotations(s: Fixture) {
    let note = |note: &str| annotated(json!({"example.com/note": note}));
    let d = s.completed(with(deployment("a", 1), note("first"))).await;
    let applied = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/more": "x"});
    s.change(&d, with(image("i:2"), with(note("second"), annotated(applied))))
        .await;
    s.complete(&d).await;
    back(&s, &d, "1").await;
    let now = s.complete(&d).await;
    let wanted = json!({
        "example.com/note": "first", "kubectl.kubernetes.io/last-applied-configuration": "{}", REVISION: "3",
    });
    assert_eq!(now["metadata"]["annotations"], wanted);
    assert_eq!(
        annotation(&s.set_of(&d, "i:1").await, "example.com/note"),
        "first"
    );
    assert_eq!(
        annotation(&s.set_of(&d, "i:2").await, "example.com/note"),
        "second"
    );
}

async fn rollback_to_an_unknown_revision_is_reported(s: Fixture) {
    let d = three(&s).await;
    let before = s.get(&d).await;
    let now = back(&s, &d, "77").await;
    assert_eq!(now["spec"], before["spec"]);
    let message = "Unable to find the revision to rollback to.";
    s.event(&d, "Warning", "DeploymentRollbackRevisionNotFound", message)
        .await;
    assert_eq!(revision(&s.complete(&d).await), "3");
}

async fn rollback_without_a_previous_revision_is_reported(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let before = s.get(&d).await;
    let now = back(&s, &d, "0").await;
    assert_eq!(now["spec"], before["spec"]);
    let message = "Unable to find last revision.";
    s.event(&d, "Warning", "DeploymentRollbackRevisionNotFound", message)
        .await;
}

async fn rollback_to_the_same_template_is_reported(s: Fixture) {
    let d = three(&s).await;
    let before = s.get(&d).await;
    let now = back(&s, &d, "3").await;
    assert_eq!(now["spec"], before["spec"]);
    let message = "The rollback revision contains the same template as current deployment \"a\"";
    s.event(&d, "Warning", "DeploymentRollbackTemplateUnchanged", message)
        .await;
    assert_eq!(revision(&s.complete(&d).await), "3");
}

async fn invalid_rollback_revision_is_ignored(s: Fixture) {
    let d = three(&s).await;
    s.change(&d, annotated(json!({BACK: "back"}))).await;
    let now = s.synced(&d).await;
    assert_eq!(annotation(&now, BACK), "back");
    // It does not block a rollout and is not copied.
    s.rolled_out(&d, "i:4").await;
    assert_eq!(annotation(&s.set_of(&d, "i:4").await, BACK), "");
}

async fn paused_deployment_is_not_rolled_back(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled_out(&d, "i:2").await;
    s.change(&d, json!({"spec": {"paused": true}})).await;
    s.change(&d, annotated(json!({BACK: "1"}))).await;
    let now = s.synced(&d).await;
    assert_eq!(annotation(&now, BACK), "1");
    s.change(&d, json!({"spec": {"paused": false}})).await;
    s.until("it is answered", async || {
        annotation(&s.get(&d).await, BACK).is_empty().then_some(())
    })
    .await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 1), ("i:2", 0)]).await;
}
