//! Custom resources are objects like others: read, listed, watched and deleted.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use super::{installed, patched};
use crate::support::{
    HOLD, MERGE, assert_gone, create, finalizers, held, is_marked, labelled, lines, names, version, with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(anything_is_kept),
        test!(items_of_a_list_carry_their_kind),
        test!(missing_object_is_not_found),
        test!(deletion_answers_a_status),
        test!(finalizers_hold),
        test!(collection_is_deleted),
        test!(selectors_choose),
        test!(pages_follow_each_other),
        test!(watch_shows_changes),
        test!(metadata_form_of_a_list),
    ]
}

async fn anything_is_kept(c: Cluster) {
    let (place, path) = installed(&c).await;
    let mut widget = place.widget("a");
    widget["spec"] = json!({"deep": {"list": [1, "two", null, {"three": 3.5}]}, "empty": {}, "none": null});
    widget["anything"] = json!(["x"]);
    let made = create(&c, &path, &widget).await;
    assert_eq!(
        (&made["spec"], &made["anything"]),
        (&widget["spec"], &widget["anything"])
    );
    assert_eq!(made["metadata"]["namespace"], json!(place.ns));
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(made["metadata"]["uid"].is_string() && made["metadata"]["creationTimestamp"].is_string());
    assert_eq!(c.api().get(&format!("{path}/a")).await.expect(200), made);
    place.remove(&c).await;
}

/// Unlike those of built-in kinds; and the token is there even when it is empty.
async fn items_of_a_list_carry_their_kind(c: Cluster) {
    let (place, path) = installed(&c).await;
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(list["items"], json!([]));
    let made = create(&c, &path, &place.widget("a")).await;
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("WidgetList"), &json!(format!("{}/v1", place.group)))
    );
    assert_eq!(list["items"], json!([made]));
    assert_eq!(list["metadata"]["continue"], "");
    place.remove(&c).await;
}

async fn missing_object_is_not_found(c: Cluster) {
    let (place, path) = installed(&c).await;
    let path = format!("{path}/nope");
    let group = &place.group;
    for reply in [
        c.api().get(&path).await,
        c.api().delete(&path, ()).await,
        c.api().patch(&path, MERGE, json!({})).await,
    ] {
        reply.expect_error(404, "NotFound");
        let message = format!("widgets.{group} \"nope\" not found");
        reply.check(reply.message() == message, &message);
        let details = json!({"name": "nope", "group": group, "kind": "widgets"});
        reply.check(reply.json()["details"] == details, "other details");
    }
    place.remove(&c).await;
}

async fn deletion_answers_a_status(c: Cluster) {
    let (place, path) = installed(&c).await;
    let made = create(&c, &path, &place.widget("a")).await;
    let answer = c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert_eq!(answer["status"], "Success");
    let details =
        json!({"name": "a", "group": place.group, "kind": "widgets", "uid": made["metadata"]["uid"]});
    assert_eq!(answer["details"], details);
    assert_gone(&c, &format!("{path}/a")).await;
    place.remove(&c).await;
}

async fn finalizers_hold(c: Cluster) {
    let (place, path) = installed(&c).await;
    create(&c, &path, &held(place.widget("a"))).await;
    let path = format!("{path}/a");
    let options = json!({"propagationPolicy": "Foreground"});
    let marked = c.api().delete(&path, options).await.expect(200);
    assert_eq!(finalizers(&marked), [HOLD, "foregroundDeletion"]);
    assert!(is_marked(&marked));
    assert_eq!(marked["metadata"]["generation"], 2);
    let reply = c.api().post(&place.widgets("v1"), place.widget("a")).await;
    reply.expect_error(409, "AlreadyExists");
    let start = "object is being deleted: ";
    reply.check(reply.message().starts_with(start), start);
    patched(&c, &path, json!({"metadata": {"finalizers": null}})).await;
    assert_gone(&c, &path).await;
    place.remove(&c).await;
}

async fn collection_is_deleted(c: Cluster) {
    let (place, path) = installed(&c).await;
    for name in ["a", "b"] {
        create(&c, &path, &place.widget(name)).await;
    }
    let answer = c.api().delete(&path, ()).await.expect(200);
    assert_eq!(answer["kind"], "WidgetList");
    assert_eq!(names(&answer), ["a", "b"]);
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(list["items"], json!([]));
    place.remove(&c).await;
}

async fn selectors_choose(c: Cluster) {
    let (place, path) = installed(&c).await;
    for name in ["a", "b"] {
        create(&c, &path, &labelled(place.widget(name), json!({"l": name}))).await;
    }
    for query in ["labelSelector=l%3Db", "fieldSelector=metadata.name%3Db"] {
        let list = c.api().get(&format!("{path}?{query}")).await.expect(200);
        assert_eq!(names(&list), ["b"], "{query}");
    }
    let reply = c.api().get(&format!("{path}?fieldSelector=spec.x%3D1")).await;
    reply.expect_error(400, "BadRequest");
    let message = "field label not supported: spec.x";
    reply.check(reply.message() == message, message);
    place.remove(&c).await;
}

async fn pages_follow_each_other(c: Cluster) {
    let (place, path) = installed(&c).await;
    for name in ["a", "b", "c"] {
        create(&c, &path, &place.widget(name)).await;
    }
    let first = c.api().get(&format!("{path}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let query = format!("{path}?limit=2&continue={token}");
    let second = c.api().get(&query).await.expect(200);
    assert_eq!(names(&second), ["c"]);
    assert_eq!(second["metadata"]["continue"], "");
    place.remove(&c).await;
}

async fn watch_shows_changes(c: Cluster) {
    let (place, path) = installed(&c).await;
    let list = c.api().get(&path).await.expect(200);
    let query = format!("{path}?watch=1&resourceVersion={}", version(&list));
    let mut watch = c.api().watch(&query).await;
    let made = create(&c, &path, &place.widget("a")).await;
    assert_eq!(watch.expect("ADDED").await, made);
    let changed = patched(&c, &format!("{path}/a"), json!({"spec": {"x": 1}})).await;
    assert_eq!(watch.expect("MODIFIED").await, changed);
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert_eq!(lines(&mut watch, 1).await, ["DELETED a"]);
    place.remove(&c).await;
}

async fn metadata_form_of_a_list(c: Cluster) {
    let (place, path) = installed(&c).await;
    let made = create(&c, &path, &with(place.widget("a"), "/spec/x", json!(1))).await;
    let accept = [(
        "accept",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    )];
    let list = c
        .api()
        .request(http::Method::GET, &path, &accept, ())
        .await
        .expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(
        list["items"],
        json!([{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}])
    );
    place.remove(&c).await;
}
