//! Namespaces that go, with owners and dependents in them.

use coxswain_tests::{Cluster, Test};

use super::stage::{HOLD, Kind, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(a_namespace_goes_with_all_that_is_owned_in_it, [Widget], Kcm),
        each!(a_namespace_owns_what_is_of_the_cluster, [Region], Kcm),
        each!(
            what_is_of_the_cluster_owns_in_a_namespace_that_goes,
            [Region],
            Kcm
        ),
    ]
    .concat()
}

async fn delete(c: &Cluster, ns: &str) {
    c.api()
        .delete(&format!("/api/v1/namespaces/{ns}"), ())
        .await
        .expect(200);
}

async fn gone(s: &Stage, ns: &str) {
    let path = format!("/api/v1/namespaces/{ns}");
    s.until(&format!("{ns} is gone"), async || {
        (s.c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
}

/// Whatever was asked of those in it before.
async fn a_namespace_goes_with_all_that_is_owned_in_it(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    s.thing("mine", &[owner.blocking()]).await;
    let going = s.thing("going", &[]).await;
    let held = s.held("held", &[going.blocking()]).await;
    let one = s.thing("one", &[]).await;
    let two = s.thing("two", &[one.blocking()]).await;
    s.own(&one, &[two.blocking()]).await;
    s.seen().await;
    s.delete(&going, "Foreground").await;
    s.marked(&held).await;
    delete(&s.c, &s.ns).await;
    s.gone(&[&owner, &one, &two]).await;
    let now = s.get(&held).await;
    assert_eq!(super::stage::finalizers(&now), [HOLD]);
    s.release(&held).await;
    gone(&s, &s.ns).await;
}

async fn a_namespace_owns_what_is_of_the_cluster(s: Stage) {
    let second = s.c.namespace().await;
    let path = format!("/api/v1/namespaces/{second}");
    let object = s.c.api().get(&path).await.expect(200);
    let owner = serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "name": second, "uid": object["metadata"]["uid"],
    });
    let mine = s.thing("mine", std::slice::from_ref(&owner)).await;
    let map = s.of(Kind::ConfigMap, "mine", &[owner]).await;
    s.stay(&[&mine, &map]).await;
    delete(&s.c, &second).await;
    gone(&s, &second).await;
    s.gone(&[&mine, &map]).await;
}

async fn what_is_of_the_cluster_owns_in_a_namespace_that_goes(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.of(Kind::ConfigMap, "mine", &[owner.blocking()]).await;
    let late = s.c.namespace().await;
    let change = serde_json::json!({"metadata": {"ownerReferences": [owner.blocking()]}});
    let other = s.create(Kind::ConfigMap, &late, "other", change).await;
    s.seen().await;
    s.delete(&owner, "Foreground").await;
    delete(&s.c, &late).await;
    s.gone(&[&mine, &other, &owner]).await;
    gone(&s, &late).await;
}
