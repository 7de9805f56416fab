//! What makes an owner be looked at again: each of these changes is the only one.

use coxswain_tests::{Test, fixtures};
use serde_json::{Value, json};

use super::stage::{Owner, Stage, condition, controller, name, names};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(a_pod_that_is_taken_from_its_owner_is_taken_back),
        each!(a_pod_that_is_given_to_somebody_else_is_replaced),
        each!(a_pod_that_is_given_to_another_owner_concerns_both),
        each!(a_pod_that_is_gone_at_once_is_replaced),
        each!(orphans_that_two_want_are_taken_by_one_each),
        each!(a_pod_cannot_have_two_controllers),
    ]
    .concat()
}

/// Gives a pod these owners and no others.
async fn give(s: &Stage, pod: &str, refs: Value) {
    s.change_pod(pod, json!({"metadata": {"ownerReferences": refs}}))
        .await;
}

fn controlled_by(s: &Stage, owner: &Owner) -> Value {
    json!([{
        "apiVersion": s.kind.api_version(), "kind": s.kind.name(), "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// A reference to somebody else who is there: one who is not would cost the pod its life where garbage is collected.
async fn stranger(s: &Stage) -> Value {
    fixtures::with(s.bystander("stranger").await, json!({"controller": true}))
}

async fn a_pod_that_is_taken_from_its_owner_is_taken_back(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
    let pods = names(&s.pods_of(&owner).await);
    for pod in &pods {
        give(&s, pod, Value::Null).await;
        s.pod_is(pod, "is taken back", |pod| controller(pod) == Some(&*owner.uid))
            .await;
    }
    s.looked_at(&owner).await;
    assert_eq!(names(&s.all_pods().await), pods);
}

async fn a_pod_that_is_given_to_somebody_else_is_replaced(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
    let given = name(&s.pods_of(&owner).await[0]);
    let stranger = stranger(&s).await;
    give(&s, &given, json!([stranger])).await;
    let pods = s.owns(&owner, 2).await;
    assert!(!names(&pods).contains(&given));
    s.counts(&owner, "replicas", 2).await;
    s.looked_at(&owner).await;
    let now = s.get_pod(&given).await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([stranger]));
    assert!(now["metadata"]["deletionTimestamp"].is_null(), "{now:#}");
    assert_eq!(s.all_pods().await.len(), 3);
}

/// The one has too few, the other too many.
async fn a_pod_that_is_given_to_another_owner_concerns_both(s: Stage) {
    let first = s.settled(s.owner_elsewhere("a", 2)).await;
    let second = s.settled(s.owner_elsewhere("b", 2)).await;
    let given = name(&s.pods_of(&first).await[0]);
    s.make_ready(&given, 100).await;
    s.counts(&first, "readyReplicas", 1).await;
    give(&s, &given, controlled_by(&s, &second)).await;
    // It is the only one that is Ready: another one has to go.
    s.counts(&second, "readyReplicas", 1).await;
    s.counts(&first, "readyReplicas", 0).await;
    for owner in [&first, &second] {
        s.owns(owner, 2).await;
        s.counts(owner, "replicas", 2).await;
        s.looked_at(owner).await;
    }
    assert!(names(&s.pods_of(&second).await).contains(&given));
    assert_eq!((s.pods().await.len(), s.all_pods().await.len()), (4, 5));
}

/// It is never seen to be on its way out.
async fn a_pod_that_is_gone_at_once_is_replaced(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 2)).await;
    let gone = name(&s.pods_of(&owner).await[0]);
    let path = format!("{}/{gone}", fixtures::core(&s.ns, "pods"));
    let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    s.c.api().delete(&path, at_once).await.expect(200);
    let pods = s.owns(&owner, 2).await;
    assert!(!names(&pods).contains(&gone));
    s.looked_at(&owner).await;
    assert_eq!(s.all_pods().await.len(), 2);
}

async fn orphans_that_two_want_are_taken_by_one_each(s: Stage) {
    for pod in ["one", "two", "three", "four"] {
        s.pod(pod, json!({})).await;
    }
    let first = s.create(s.owner_elsewhere("a", 3)).await;
    let second = s.create(s.owner_elsewhere("b", 3)).await;
    for owner in [&first, &second] {
        let now = s.counts(owner, "replicas", 3).await;
        assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
        s.looked_at(owner).await;
    }
    let (of_first, of_second) = (s.pods_of(&first).await, s.pods_of(&second).await);
    assert_eq!((of_first.len(), of_second.len()), (3, 3));
    for pod in s.all_pods().await {
        assert_eq!(
            pod["metadata"]["ownerReferences"].as_array().map(Vec::len),
            Some(1),
            "{pod:#}"
        );
    }
    for owner in [&first, &second] {
        let mut said = s.events(owner).await;
        said.retain(|(kind, ..)| kind != "Normal");
        assert!(said.is_empty(), "{said:?}");
    }
}

/// The server sees to that, so nobody else has to.
async fn a_pod_cannot_have_two_controllers(s: Stage) {
    let owner = s.settled(s.owner_elsewhere("a", 1)).await;
    let pod = name(&s.pods_of(&owner).await[0]);
    let path = format!("{}/{pod}", fixtures::core(&s.ns, "pods"));
    let both = json!([controlled_by(&s, &owner)[0], stranger(&s).await]);
    let change = json!({"metadata": {"ownerReferences": both}});
    s.c.api()
        .patch(&path, fixtures::MERGE, change.clone())
        .await
        .expect(422);
    let new = fixtures::with(fixtures::pod("two"), change);
    s.c.api()
        .post(&fixtures::core(&s.ns, "pods"), new)
        .await
        .expect(422);
    s.looked_at(&owner).await;
    assert_eq!(names(&s.all_pods().await), [pod.clone()].into());
    assert_eq!(
        s.get_pod(&pod).await["metadata"]["ownerReferences"],
        controlled_by(&s, &owner)
    );
}
