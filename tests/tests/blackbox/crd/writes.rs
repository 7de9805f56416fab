//! Creating and changing custom resources.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use super::{installed, patched};
use crate::support::{JSON_PATCH, STRATEGIC, assert_gone, create, version, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(generation_counts_all_but_metadata),
        test!(merge_and_json_patches),
        test!(strategic_merge_is_refused),
        test!(put_needs_a_version),
        test!(put_of_a_stale_version_is_a_conflict),
        test!(put_without_change_changes_nothing),
        test!(put_creates_nothing),
        test!(metadata_is_validated),
        test!(name_is_generated),
        test!(kind_and_version_must_match),
        test!(namespace_must_exist),
    ]
}

/// Without a status subresource, status is a field like others.
async fn generation_counts_all_but_metadata(c: Cluster) {
    let (place, path) = installed(&c).await;
    create(&c, &path, &place.widget("a")).await;
    let path = format!("{path}/a");
    for (change, generation) in [
        (json!({"spec": {"x": 1}}), 2),
        (json!({"spec": {"x": 1}}), 2),
        (json!({"other": {"x": 1}}), 3),
        (json!({"metadata": {"labels": {"l": "1"}}}), 3),
        (json!({"metadata": {"annotations": {"l": "1"}}}), 3),
        (json!({"status": {"x": 1}}), 4),
        (json!({"metadata": {"labels": {"l": "2"}}, "spec": {"x": 2}}), 5),
        (json!({"metadata": {"generation": 99}}), 5),
    ] {
        let answer = patched(&c, &path, change.clone()).await;
        assert_eq!(answer["metadata"]["generation"], generation, "{change}");
    }
    place.remove(&c).await;
}

async fn merge_and_json_patches(c: Cluster) {
    let (place, path) = installed(&c).await;
    let widget = with(
        place.widget("a"),
        "/spec",
        json!({"x": 1, "list": [1, 2], "y": {"z": 1}}),
    );
    create(&c, &path, &widget).await;
    let path = format!("{path}/a");
    let change = json!({"spec": {"x": null, "list": [3], "y": {"w": 2}}});
    let answer = patched(&c, &path, change).await;
    assert_eq!(answer["spec"], json!({"list": [3], "y": {"z": 1, "w": 2}}));
    let change =
        json!([{"op": "add", "path": "/spec/list/-", "value": 4}, {"op": "remove", "path": "/spec/y/z"}]);
    let answer = c.api().patch(&path, JSON_PATCH, change).await.expect(200);
    assert_eq!(answer["spec"], json!({"list": [3, 4], "y": {"w": 2}}));
    place.remove(&c).await;
}

async fn strategic_merge_is_refused(c: Cluster) {
    let (place, path) = installed(&c).await;
    let made = create(&c, &path, &place.widget("a")).await;
    let path = format!("{path}/a");
    let reply = c.api().patch(&path, STRATEGIC, json!({"spec": {"x": 1}})).await;
    reply.expect_error(415, "UnsupportedMediaType");
    let start = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
                 application/merge-patch+json";
    reply.check(reply.message().starts_with(start), start);
    assert_eq!(c.api().get(&path).await.expect(200), made);
    place.remove(&c).await;
}

async fn put_needs_a_version(c: Cluster) {
    let (place, path) = installed(&c).await;
    let made = create(&c, &path, &place.widget("a")).await;
    let path = format!("{path}/a");
    let widget = with(place.widget("a"), "/spec/x", json!(1));
    let reply = c.api().put(&path, widget).await;
    reply.expect_error(422, "Invalid");
    let causes = reply.causes();
    assert_eq!(
        (&*causes[0].reason, &*causes[0].field),
        ("FieldValueInvalid", "metadata.resourceVersion")
    );
    let end = ": must be specified for an update";
    assert!(causes[0].message.ends_with(end), "{causes:?}");
    // Here the resource stands where other such answers have the kind.
    let start = format!("widgets.{} \"a\" is invalid: ", place.group);
    reply.check(reply.message().starts_with(&start), &start);
    assert_eq!(c.api().get(&path).await.expect(200), made);
    place.remove(&c).await;
}

async fn put_of_a_stale_version_is_a_conflict(c: Cluster) {
    let (place, path) = installed(&c).await;
    let made = create(&c, &path, &place.widget("a")).await;
    let path = format!("{path}/a");
    let changed = c
        .api()
        .put(&path, with(made.clone(), "/spec/x", json!(1)))
        .await
        .expect(200);
    assert!(version(&changed) > version(&made));
    let reply = c.api().put(&path, with(made, "/spec/x", json!(2))).await;
    reply.expect_error(409, "Conflict");
    let message = format!(
        "Operation cannot be fulfilled on widgets.{} \"a\": the object has been modified; please apply your changes to the \
         latest version and try again",
        place.group
    );
    reply.check(reply.message() == message, &message);
    assert_eq!(c.api().get(&path).await.expect(200), changed);
    place.remove(&c).await;
}

