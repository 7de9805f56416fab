//! Fields that a schema does not know.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use super::super::{install, patched};
use super::{Place, crd_of, installed_with, object_of, widget};
use crate::expect;
use crate::support::{create, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(unknown_fields_go),
        test!(fields_are_kept_where_the_schema_says_so),
        test!(strict_requests_are_refused).since(1, 25),
        test!(a_patch_cannot_bring_them_back),
        test!(what_was_stored_before_goes_when_it_is_read),
        test!(top_level_preservation_is_refused),
    ]
}

async fn unknown_fields_go(c: Cluster) {
    let schema = object_of(json!({
        "a": {"type": "string"},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let spec = json!({
        "a": "1", "b": "2", "c": {"d": 1},
        "map": {"one": {"k": "1", "x": "2"}},
        "list": [{"k": "1", "x": "2"}, {"y": 1}],
    });
    let made = create(&c, &path, &with(widget(&place, "a", spec), "/other", json!(1))).await;
    let expected = json!({"a": "1", "map": {"one": {"k": "1"}}, "list": [{"k": "1"}, {}]});
    assert_eq!(made["spec"], expected);
    assert_eq!(made["other"], json!(null));
    assert_eq!(c.api().get(&format!("{path}/a")).await.expect(200), made);
    place.remove(&c).await;
}

async fn fields_are_kept_where_the_schema_says_so(c: Cluster) {
    let keep = "x-kubernetes-preserve-unknown-fields";
    let schema = object_of(json!({
        "open": {"type": "object", keep: true, "properties": {
            "closed": {"type": "object", "properties": {"k": {"type": "string"}}},
        }},
        "any": {keep: true},
        "numbers": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "additionalProperties": true},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let spec = json!({
        "open": {"x": {"y": 1}, "closed": {"k": "1", "x": 1}},
        "any": [{"x": 1}],
        "numbers": "1",
        "free": {"x": 1, "y": {"gone": 1}},
        "gone": 1,
    });
    let made = create(&c, &path, &widget(&place, "a", spec)).await;
    let expected = json!({
        "open": {"x": {"y": 1}, "closed": {"k": "1"}},
        "any": [{"x": 1}],
        "numbers": "1",
        "free": {"x": 1, "y": {}},
    });
    assert_eq!(made["spec"], expected);
    place.remove(&c).await;
}

async fn strict_requests_are_refused(c: Cluster) {
    let (place, path) = installed_with(&c, object_of(json!({"a": {"type": "string"}}))).await;
    let body = widget(&place, "a", json!({"a": "1", "b": {"c": 1}, "d": 2}));
    let reply = c
        .api()
        .post(&format!("{path}?fieldValidation=Strict"), &body)
        .await;
    let message = "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.b\", \
                   unknown field \"spec.d\"";
    expect::bad_request(&reply, message);
    c.api()
        .get(&format!("{path}/a"))
        .await
        .expect_error(404, "NotFound");
    let reply = c.api().post(&path, &body).await;
    assert_eq!(
        reply.header("warning"),
        Some("299 - \"unknown field \\\"spec.b\\\"\""),
        "{reply}"
    );
    reply.expect(201);
    place.remove(&c).await;
}

async fn a_patch_cannot_bring_them_back(c: Cluster) {
    let (place, path) = installed_with(&c, object_of(json!({"a": {"type": "string"}}))).await;
    let made = create(&c, &path, &widget(&place, "a", json!({"a": "1"}))).await;
    let path = format!("{path}/a");
    let after = patched(&c, &path, json!({"spec": {"b": 1}})).await;
    assert_eq!(after, made);
    let after = patched(&c, &path, json!({"spec": {"a": "2", "b": 1}})).await;
    assert_eq!(after["spec"], json!({"a": "2"}));
    let put = c
        .api()
        .put(&path, with(after.clone(), "/spec/b", json!(1)))
        .await
        .expect(200);
    assert_eq!(put, after);
    place.remove(&c).await;
}

/// A field that leaves the schema is not seen any more, and not stored again.
async fn what_was_stored_before_goes_when_it_is_read(c: Cluster) {
    let place = Place::new(&c).await;
    let field = json!({"type": "string"});
    let before = object_of(json!({"spec": object_of(json!({"a": field, "b": field}))}));
    let after = object_of(json!({"spec": object_of(json!({"a": field}))}));
    let crd = install(&c, &crd_of(&place, before)).await;
    let path = place.widgets("v1");
    create(&c, &path, &widget(&place, "a", json!({"a": "1", "b": "2"}))).await;
    let changed = with(crd, "/spec/versions/0/schema/openAPIV3Schema", after);
    c.api().put(&place.crd_path("widgets"), changed).await.expect(200);
    let path = format!("{path}/a");
    crate::support::soon("the new schema is in force", async || {
        let read = c.api().get(&path).await;
        (read.status == 200 && read.json()["spec"] == json!({"a": "1"})).then_some(())
    })
    .await;
    place.remove(&c).await;
}

async fn top_level_preservation_is_refused(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = with(
        crd_of(&place, object_of(json!({}))),
        "/spec/preserveUnknownFields",
        json!(true),
    );
    let reply = c.api().post(super::super::CRDS, &crd).await;
    reply.expect_error(422, "Invalid");
    assert_eq!(reply.causes()[0].field, "spec.preserveUnknownFields", "{reply}");
}
