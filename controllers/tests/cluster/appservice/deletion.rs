//! What becomes of the children when it is deleted, by policy and by way.

use coxswain_tests::Test;
use coxswain_tests::fixtures::MERGE;
use serde_json::json;

use super::stage::{FINALIZER, Stage, app, owners};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(with_delete_they_go),
        staged!(with_delete_they_go_before_it_if_that_is_asked_for),
        staged!(with_delete_they_stay_if_they_are_orphaned),
        staged!(with_orphan_they_stay_in_the_background),
        staged!(with_orphan_they_stay_in_the_foreground),
        staged!(with_orphan_they_stay_as_orphans),
        staged!(the_policy_can_be_changed),
        staged!(to_change_the_policy_does_not_undo_that_they_are_orphaned),
        staged!(to_change_the_policy_at_the_last_moment_keeps_them),
        staged!(one_that_rolls_out_can_be_deleted),
    ]
}

async fn served(s: &Stage, policy: &str) {
    s.serve(app(
        "a",
        json!({"ports": [{"port": 80}], "deletionPolicy": policy}),
    ))
    .await;
}

async fn with_delete_they_go(s: Stage) {
    served(&s, "Delete").await;
    s.delete("appservices", "a", "Background").await;
    for kind in ["appservices", "deployments", "services"] {
        s.gone(kind, "a").await;
    }
    s.until("all pods are gone", async || {
        s.list("pods").await.is_empty().then_some(())
    })
    .await;
}

async fn with_delete_they_go_before_it_if_that_is_asked_for(s: Stage) {
    served(&s, "Delete").await;
    s.change(
        "deployments",
        "a",
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    .await;
    s.delete("appservices", "a", "Foreground").await;
    s.until("the Deployment is on its way", async || {
        s.get("deployments", "a").await["metadata"]
            .get("deletionTimestamp")
            .is_some()
            .then_some(())
    })
    .await;
    assert!(
        s.get("appservices", "a").await["metadata"]
            .get("deletionTimestamp")
            .is_some(),
        "it waits"
    );
    s.change("deployments", "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.gone("appservices", "a").await;
    s.gone("deployments", "a").await;
}

async fn with_delete_they_stay_if_they_are_orphaned(s: Stage) {
    served(&s, "Delete").await;
    s.delete("appservices", "a", "Orphan").await;
    s.gone("appservices", "a").await;
    stay(&s).await;
}

async fn with_orphan_they_stay_in_the_background(s: Stage) {
    orphans(s, "Background").await;
}

async fn with_orphan_they_stay_in_the_foreground(s: Stage) {
    orphans(s, "Foreground").await;
}

async fn with_orphan_they_stay_as_orphans(s: Stage) {
    orphans(s, "Orphan").await;
}

async fn orphans(s: Stage, way: &str) {
    served(&s, "Orphan").await;
    assert_eq!(
        s.get("appservices", "a").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    s.delete("appservices", "a", way).await;
    s.gone("appservices", "a").await;
    stay(&s).await;
}

/// They are there, refer to nobody, and are still there when something that came later has been collected.
async fn stay(s: &Stage) {
    s.serve(app("b", json!({}))).await;
    s.delete("appservices", "b", "Background").await;
    s.gone("deployments", "b").await;
    for kind in ["deployments", "services"] {
        let it = s.get(kind, "a").await;
        assert_eq!((owners(&it), it["metadata"].get("deletionTimestamp")), (0, None));
        assert_eq!(it["metadata"]["labels"]["app.kubernetes.io/instance"], "a");
    }
    let pods = s.list("pods").await;
    let kept = pods
        .iter()
        .filter(|it| it["metadata"]["labels"]["app.kubernetes.io/instance"] == "a");
    assert_eq!(kept.count(), 2);
}

async fn the_policy_can_be_changed(s: Stage) {
    served(&s, "Delete").await;
    for (policy, references) in [("Orphan", 0), ("Delete", 1), ("Orphan", 0)] {
        s.want("a", json!({"deletionPolicy": policy})).await;
        s.until("the references follow", async || {
            let it = s.get("appservices", "a").await;
            let held = it["metadata"]["finalizers"] == json!([FINALIZER]);
            let (web, service) = (s.get("deployments", "a").await, s.get("services", "a").await);
            ((owners(&web), owners(&service), held) == (references, references, references == 0))
                .then_some(())
        })
        .await;
        s.ready("a").await;
    }
    s.delete("appservices", "a", "Foreground").await;
    s.gone("appservices", "a").await;
    stay(&s).await;
}

/// Holds it, deletes it in a way, and changes the policy then.
async fn changed_while_it_goes(s: &Stage, way: &str, from: &str, to: &str) {
    served(s, from).await;
    let mut finalizers = vec!["example.com/hold"];
    if from == "Orphan" {
        finalizers.push(FINALIZER);
    }
    let held = json!({"metadata": {"finalizers": finalizers}});
    s.change("appservices", "a", held).await;
    s.delete("appservices", "a", way).await;
    s.want("a", json!({"deletionPolicy": to})).await;
    s.until("nobody else holds it", async || {
        let it = s.get("appservices", "a").await;
        (it["metadata"]["finalizers"] == json!(["example.com/hold"])).then_some(())
    })
    .await;
    let free = json!({"metadata": {"finalizers": null}});
    let path = s.path("appservices", "a");
    s.c.api().patch(&path, MERGE, free).await.expect(200);
    s.gone("appservices", "a").await;
}

async fn to_change_the_policy_does_not_undo_that_they_are_orphaned(s: Stage) {
    changed_while_it_goes(&s, "Orphan", "Orphan", "Delete").await;
    stay(&s).await;
}

async fn to_change_the_policy_at_the_last_moment_keeps_them(s: Stage) {
    changed_while_it_goes(&s, "Orphan", "Delete", "Orphan").await;
    stay(&s).await;
}

async fn one_that_rolls_out_can_be_deleted(s: Stage) {
    s.serve(app("a", json!({"replicas": 5}))).await;
    s.want("a", json!({"image": "i:404"})).await;
    s.until("it rolls out", async || {
        let it = s.get("appservices", "a").await;
        (it["status"]["observedGeneration"] == 2).then_some(())
    })
    .await;
    s.delete("appservices", "a", "Foreground").await;
    s.gone("appservices", "a").await;
    s.until("all pods are gone", async || {
        s.list("pods").await.is_empty().then_some(())
    })
    .await;
    assert!(s.names("deployments").await.is_empty());
}
