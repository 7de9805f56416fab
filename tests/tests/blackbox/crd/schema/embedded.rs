//! Resources inside of resources.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use super::{installed_with, object_of, refuses, widget};
use crate::support::create;

pub fn tests() -> Vec<Test> {
    vec![
        test!(kind_and_metadata_are_kept),
        test!(kind_and_metadata_are_checked).since(1, 36),
        test!(metadata_must_be_metadata),
    ]
}

fn schema() -> serde_json::Value {
    object_of(json!({
        "open": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "closed": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"data": {"type": "string"}}},
    }))
}

async fn kind_and_metadata_are_kept(c: Cluster) {
    let (place, path) = installed_with(&c, schema()).await;
    let resource = json!({
        "apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n", "labels": {"a": "b"}, "unknown": 1},
        "data": "x", "other": 1,
    });
    let made = create(
        &c,
        &path,
        &widget(&place, "a", json!({"open": resource, "closed": resource})),
    )
    .await;
    let metadata = json!({"name": "n", "labels": {"a": "b"}});
    assert_eq!(
        made["spec"]["closed"],
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "data": "x"})
    );
    assert_eq!(
        made["spec"]["open"],
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "data": "x", "other": 1})
    );
    place.remove(&c).await;
}

async fn kind_and_metadata_are_checked(c: Cluster) {
    let (place, path) = installed_with(&c, schema()).await;
    let specs = vec![
        (
            json!({"open": {"kind": "Thing"}}),
            vec!["Required spec.open.apiVersion"],
        ),
        (
            json!({"open": {"apiVersion": "v1", "kind": ""}}),
            vec!["Invalid spec.open.kind: must not be empty"],
        ),
        (
            json!({"open": {"apiVersion": "a/b/c", "kind": "Thing"}}),
            vec!["Invalid spec.open.apiVersion: unexpected GroupVersion string: a/b/c"],
        ),
    ];
    refuses(&c, &place, &path, specs).await;
    let bad = json!({"open": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a/b"}}});
    let reply = c.api().post(&path, widget(&place, "a", bad)).await;
    reply.expect_error(422, "Invalid");
    assert_eq!(reply.causes()[0].field, "spec.open.metadata.name", "{reply}");
    place.remove(&c).await;
}

async fn metadata_must_be_metadata(c: Cluster) {
    let (place, path) = installed_with(&c, schema()).await;
    for resource in [
        json!({"apiVersion": "v1", "kind": 5}),
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": 5}}),
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": []}),
    ] {
        let reply = c
            .api()
            .post(&path, widget(&place, "a", json!({"open": resource})))
            .await;
        reply.expect_error(400, "BadRequest");
    }
    c.api()
        .get(&format!("{path}/a"))
        .await
        .expect_error(404, "NotFound");
    place.remove(&c).await;
}
