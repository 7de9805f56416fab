//! Adoption of `ReplicaSet`s without a controller.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Deployment, Fixture};
use super::objects::{
    HASH, controller, deployment, image, name, names, reason, replica_set, revision, steps,
};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(orphan_with_equal_template_is_adopted_as_current),
        fixture_test!(adopted_set_with_another_hash_is_not_rolled),
        fixture_test!(orphan_with_another_template_is_adopted_and_replaced),
        fixture_test!(oldest_of_two_equal_sets_is_current),
        fixture_test!(orphan_created_later_is_adopted),
        fixture_test!(set_is_adopted_when_its_labels_match),
        fixture_test!(adoption_changes_only_the_owner_reference),
        fixture_test!(set_without_owner_reference_is_adopted_again),
        fixture_test!(set_given_to_another_owner_is_replaced),
        fixture_test!(set_with_other_labels_is_ignored),
        fixture_test!(set_of_another_controller_is_ignored),
        fixture_test!(deployments_with_equal_selectors_keep_their_sets),
        fixture_test!(terminating_deployment_adopts_nothing),
    ]
}

/// The controller reference of a Deployment.
fn reference(d: &Deployment) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": d.name, "uid": d.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// The adopted `ReplicaSet` and its pods get no hash label.
async fn orphan_with_equal_template_is_adopted_as_current(s: Fixture) {
    let set = s.create_set(replica_set("a", "old", 2)).await;
    let pods = s.has_pods("i:1", 2).await;
    let d = s.create(deployment("a", 2)).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "1");
    s.synced(&d).await;
    let sets = s.all_sets().await;
    assert_eq!(sets.len(), 1, "{sets:#?}");
    assert_eq!(sets[0]["metadata"]["ownerReferences"], json!([reference(&d)]));
    assert_eq!(sets[0]["metadata"]["labels"], set["metadata"]["labels"]);
    assert_eq!(sets[0]["spec"], set["spec"]);
    assert_eq!(revision(&sets[0]), "1");
    let now = s.all_pods().await;
    assert_eq!(names(&now), names(&pods));
    assert!(now.iter().all(|pod| pod["metadata"]["labels"][HASH].is_null()));
}

/// The template decides, not the hash.
async fn adopted_set_with_another_hash_is_not_rolled(s: Fixture) {
    let labels = json!({"app": "a", HASH: "theirs"});
    let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
    let change = json!({"metadata": {"labels": labels}, "spec": spec});
    s.create_set(with(replica_set("a", "a-theirs", 2), change)).await;
    let pods = s.has_pods("i:1", 2).await;
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    s.synced(&d).await;
    assert_eq!(names(&s.all_sets().await), ["a-theirs".to_owned()].into());
    assert_eq!(names(&s.all_pods().await), names(&pods));
    // The adopted ReplicaSet is scaled and becomes part of the history.
    s.scale(&d, 3).await;
    s.complete(&d).await;
    s.rolled_out(&d, "i:2").await;
    s.rolled_out(&d, "i:1").await;
    assert_eq!(
        s.sizes(&d).await,
        [("i:1".to_owned(), 3), ("i:2".to_owned(), 0)].into()
    );
    assert_eq!(s.get_set("a-theirs").await["spec"]["replicas"], 3);
}

async fn orphan_with_another_template_is_adopted_and_replaced(s: Fixture) {
    s.create_set(with(replica_set("a", "old", 3), image("i:0"))).await;
    s.has_pods("i:0", 3).await;
    let d = s.completed(deployment("a", 2)).await;
    s.has_sizes(&d, &[("i:0", 0), ("i:1", 2)]).await;
    assert_eq!(controller(&s.get_set("old").await), Some(&*d.uid));
    s.has_pods("i:0", 0).await;
}

async fn oldest_of_two_equal_sets_is_current(s: Fixture) {
    let first = s.create_set(replica_set("a", "z-first", 1)).await;
    s.later_than(&first).await;
    s.create_set(replica_set("a", "a-second", 1)).await;
    let d = s.completed(with(deployment("a", 1), steps(1, 0))).await;
    s.synced(&d).await;
    assert_eq!(s.get_set("z-first").await["spec"]["replicas"], 1);
    assert_eq!(s.get_set("a-second").await["spec"]["replicas"], 0);
    assert_eq!(s.sets(&d).await.len(), 2);
}

async fn orphan_created_later_is_adopted(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let before = names(&s.all_pods().await);
    s.create_set(with(replica_set("a", "late", 1), image("i:0")))
        .await;
    let set = s
        .set_is("late", "is taken, and not wanted", |set| {
            controller(set).is_some() && set["spec"]["replicas"] == 0
        })
        .await;
    assert_eq!(set["metadata"]["ownerReferences"], json!([reference(&d)]));
    s.has_pods("i:0", 0).await;
    s.complete(&d).await;
    assert_eq!(names(&s.pods("i:1").await), before);
}

async fn set_is_adopted_when_its_labels_match(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let other = json!({"metadata": {"labels": {"app": "b"}}});
    s.create_set(with(with(replica_set("a", "late", 0), image("i:0")), other))
        .await;
    s.synced(&d).await;
    assert_eq!(controller(&s.get_set("late").await), None);
    s.change_set("late", json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    s.set_is("late", "is taken", |set| controller(set) == Some(&*d.uid))
        .await;
}

async fn set_without_owner_reference_is_adopted_again(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let (set, pods) = (s.set_of(&d, "i:1").await, names(&s.all_pods().await));
    let nobodys = json!({"metadata": {"ownerReferences": null}});
    s.change_set(&name(&set), nobodys).await;
    let now = s
        .set_is(&name(&set), "is taken", |set| controller(set).is_some())
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([reference(&d)]));
    s.synced(&d).await;
    assert_eq!(s.all_sets().await.len(), 1);
    assert_eq!(names(&s.all_pods().await), pods);
}

