//! `ReplicaSet`s that are nobody's become a Deployment's, if its selector says so.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::{Value, json};

use super::objects::{
    HASH, controller, deployment, image, name, names, reason, replica_set, revision, steps,
};
use super::stage::{Deployment, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(takes_up_one_of_the_same_template),
        staged!(one_made_by_somebody_else_does_not_roll),
        staged!(rolls_away_from_one_of_another_template),
        staged!(of_two_of_the_same_template_the_oldest_is_the_current_one),
        staged!(takes_up_one_that_comes_later),
        staged!(takes_up_one_whose_labels_come_to_match),
        staged!(changes_nothing_of_an_adopted_one_but_its_owner),
        staged!(takes_back_what_was_made_nobodys),
        staged!(does_without_what_was_made_anothers),
        staged!(ignores_those_that_do_not_match),
        staged!(ignores_those_of_others),
        staged!(deployments_with_one_selector_do_not_take_from_each_other),
        staged!(one_that_is_being_deleted_adopts_nothing),
    ]
}

/// The reference that a Deployment has written.
fn reference(d: &Deployment) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": d.name, "uid": d.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// It is left without a hash, and so are its pods.
async fn takes_up_one_of_the_same_template(s: Stage) {
    let set = s.create_set(replica_set("a", "old", 2)).await;
    let pods = s.has_pods("i:1", 2).await;
    let d = s.create(deployment("a", 2)).await;
    let now = s.complete(&d).await;
    assert_eq!(revision(&now), "1");
    s.looked_at(&d).await;
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

/// With another hash than ours would be: it is the template that counts.
async fn one_made_by_somebody_else_does_not_roll(s: Stage) {
    let labels = json!({"app": "a", HASH: "theirs"});
    let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
    let change = json!({"metadata": {"labels": labels}, "spec": spec});
    s.create_set(with(replica_set("a", "a-theirs", 2), change)).await;
    let pods = s.has_pods("i:1", 2).await;
    let d = s.completed(with(deployment("a", 2), steps(1, 0))).await;
    s.looked_at(&d).await;
    assert_eq!(names(&s.all_sets().await), ["a-theirs".to_owned()].into());
    assert_eq!(names(&s.all_pods().await), names(&pods));
    // And so it goes on: it is scaled, and it is a step of the history.
    s.scale(&d, 3).await;
    s.complete(&d).await;
    s.rolled(&d, "i:2").await;
    s.rolled(&d, "i:1").await;
    assert_eq!(
        s.sizes(&d).await,
        [("i:1".to_owned(), 3), ("i:2".to_owned(), 0)].into()
    );
    assert_eq!(s.get_set("a-theirs").await["spec"]["replicas"], 3);
}

async fn rolls_away_from_one_of_another_template(s: Stage) {
    s.create_set(with(replica_set("a", "old", 3), image("i:0"))).await;
    s.has_pods("i:0", 3).await;
    let d = s.completed(deployment("a", 2)).await;
    s.sized(&d, &[("i:0", 0), ("i:1", 2)]).await;
    assert_eq!(controller(&s.get_set("old").await), Some(&*d.uid));
    s.has_pods("i:0", 0).await;
}

async fn of_two_of_the_same_template_the_oldest_is_the_current_one(s: Stage) {
    let first = s.create_set(replica_set("a", "z-first", 1)).await;
    s.later_than(&first).await;
    s.create_set(replica_set("a", "a-second", 1)).await;
    let d = s.completed(with(deployment("a", 1), steps(1, 0))).await;
    s.looked_at(&d).await;
    assert_eq!(s.get_set("z-first").await["spec"]["replicas"], 1);
    assert_eq!(s.get_set("a-second").await["spec"]["replicas"], 0);
    assert_eq!(s.sets(&d).await.len(), 2);
}

async fn takes_up_one_that_comes_later(s: Stage) {
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

async fn takes_up_one_whose_labels_come_to_match(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    let other = json!({"metadata": {"labels": {"app": "b"}}});
    s.create_set(with(with(replica_set("a", "late", 0), image("i:0")), other))
        .await;
    s.looked_at(&d).await;
    assert_eq!(controller(&s.get_set("late").await), None);
    s.change_set("late", json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    s.set_is("late", "is taken", |set| controller(set) == Some(&*d.uid))
        .await;
}

async fn takes_back_what_was_made_nobodys(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let (set, pods) = (s.set_of(&d, "i:1").await, names(&s.all_pods().await));
    let nobodys = json!({"metadata": {"ownerReferences": null}});
    s.change_set(&name(&set), nobodys).await;
    let now = s
        .set_is(&name(&set), "is taken", |set| controller(set).is_some())
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([reference(&d)]));
    s.looked_at(&d).await;
    assert_eq!(s.all_sets().await.len(), 1);
    assert_eq!(names(&s.all_pods().await), pods);
}

/// There is nothing to tell it but what it had before.
async fn does_without_what_was_made_anothers(s: Stage) {
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

async fn changes_nothing_of_an_adopted_one_but_its_owner(s: Stage) {
    let foreign = s.bystander().await;
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

async fn ignores_those_that_do_not_match(s: Stage) {
    let set =
        |name: &str, labels: Value| with(replica_set("a", name, 0), json!({"metadata": {"labels": labels}}));
    s.create_set(set("other", json!({"app": "b"}))).await;
    s.create_set(set("bare", Value::Null)).await;
    let d = s.completed(deployment("a", 1)).await;
    s.looked_at(&d).await;
    for set in ["other", "bare"] {
        let now = s.get_set(set).await;
        assert!(now["metadata"]["ownerReferences"].is_null(), "{now:#}");
    }
    assert_eq!(s.sets(&d).await.len(), 1);
}

async fn ignores_those_of_others(s: Stage) {
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
        // Held, as the garbage collector objects to owners that are not there.
        let change = json!({"metadata": {"ownerReferences": [other], "finalizers": ["example.com/hold"]}});
        let body = with(with(replica_set("a", set, 1), image(&format!("i:{set}"))), change);
        wanted.push(s.create_set(body).await);
    }
    let d = s.completed(deployment("a", 1)).await;
    s.rolled(&d, "i:2").await;
    for before in wanted {
        let now = s.get_set(&name(&before)).await;
        assert_eq!(
            now["metadata"]["ownerReferences"],
            before["metadata"]["ownerReferences"]
        );
        assert_eq!(now["spec"], before["spec"]);
    }
}

async fn deployments_with_one_selector_do_not_take_from_each_other(s: Stage) {
    let labels = json!({"app": "a"});
    let spec = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
    let first = s.completed(deployment("a", 2)).await;
    let second = s.completed(with(deployment("b", 3), json!({"spec": spec}))).await;
    s.rolled(&first, "i:2").await;
    s.rolled(&second, "i:3").await;
    s.looked_at(&first).await;
    s.looked_at(&second).await;
    let sizes = |sizes: [(&str, u64); 2]| sizes.map(|(image, size)| (image.to_owned(), size)).into();
    assert_eq!(s.sizes(&first).await, sizes([("i:1", 0), ("i:2", 2)]));
    assert_eq!(s.sizes(&second).await, sizes([("i:1", 0), ("i:3", 3)]));
    s.has_pods("i:2", 2).await;
    s.has_pods("i:3", 3).await;
}

async fn one_that_is_being_deleted_adopts_nothing(s: Stage) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let d = s.completed(with(deployment("a", 1), held)).await;
    s.delete(&d).await;
    s.create_set(with(replica_set("a", "late", 0), image("i:0")))
        .await;
    let other = s.completed(deployment("b", 1)).await;
    s.looked_at(&other).await;
    assert_eq!(controller(&s.get_set("late").await), None);
    let now = s.get(&d).await;
    assert_eq!(reason(&now, "Progressing"), "NewReplicaSetAvailable");
}
