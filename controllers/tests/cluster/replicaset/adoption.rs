//! Adoption of pods without a controller.

use serde_json::{Value, json};
use steersman_harness::fixtures::{self, with};
use steersman_harness::{Need, Test};

use super::fixture::{Fixture, Kind, controller, counter_of, name, names};

pub fn tests() -> Vec<Test> {
    let with_expressions = vec![
        each!(@ match_expressions_select_orphans, ReplicaSet),
        each!(@ match_expressions_select_orphans, AppReplicaSet).needs(Need::Ours),
    ];
    let all = [
        each!(orphans_are_adopted_before_pods_are_created),
        each!(adoption_changes_only_the_owner_references),
        each!(surplus_adopted_pods_are_deleted),
        each!(later_orphan_is_adopted),
        each!(pod_relabelled_to_match_is_adopted),
        each!(plain_owner_reference_becomes_a_controller_reference),
        each!(pods_that_do_not_match_are_not_adopted),
        each!(pods_of_other_controllers_are_not_adopted),
        each!(finished_and_terminating_pods_are_not_adopted),
        each!(owners_with_equal_selectors_keep_their_pods),
        each!(recreated_owner_does_not_adopt_pods_of_the_first),
    ];
    [all.concat(), with_expressions].concat()
}

/// The controller reference to an owner.
fn reference(s: &Fixture, owner: &super::fixture::Owner) -> Value {
    json!({
        "apiVersion": s.kind.api_version(), "kind": s.kind.name(), "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

async fn orphans_are_adopted_before_pods_are_created(s: Fixture) {
    for pod in ["one", "two"] {
        s.pod(pod, json!({})).await;
    }
    let owner = s.settled(s.owner_on_unmanaged_node("a", 3)).await;
    let pods = s.owns(&owner, 3).await;
    assert!(
        names(&pods).is_superset(&["one".to_owned(), "two".to_owned()].into()),
        "{pods:#?}"
    );
    for pod in &pods {
        assert_eq!(pod["metadata"]["ownerReferences"], json!([reference(&s, &owner)]));
    }
    s.synced(&owner).await;
    assert_eq!(s.all_pods().await.len(), 3);
    let mut created = s.events(&owner).await;
    created.retain(|(_, reason, _)| reason != "SuccessfulCreate");
    assert!(created.is_empty(), "{created:?}");
}

async fn adoption_changes_only_the_owner_references(s: Fixture) {
    let foreign = s.bystander("c").await;
    let change = json!({"metadata": {
        "labels": {"more": "labels"}, "annotations": {"example.com/note": "a"},
        "finalizers": ["example.com/hold"], "ownerReferences": [foreign],
    }});
    let before = s.pod("one", change).await;
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let now = s.get_pod("one").await;
    for field in ["uid", "labels", "annotations", "finalizers", "creationTimestamp"] {
        assert_eq!(now["metadata"][field], before["metadata"][field], "{now:#}");
    }
    assert_eq!(now["spec"], before["spec"]);
    let refs = now["metadata"]["ownerReferences"].as_array().expect("references");
    assert_eq!(refs.len(), 2, "{now:#}");
    assert!(
        refs.contains(&foreign) && refs.contains(&reference(&s, &owner)),
        "{now:#}"
    );
}

async fn surplus_adopted_pods_are_deleted(s: Fixture) {
    for pod in ["one", "two", "three"] {
        s.pod(pod, json!({})).await;
    }
    s.make_ready("two", 100).await;
    let owner = s.create(s.owner_on_unmanaged_node("a", 1)).await;
    s.until("only the ready pod is left", async || {
        (names(&s.pods().await) == ["two".to_owned()].into()).then_some(())
    })
    .await;
    s.counts(&owner, "replicas", 1).await;
    assert_eq!(controller(&s.get_pod("two").await), Some(&*owner.uid));
}

async fn later_orphan_is_adopted(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let made = name(&s.pods_of(&owner).await[0]);
    s.make_ready(&made, 100).await;
    s.counts(&owner, "readyReplicas", 1).await;
    s.pod("late", json!({})).await;
    let late = s
        .pod_is("late", "is surplus", |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    assert_eq!(controller(&late), Some(&*owner.uid), "{late:#}");
    assert_eq!(name(&s.owns(&owner, 1).await[0]), made);
}

async fn pod_relabelled_to_match_is_adopted(s: Fixture) {
    s.pod("late", json!({"metadata": {"labels": {"app": "b"}}})).await;
    s.make_ready("late", 100).await;
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    assert_eq!(controller(&s.get_pod("late").await), None);
    // It is Ready, so the other pod is deleted.
    s.change_pod("late", json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    s.until("the other pod is deleted", async || {
        (names(&s.pods_of(&owner).await) == ["late".to_owned()].into()).then_some(())
    })
    .await;
    s.counts(&owner, "readyReplicas", 1).await;
}

async fn plain_owner_reference_becomes_a_controller_reference(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    let plain = json!({
        "apiVersion": s.kind.api_version(), "kind": s.kind.name(), "name": owner.name, "uid": owner.uid,
    });
    let change = json!({"metadata": {"labels": {"app": "b"}, "ownerReferences": [plain]}});
    s.pod("linked", change).await;
    s.make_ready("linked", 100).await;
    s.change_pod("linked", json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    let pod = s
        .pod_is("linked", "is adopted", |pod| controller(pod).is_some())
        .await;
    assert_eq!(pod["metadata"]["ownerReferences"], json!([reference(&s, &owner)]));
}

async fn pods_that_do_not_match_are_not_adopted(s: Fixture) {
    s.pod("other", json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    s.pod("bare", json!({"metadata": {"labels": null}})).await;
    let second = s.c.namespace().await;
    let pods = fixtures::core(&second, "pods");
    let pod = with(
        fixtures::pod("far"),
        json!({"spec": {"nodeName": super::fixture::UNMANAGED_NODE}}),
    );
    s.c.api().post(&pods, pod).await.expect(201);
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    s.synced(&owner).await;
    for pod in ["other", "bare"] {
        assert!(s.get_pod(pod).await["metadata"]["ownerReferences"].is_null());
    }
    let far = s.c.api().get(&format!("{pods}/far")).await.expect(200);
    assert!(far["metadata"]["ownerReferences"].is_null(), "{far:#}");
    assert_eq!(s.all_pods().await.len(), 3);
}

async fn pods_of_other_controllers_are_not_adopted(s: Fixture) {
    // By another kind, and by the same kind and name with another uid.
    let mut wanted = Vec::new();
    for (pod, other) in [
        ("one", s.bystander("a").await),
        (
            "two",
            json!({
                "apiVersion": s.kind.api_version(), "kind": s.kind.name(), "name": "a",
                "uid": "00000000-0000-4000-8000-000000000000",
            }),
        ),
    ] {
        let other = with(other, json!({"controller": true}));
        // The garbage collector may delete the last one.
        let finalizers = json!(["example.com/hold"]);
        s.pod(
            pod,
            json!({"metadata": {"ownerReferences": [other], "finalizers": finalizers}}),
        )
        .await;
        wanted.push((pod, json!([other])));
    }
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    s.synced(&owner).await;
    s.scale(&owner, 0).await;
    s.counts(&owner, "replicas", 0).await;
    for (pod, refs) in wanted {
        let now = s.get_pod(pod).await;
        assert_eq!(now["metadata"]["ownerReferences"], refs);
        assert!(
            pod == "two" || now["metadata"]["deletionTimestamp"].is_null(),
            "{now:#}"
        );
    }
}

async fn finished_and_terminating_pods_are_not_adopted(s: Fixture) {
    for pod in ["failed", "succeeded", "terminating"] {
        s.pod(pod, json!({})).await;
    }
    s.change_pod_status("failed", json!({"phase": "Failed"})).await;
    s.change_pod_status("succeeded", json!({"phase": "Succeeded"}))
        .await;
    s.delete_pod("terminating").await;
    let owner = s.settled(s.owner_on_unmanaged_node("a", 1)).await;
    s.synced(&owner).await;
    for pod in ["failed", "succeeded", "terminating"] {
        assert!(s.get_pod(pod).await["metadata"]["ownerReferences"].is_null());
    }
    let now = s.get(&owner).await;
    assert_eq!(counter_of(&now["status"], "terminatingReplicas"), 0, "{now:#}");
    assert_eq!(s.all_pods().await.len(), 4);
}

async fn owners_with_equal_selectors_keep_their_pods(s: Fixture) {
    let first = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let second = s.settled(s.owner_on_unmanaged_node("b", 3)).await;
    s.synced(&first).await;
    s.synced(&second).await;
    assert_eq!(s.pods_of(&first).await.len(), 2);
    assert_eq!(s.pods_of(&second).await.len(), 3);
    s.scale(&first, 0).await;
    s.counts(&first, "replicas", 0).await;
    s.synced(&second).await;
    assert_eq!(names(&s.pods().await), names(&s.pods_of(&second).await));
    assert_eq!(s.pods().await.len(), 3);
}

/// A finalizer delays the garbage collection of the first pods.
async fn recreated_owner_does_not_adopt_pods_of_the_first(s: Fixture) {
    let held = json!({"spec": {"template": {"metadata": {"finalizers": ["example.com/hold"]}}}});
    let first = s.settled(with(s.owner_on_unmanaged_node("a", 2), held)).await;
    let old = s.pods_of(&first).await;
    s.delete(&first, "Background").await;
    let second = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    assert_ne!(first.uid, second.uid);
    let new = s.owns(&second, 2).await;
    assert!(names(&new).is_disjoint(&names(&old)));
    s.synced(&second).await;
    for pod in &old {
        let now = s.get_pod(&name(pod)).await;
        assert_eq!(
            now["metadata"]["ownerReferences"],
            pod["metadata"]["ownerReferences"]
        );
    }
    s.scale(&second, 0).await;
    s.counts(&second, "replicas", 0).await;
    assert!(names(&s.all_pods().await).is_superset(&names(&old)));
}

async fn match_expressions_select_orphans(s: Fixture) {
    assert_ne!(s.kind, Kind::ReplicationController);
    for (pod, tier) in [("one", "x"), ("two", "y"), ("three", "z")] {
        s.pod(pod, json!({"metadata": {"labels": {"tier": tier}}})).await;
    }
    let selector = json!({"matchLabels": {"app": "a"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["x", "y"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]});
    let template = json!({"metadata": {"labels": {"tier": "x"}}});
    let body = with(
        s.owner_on_unmanaged_node("a", 3),
        json!({"spec": {"selector": selector, "template": template}}),
    );
    let owner = s.settled(body).await;
    let pods = names(&s.owns(&owner, 3).await);
    assert!(
        pods.contains("one") && pods.contains("two") && !pods.contains("three"),
        "{pods:?}"
    );
}
