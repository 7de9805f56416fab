//! Deletion of namespaces with owners and dependents.

use steersman_harness::{Cluster, Test};

use super::fixture::{Fixture, HOLD, Kind};

pub fn tests() -> Vec<Test> {
    [
        each!(namespace_with_owned_objects_is_deleted, [Widget], Kcm),
        each!(dependents_of_a_deleted_namespace_are_deleted, [Region], Kcm),
        each!(
            cluster_scoped_owner_of_objects_in_a_terminating_namespace_is_deleted,
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

async fn wait_namespace_deleted(f: &Fixture, ns: &str) {
    f.wait_path_deleted(&format!("/api/v1/namespaces/{ns}")).await;
}

async fn namespace_with_owned_objects_is_deleted(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    f.create("mine", &[owner.blocking()]).await;
    let deleted = f.create("deleted", &[]).await;
    let held = f.create_held("held", &[deleted.blocking()]).await;
    let one = f.create("one", &[]).await;
    let two = f.create("two", &[one.blocking()]).await;
    f.set_owners(&one, &[two.blocking()]).await;
    f.delete_observed(&deleted, "Foreground").await;
    f.wait_terminating(&held).await;
    delete(&f.c, &f.ns).await;
    f.wait_deleted(&[&owner, &one, &two]).await;
    let now = f.get(&held).await;
    assert_eq!(super::fixture::finalizers(&now), [HOLD]);
    f.remove_hold(&held).await;
    wait_namespace_deleted(&f, &f.ns).await;
}

async fn dependents_of_a_deleted_namespace_are_deleted(f: Fixture) {
    let second = f.c.namespace().await;
    let path = format!("/api/v1/namespaces/{second}");
    let object = f.c.api().get(&path).await.expect(200);
    let owner = serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "name": second, "uid": object["metadata"]["uid"],
    });
    let mine = f.create("mine", std::slice::from_ref(&owner)).await;
    let map = f.create_kind(Kind::ConfigMap, "mine", &[owner]).await;
    f.assert_kept(&[&mine, &map]).await;
    delete(&f.c, &second).await;
    wait_namespace_deleted(&f, &second).await;
    f.wait_deleted(&[&mine, &map]).await;
}

async fn cluster_scoped_owner_of_objects_in_a_terminating_namespace_is_deleted(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create_kind(Kind::ConfigMap, "mine", &[owner.blocking()]).await;
    let late = f.c.namespace().await;
    let change = serde_json::json!({"metadata": {"ownerReferences": [owner.blocking()]}});
    let other = f.create_with(Kind::ConfigMap, &late, "other", change).await;
    f.delete_observed(&owner, "Foreground").await;
    delete(&f.c, &late).await;
    f.wait_deleted(&[&mine, &other, &owner]).await;
    wait_namespace_deleted(&f, &late).await;
}