async fn put_without_change_changes_nothing(c: Cluster) {
    let (place, path) = installed(&c).await;
    let made = create(&c, &path, &with(place.widget("a"), "/spec/x", json!(1))).await;
    let same = c.api().put(&format!("{path}/a"), &made).await.expect(200);
    assert_eq!(same, made);
    place.remove(&c).await;
}

async fn put_creates_nothing(c: Cluster) {
    let (place, path) = installed(&c).await;
    let path = format!("{path}/nope");
    c.api()
        .put(&path, place.widget("nope"))
        .await
        .expect_error(404, "NotFound");
    assert_gone(&c, &path).await;
    place.remove(&c).await;
}

async fn metadata_is_validated(c: Cluster) {
    let (place, path) = installed(&c).await;
    for (pointer, value, reason, field) in [
        (
            "/metadata/name",
            json!("A_b"),
            "FieldValueInvalid",
            "metadata.name",
        ),
        (
            "/metadata/labels",
            json!({"l": "-"}),
            "FieldValueInvalid",
            "metadata.labels",
        ),
        (
            "/metadata/labels",
            json!({"-": "l"}),
            "FieldValueInvalid",
            "metadata.labels",
        ),
        (
            "/metadata/annotations",
            json!({"a b": "x"}),
            "FieldValueInvalid",
            "metadata.annotations",
        ),
        (
            "/metadata/finalizers",
            json!(["a b"]),
            "FieldValueInvalid",
            "metadata.finalizers",
        ),
    ] {
        let widget = with(place.widget("a"), pointer, value.clone());
        let reply = c.api().post(&path, widget).await;
        reply.expect_error(422, "Invalid");
        let cause = reply.causes().swap_remove(0);
        assert_eq!((&*cause.reason, &*cause.field), (reason, field), "{value}");
        let start = format!("Widget.{} ", place.group);
        reply.check(reply.message().starts_with(&start), &start);
    }
    let widget = with(place.widget("a"), "/metadata/labels", json!({"l": 1}));
    c.api().post(&path, widget).await.expect_error(400, "BadRequest");
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(list["items"], json!([]));
    place.remove(&c).await;
}

async fn name_is_generated(c: Cluster) {
    let (place, path) = installed(&c).await;
    let widget = with(place.widget("a"), "/metadata", json!({"generateName": "gen-"}));
    let made = create(&c, &path, &widget).await;
    let name = crate::support::name(&made);
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    let reply = c
        .api()
        .post(&path, with(place.widget("a"), "/metadata", json!({})))
        .await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(
        (&*cause.reason, &*cause.field, &*cause.message),
        (
            "FieldValueRequired",
            "metadata.name",
            "Required value: name or generateName is required"
        )
    );
    place.remove(&c).await;
}

async fn kind_and_version_must_match(c: Cluster) {
    let (place, path) = installed(&c).await;
    let other_kind = with(place.widget("a"), "/kind", json!("Other"));
    let reply = c.api().post(&path, other_kind).await;
    reply.expect_error(422, "Invalid");
    // It is known by the kind that it says it is.
    let message = format!(
        "Other.{} \"a\" is invalid: kind: Invalid value: \"Other\": must be Widget",
        place.group
    );
    reply.check(reply.message() == message, &message);
    let other_version = with(place.widget("a"), "/apiVersion", json!("example.com/v9"));
    let reply = c.api().post(&path, other_version).await;
    reply.expect_error(400, "BadRequest");
    let message = format!(
        "the API version in the data (example.com/v9) does not match the expected API version ({}/v1)",
        place.group
    );
    reply.check(reply.message() == message, &message);
    c.api()
        .post(&path, json!({"metadata": {"name": "a"}}))
        .await
        .expect_error(400, "BadRequest");
    assert_gone(&c, &format!("{path}/a")).await;
    place.remove(&c).await;
}

async fn namespace_must_exist(c: Cluster) {
    let (place, _) = installed(&c).await;
    let path = format!("/apis/{}/v1/namespaces/no-such-namespace/widgets", place.group);
    let reply = c.api().post(&path, place.widget("a")).await;
    reply.expect_error(404, "NotFound");
    let message = "namespaces \"no-such-namespace\" not found";
    reply.check(reply.message() == message, message);
    place.remove(&c).await;
}
