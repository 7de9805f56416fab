//! The children of a deleted `AppService`, by deletion policy and propagation policy.

use serde_json::json;
use steersman_harness::Test;
use steersman_harness::fixtures::MERGE;

use super::fixture::{FINALIZER, Fixture, app, owners};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(delete_policy_deletes_children_in_background),
        fixture_test!(delete_policy_deletes_children_in_foreground),
        fixture_test!(delete_policy_keeps_children_with_orphan_propagation),
        fixture_test!(orphan_policy_keeps_children_in_background),
        fixture_test!(orphan_policy_keeps_children_in_foreground),
        fixture_test!(orphan_policy_keeps_children_with_orphan_propagation),
        fixture_test!(policy_can_be_changed),
        fixture_test!(policy_change_during_orphan_deletion_keeps_children),
        fixture_test!(policy_change_to_orphan_during_deletion_keeps_children),
        fixture_test!(appservice_can_be_deleted_during_a_rollout),
    ]
}

async fn create_with_policy(s: &Fixture, policy: &str) {
    s.create_ready(app(
        "a",
        json!({"ports": [{"port": 80}], "deletionPolicy": policy}),
    ))
    .await;
}

async fn delete_policy_deletes_children_in_background(s: Fixture) {
    create_with_policy(&s, "Delete").await;
    s.delete("appservices", "a", "Background").await;
    for kind in ["appservices", "deployments", "services"] {
        s.wait_deleted(kind, "a").await;
    }
    s.wait_until("all pods are gone", async || {
        s.list("pods").await.is_empty().then_some(())
    })
    .await;
}

async fn delete_policy_deletes_children_in_foreground(s: Fixture) {
    create_with_policy(&s, "Delete").await;
    s.change(
        "deployments",
        "a",
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    .await;
    s.wait_collector_observed().await;
    s.delete("appservices", "a", "Foreground").await;
    s.wait_until("the Deployment is terminating", async || {
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
        "foreground deletion blocks"
    );
    s.change("deployments", "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.wait_deleted("appservices", "a").await;
    s.wait_deleted("deployments", "a").await;
}

async fn delete_policy_keeps_children_with_orphan_propagation(s: Fixture) {
    create_with_policy(&s, "Delete").await;
    s.delete("appservices", "a", "Orphan").await;
    s.wait_deleted("appservices", "a").await;
    assert_orphaned(&s).await;
}

async fn orphan_policy_keeps_children_in_background(s: Fixture) {
    delete_with_orphan_policy(s, "Background").await;
}

async fn orphan_policy_keeps_children_in_foreground(s: Fixture) {
    delete_with_orphan_policy(s, "Foreground").await;
}

async fn orphan_policy_keeps_children_with_orphan_propagation(s: Fixture) {
    delete_with_orphan_policy(s, "Orphan").await;
}

async fn delete_with_orphan_policy(s: Fixture, propagation: &str) {
    create_with_policy(&s, "Orphan").await;
    assert_eq!(
        s.get("appservices", "a").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    s.delete("appservices", "a", propagation).await;
    s.wait_deleted("appservices", "a").await;
    assert_orphaned(&s).await;
}

/// Asserts that the children exist without ownerReferences after a later garbage collection.
async fn assert_orphaned(s: &Fixture) {
    s.create_ready(app("b", json!({}))).await;
    s.delete("appservices", "b", "Background").await;
    s.wait_deleted("deployments", "b").await;
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

async fn policy_can_be_changed(s: Fixture) {
    create_with_policy(&s, "Delete").await;
    for (policy, references) in [("Orphan", 0), ("Delete", 1), ("Orphan", 0)] {
        s.patch_spec("a", json!({"deletionPolicy": policy})).await;
        s.wait_until("ownerReferences follow the policy", async || {
            let it = s.get("appservices", "a").await;
            let held = it["metadata"]["finalizers"] == json!([FINALIZER]);
            let (web, service) = (s.get("deployments", "a").await, s.get("services", "a").await);
            ((owners(&web), owners(&service), held) == (references, references, references == 0))
                .then_some(())
        })
        .await;
        s.wait_ready("a").await;
    }
    s.delete("appservices", "a", "Foreground").await;
    s.wait_deleted("appservices", "a").await;
    assert_orphaned(&s).await;
}

/// Deletes an `AppService` that a foreign finalizer keeps, then changes its policy.
async fn change_policy_during_deletion(s: &Fixture, propagation: &str, from: &str, to: &str) {
    create_with_policy(s, from).await;
    let mut finalizers = vec!["example.com/hold"];
    if from == "Orphan" {
        finalizers.push(FINALIZER);
    }
    let held = json!({"metadata": {"finalizers": finalizers}});
    s.change("appservices", "a", held).await;
    s.delete("appservices", "a", propagation).await;
    s.patch_spec("a", json!({"deletionPolicy": to})).await;
    s.wait_until("only the foreign finalizer is left", async || {
        let it = s.get("appservices", "a").await;
        (it["metadata"]["finalizers"] == json!(["example.com/hold"])).then_some(())
    })
    .await;
    let free = json!({"metadata": {"finalizers": null}});
    let path = s.path("appservices", "a");
    s.c.api().patch(&path, MERGE, free).await.expect(200);
    s.wait_deleted("appservices", "a").await;
}

async fn policy_change_during_orphan_deletion_keeps_children(s: Fixture) {
    change_policy_during_deletion(&s, "Orphan", "Orphan", "Delete").await;
    assert_orphaned(&s).await;
}

async fn policy_change_to_orphan_during_deletion_keeps_children(s: Fixture) {
    change_policy_during_deletion(&s, "Orphan", "Delete", "Orphan").await;
    assert_orphaned(&s).await;
}

async fn appservice_can_be_deleted_during_a_rollout(s: Fixture) {
    s.create_ready(app("a", json!({"replicas": 5}))).await;
    s.patch_spec("a", json!({"image": "i:404"})).await;
    s.wait_until("the rollout has started", async || {
        let it = s.get("appservices", "a").await;
        (it["status"]["observedGeneration"] == 2).then_some(())
    })
    .await;
    s.delete("appservices", "a", "Foreground").await;
    s.wait_deleted("appservices", "a").await;
    s.wait_until("all pods are gone", async || {
        s.list("pods").await.is_empty().then_some(())
    })
    .await;
    assert!(s.names("deployments").await.is_empty());
}
