//! Values that a schema fills in, and nulls.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use super::super::{install, patched};
use super::{Place, crd_of, installed_with, object_of, refuses, widget};
use crate::support::{create, soon, version, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(missing_fields_are_filled_in),
        test!(removed_fields_are_filled_in_again),
        test!(nulls_become_defaults_or_go),
        test!(defaults_go_into_lists_and_maps),
        test!(stored_objects_get_new_defaults_when_read),
        test!(a_required_field_may_have_a_default),
    ]
}

async fn missing_fields_are_filled_in(c: Cluster) {
    let schema = object_of(json!({
        "replicas": {"type": "integer", "default": 1},
        "deep": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "y"}}},
        "shallow": {"type": "object", "properties": {"x": {"type": "string", "default": "y"}}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let made = create(&c, &path, &widget(&place, "a", json!({}))).await;
    assert_eq!(made["spec"], json!({"replicas": 1, "deep": {"x": "y"}}));
    let made = create(
        &c,
        &path,
        &widget(
            &place,
            "b",
            json!({"replicas": 0, "deep": {"x": "z"}, "shallow": {}}),
        ),
    )
    .await;
    assert_eq!(
        made["spec"],
        json!({"replicas": 0, "deep": {"x": "z"}, "shallow": {"x": "y"}})
    );
    // Nothing stands in for a parent that has no default.
    let made = create(&c, &path, &place.widget("c")).await;
    assert_eq!(made["spec"], json!(null));
    place.remove(&c).await;
}

async fn removed_fields_are_filled_in_again(c: Cluster) {
    let schema = object_of(json!({"replicas": {"type": "integer", "default": 1}}));
    let (place, path) = installed_with(&c, schema).await;
    let made = create(&c, &path, &widget(&place, "a", json!({"replicas": 3}))).await;
    let path = format!("{path}/a");
    let after = patched(&c, &path, json!({"spec": {"replicas": null}})).await;
    assert_eq!(after["spec"], json!({"replicas": 1}));
    let put = c
        .api()
        .put(&path, with(after.clone(), "/spec", json!({})))
        .await
        .expect(200);
    assert_eq!(put, after);
    assert!(version(&after) > version(&made));
    place.remove(&c).await;
}

async fn nulls_become_defaults_or_go(c: Cluster) {
    let schema = object_of(json!({
        "a": {"type": "string", "default": "d"},
        "b": {"type": "string"},
        "c": {"type": "string", "nullable": true},
        "d": {"type": "string", "nullable": true, "default": "d"},
        "list": {"type": "array", "items": {"type": "string"}},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let nulls = json!({"a": null, "b": null, "c": null, "d": null});
    let made = create(&c, &path, &widget(&place, "a", nulls)).await;
    assert_eq!(made["spec"], json!({"a": "d", "c": null, "d": null}));
    let specs = vec![(
        json!({"list": ["x", null]}),
        vec!["TypeInvalid spec.list[1]: must be of type string: \"null\""],
    )];
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    if crate::expect::speaks_1_36(&c) {
        refuses(&c, &place, &path, specs).await;
    }
    place.remove(&c).await;
}

async fn defaults_go_into_lists_and_maps(c: Cluster) {
    let item = json!({"type": "object", "properties": {"x": {"type": "integer", "default": 7}, "y": {"type": "integer"}}});
    let schema = object_of(json!({
        "list": {"type": "array", "items": item},
        "map": {"type": "object", "additionalProperties": item},
    }));
    let (place, path) = installed_with(&c, schema).await;
    let spec = json!({"list": [{}, {"x": 1}], "map": {"a": {"y": 1}}});
    let made = create(&c, &path, &widget(&place, "a", spec)).await;
    let expected = json!({"list": [{"x": 7}, {"x": 1}], "map": {"a": {"x": 7, "y": 1}}});
    assert_eq!(made["spec"], expected);
    place.remove(&c).await;
}

async fn stored_objects_get_new_defaults_when_read(c: Cluster) {
    let place = Place::new(&c).await;
    let plain = json!({"type": "string"});
    let schema = |b: serde_json::Value| object_of(json!({"spec": object_of(json!({"a": plain, "b": b}))}));
    let crd = install(&c, &crd_of(&place, schema(plain.clone()))).await;
    let path = place.widgets("v1");
    let made = create(&c, &path, &widget(&place, "a", json!({"a": "1"}))).await;
    let changed = with(
        crd,
        "/spec/versions/0/schema/openAPIV3Schema",
        schema(json!({"type": "string", "default": "new"})),
    );
    c.api().put(&place.crd_path("widgets"), changed).await.expect(200);
    let one = format!("{path}/a");
    let read = soon("the new default is in force", async || {
        let reply = c.api().get(&one).await;
        // A real server may be about to serve it anew, and says so.
        if reply.status == 429 && !c.is_sandbox() {
            return None;
        }
        let read = reply.expect(200);
        (read["spec"] == json!({"a": "1", "b": "new"})).then_some(read)
    })
    .await;
    // Reading stores nothing.
    assert_eq!(
        read["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(list["items"][0]["spec"], json!({"a": "1", "b": "new"}));
    place.remove(&c).await;
}

async fn a_required_field_may_have_a_default(c: Cluster) {
    let schema =
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "default": "d"}}});
    let (place, path) = installed_with(&c, schema).await;
    let made = create(&c, &path, &widget(&place, "a", json!({}))).await;
    assert_eq!(made["spec"], json!({"a": "d"}));
    place.remove(&c).await;
}
