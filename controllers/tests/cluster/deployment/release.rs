//! `ReplicaSet`s that are let go, and Deployments that go.

use coxswain_tests::fixtures::{self, with};
use coxswain_tests::{Need, Test};
use serde_json::json;

use super::objects::{BAD, controller, counter_of, deployment, elsewhere, image, name, names};
use super::stage::Stage;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(lets_go_of_what_does_not_match_any_more),
        staged!(keeps_the_other_references_of_what_it_lets_go),
        staged!(one_that_is_being_deleted_only_tells_its_status),
        staged!(one_that_is_gone_leaves_all_as_it_is),
        staged!(a_namespace_that_goes_takes_it_along).needs(Need::Kcm),
    ]
}

async fn lets_go_of_what_does_not_match_any_more(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled(&d, "i:2").await;
    let old = s.set_of(&d, "i:1").await;
    s.change_set(&name(&old), json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    let now = s
        .set_is(&name(&old), "is let go", |set| controller(set).is_none())
        .await;
    assert!(now["metadata"]["ownerReferences"].is_null(), "{now:#}");
    assert_eq!(now["metadata"]["annotations"], old["metadata"]["annotations"]);
    s.looked_at(&d).await;
    assert_eq!(s.sets(&d).await.len(), 1);
    // And takes it up again.
    s.change_set(&name(&old), json!({"metadata": {"labels": {"app": "a"}}}))
        .await;
    s.set_is(&name(&old), "is taken", |set| controller(set) == Some(&*d.uid))
        .await;
}

async fn keeps_the_other_references_of_what_it_lets_go(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    s.rolled(&d, "i:2").await;
    let old = s.set_of(&d, "i:1").await;
    let foreign = s.bystander().await;
    let ours = old["metadata"]["ownerReferences"][0].clone();
    let change = json!({"metadata": {
        "labels": {"app": "b"}, "ownerReferences": [ours, foreign], "finalizers": ["example.com/hold"],
    }});
    s.change_set(&name(&old), change).await;
    let now = s
        .set_is(&name(&old), "is let go", |set| controller(set).is_none())
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([foreign]));
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/hold"]));
}

async fn one_that_is_being_deleted_only_tells_its_status(s: Stage) {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let d = s.create(with(with(deployment("a", 2), elsewhere()), held)).await;
    s.make_ready("i:1", 2).await;
    s.complete(&d).await;
    let set = s.set_of(&d, "i:1").await;
    s.delete(&d).await;
    s.change(&d, with(image("i:2"), json!({"spec": {"replicas": 5}})))
        .await;
    s.status(&d, "it is looked at", |_| true).await;
    // Nothing is asked for, but what becomes of it is told.
    for pod in s.pods("i:1").await.iter().take(1) {
        s.change_pod(pod, json!({"conditions": [s.ready("False")]})).await;
    }
    s.status(&d, "one is missing", |status| {
        counter_of(status, "availableReplicas") == 1
    })
    .await;
    assert_eq!(s.sets(&d).await.len(), 1);
    let now = s.get_set(&name(&set)).await;
    assert_eq!(now["spec"], set["spec"]);
    assert_eq!(now["metadata"]["annotations"], set["metadata"]["annotations"]);
    // Gone by hand, it is not made again.
    s.delete_set(&name(&set)).await;
    s.status(&d, "it has none", |status| counter_of(status, "replicas") == 0)
        .await;
    assert!(s.sets(&d).await.is_empty());
}

async fn one_that_is_gone_leaves_all_as_it_is(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 2), (BAD, 1)]).await;
    let before = s.sets(&d).await;
    for set in &before {
        s.hold_set(&name(set)).await;
    }
    s.delete(&d).await;
    s.c.api().get(&d.path).await.expect_error(404, "NotFound");
    // Those that it had make no difference to anybody.
    for set in &before {
        let path = fixtures::apps(&s.ns, "replicasets");
        let path = format!("{path}/{}/status", name(set));
        let lie = json!({"status": {"replicas": 9}});
        s.c.api().patch(&path, fixtures::MERGE, lie).await.expect(200);
    }
    let other = s.completed(deployment("b", 1)).await;
    s.looked_at(&other).await;
    let now = s.sets(&d).await;
    assert_eq!(names(&now), names(&before));
    for (now, before) in now.iter().zip(&before) {
        assert_eq!(now["spec"], before["spec"]);
    }
}

/// Nothing is made while it goes that would have to go again.
async fn a_namespace_that_goes_takes_it_along(s: Stage) {
    let d = s.completed(deployment("a", 3)).await;
    s.change(&d, image("i:2")).await;
    let path = format!("/api/v1/namespaces/{}", s.ns);
    s.c.api().delete(&path, ()).await.expect(200);
    s.until("it is gone", async || {
        (s.c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
}