/// Only the former owner reference identifies the Deployment to enqueue.
async fn set_given_to_another_owner_is_replaced(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let set = s.set_of(&d, "i:1").await;
    let other = json!([{
        "apiVersion": "example.com/v1", "kind": "Rollout", "name": "r", "uid": "00000000-0000-4000-8000-000000000000",
        "controller": true,
    }]);
    s.change_set(&name(&set), json!({"metadata": {"ownerReferences": other}}))
        .await;
    s.until("there is another", async || {
        let sets = s.sets(&d).await;
        (sets.len() == 1 && name(&sets[0]) != name(&set)).then_some(())
    })
    .await;
    s.complete(&d).await;
    let now = s.get_set(&name(&set)).await;
    assert_eq!(now["metadata"]["ownerReferences"], other);
    assert_eq!(now["spec"], set["spec"]);
}

async fn adoption_changes_only_the_owner_reference(s: Fixture) {
    let foreign = s.other_owner().await;
    let change = json!({"metadata": {
        "labels": {"more": "labels"}, "annotations": {"example.com/note": "a"},
        "finalizers": ["example.com/hold"], "ownerReferences": [foreign],
    }});
    let old = with(with(replica_set("a", "old", 0), image("i:0")), change);
    let before = s.create_set(old).await;
    let d = s.completed(deployment("a", 1)).await;
    let now = s.get_set("old").await;
    for field in ["uid", "labels", "annotations", "finalizers"] {
        assert_eq!(now["metadata"][field], before["metadata"][field], "{now:#}");
    }
    assert_eq!(now["spec"], before["spec"]);
    let refs = now["metadata"]["ownerReferences"].as_array().expect("references");
    assert_eq!(refs.len(), 2, "{now:#}");
    assert!(
        refs.contains(&foreign) && refs.contains(&reference(&d)),
        "{now:#}"
    );
}

async fn set_with_other_labels_is_ignored(s: Fixture) {
    let set =
        |name: &str, labels: Value| with(replica_set("a", name, 0), json!({"metadata": {"labels": labels}}));
    s.create_set(set("other", json!({"app": "b"}))).await;
    s.create_set(set("bare", Value::Null)).await;
    let d = s.completed(deployment("a", 1)).await;
    s.synced(&d).await;
    for set in ["other", "bare"] {
        let now = s.get_set(set).await;
        assert!(now["metadata"]["ownerReferences"].is_null(), "{now:#}");
    }
    assert_eq!(s.sets(&d).await.len(), 1);
}

async fn set_of_another_controller_is_ignored(s: Fixture) {
    let mut wanted = Vec::new();
    for (set, kind, owner) in [
        ("one", "Rollout", "a"),
        ("two", "Deployment", "b"),
        ("three", "Deployment", "a"),
    ] {
        let other = json!({
            "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "00000000-0000-4000-8000-000000000000",
            "controller": true,
        });
        // The finalizer stops the garbage collector, which deletes dependents of absent owners.
        let change = json!({"metadata": {"ownerReferences": [other], "finalizers": ["example.com/hold"]}});
        let body = with(with(replica_set("a", set, 1), image(&format!("i:{set}"))), change);
        wanted.push(s.create_set(body).await);
    }
    let d = s.completed(deployment("a", 1)).await;
    s.rolled_out(&d, "i:2").await;
    for before in wanted {
        let now = s.get_set(&name(&before)).await;
        assert_eq!(
            now["metadata"]["ownerReferences"],
            before["metadata"]["ownerReferences"]
        );
        assert_eq!(now["spec"], before["spec"]);
    }
}

async fn deployments_with_equal_selectors_keep_their_sets(s: Fixture) {
    let labels = json!({"app": "a"});
    let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
    let first = s.completed(deployment("a", 2)).await;
    let second = s.completed(with(deployment("b", 3), json!({"spec": spec}))).await;
    s.rolled_out(&first, "i:2").await;
    s.rolled_out(&second, "i:3").await;
    s.synced(&first).await;
    s.synced(&second).await;
    let sizes = |sizes: [(&str, u64); 2]| sizes.map(|(image, size)| (image.to_owned(), size)).into();
    assert_eq!(s.sizes(&first).await, sizes([("i:1", 0), ("i:2", 2)]));
    assert_eq!(s.sizes(&second).await, sizes([("i:1", 0), ("i:3", 3)]));
    s.has_pods("i:2", 2).await;
    s.has_pods("i:3", 3).await;
}

async fn terminating_deployment_adopts_nothing(s: Fixture) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let d = s.completed(with(deployment("a", 1), held)).await;
    s.delete(&d).await;
    s.create_set(with(replica_set("a", "late", 0), image("i:0")))
        .await;
    let other = s.completed(deployment("b", 1)).await;
    s.synced(&other).await;
    assert_eq!(controller(&s.get_set("late").await), None);
    let now = s.get(&d).await;
    assert_eq!(reason(&now, "Progressing"), "NewReplicaSetAvailable");
}
