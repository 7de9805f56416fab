//! The old way to ask for a rollback: by an annotation.

use coxswain_tests::fixtures::with;
use coxswain_tests::{Need, Test};
use serde_json::{Value, json};

use super::objects::{HASH, REVISION, annotated, annotation, deployment, image, image_of, revision};
use super::stage::{Deployment, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(to_a_revision),
        staged!(to_the_last_one),
        staged!(with_the_annotations_of_then),
        staged!(to_one_that_is_not_there),
        staged!(to_the_last_one_where_there_is_none),
        staged!(to_the_same),
        // A real server reads it too, and refuses what is no number.
        staged!(what_is_no_number_is_no_request).needs(Need::Sandbox),
        staged!(not_while_it_is_paused),
    ]
}

const BACK: &str = "deprecated.deployment.rollback.to";

/// Asks for a rollback, and waits until that is answered.
async fn back(s: &Stage, d: &Deployment, to: &str) -> Value {
    s.change(d, annotated(json!({BACK: to}))).await;
    s.until("it is answered", async || {
        let now = s.get(d).await;
        now["metadata"]["annotations"][BACK].is_null().then_some(now)
    })
    .await
}

async fn three(s: &Stage) -> Deployment {
    let d = s.completed(deployment("a", 1)).await;
    for to in ["i:2", "i:3"] {
        s.rolled(&d, to).await;
    }
    d
}

async fn to_a_revision(s: Stage) {
    let d = three(&s).await;
    let template = s.set_of(&d, "i:1").await["spec"]["template"].clone();
    back(&s, &d, "1").await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "4");
    let without = json!({"metadata": {"labels": {HASH: null}}});
    assert_eq!(now["spec"]["template"], with(template, without));
    s.sized(&d, &[("i:1", 1), ("i:2", 0), ("i:3", 0)]).await;
    s.event(
        &d,
        "Normal",
        "DeploymentRollback",
        "Rolled back deployment \"a\" to revision 1",
    )
    .await;
}

async fn to_the_last_one(s: Stage) {
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

async fn with_the_annotations_of_then(s: Stage) {
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

async fn to_one_that_is_not_there(s: Stage) {
    let d = three(&s).await;
    let before = s.get(&d).await;
    let now = back(&s, &d, "77").await;
    assert_eq!(now["spec"], before["spec"]);
    let message = "Unable to find the revision to rollback to.";
    s.event(&d, "Warning", "DeploymentRollbackRevisionNotFound", message)
        .await;
    assert_eq!(revision(&s.complete(&d).await), "3");
}

async fn to_the_last_one_where_there_is_none(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    let before = s.get(&d).await;
    let now = back(&s, &d, "0").await;
    assert_eq!(now["spec"], before["spec"]);
    let message = "Unable to find last revision.";
    s.event(&d, "Warning", "DeploymentRollbackRevisionNotFound", message)
        .await;
}

async fn to_the_same(s: Stage) {
    let d = three(&s).await;
    let before = s.get(&d).await;
    let now = back(&s, &d, "3").await;
    assert_eq!(now["spec"], before["spec"]);
    let message = "The rollback revision contains the same template as current deployment \"a\"";
    s.event(&d, "Warning", "DeploymentRollbackTemplateUnchanged", message)
        .await;
    assert_eq!(revision(&s.complete(&d).await), "3");
}

async fn what_is_no_number_is_no_request(s: Stage) {
    let d = three(&s).await;
    s.change(&d, annotated(json!({BACK: "back"}))).await;
    let now = s.looked_at(&d).await;
    assert_eq!(annotation(&now, BACK), "back");
    // Nor does it get in the way, nor is it passed on.
    s.rolled(&d, "i:4").await;
    assert_eq!(annotation(&s.set_of(&d, "i:4").await, BACK), "");
}

async fn not_while_it_is_paused(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled(&d, "i:2").await;
    s.change(&d, json!({"spec": {"paused": true}})).await;
    s.change(&d, annotated(json!({BACK: "1"}))).await;
    let now = s.looked_at(&d).await;
    assert_eq!(annotation(&now, BACK), "1");
    s.change(&d, json!({"spec": {"paused": false}})).await;
    s.until("it is answered", async || {
        annotation(&s.get(&d).await, BACK).is_empty().then_some(())
    })
    .await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 1), ("i:2", 0)]).await;
}
