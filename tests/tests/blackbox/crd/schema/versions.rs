//! Several versions, each with a schema of its own, over one stored object.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::super::{install, patched};
use super::{Place, object_of, version_of};
use crate::support::{create, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(each_version_prunes_by_its_own_schema),
        test!(each_version_validates_by_its_own_schema),
        test!(defaults_are_those_of_the_request_and_of_the_store),
    ]
}

async fn versions(c: &Cluster, v1: Value, v2: Value) -> Place {
    let place = Place::new(c).await;
    let spec = |fields: Value| object_of(json!({"spec": object_of(fields)}));
    let versions = json!([
        version_of("v1", true, spec(v1)),
        version_of("v2", false, spec(v2))
    ]);
    install(c, &with(place.crd(), "/spec/versions", versions)).await;
    place
}

fn widget(place: &Place, version: &str, name: &str, spec: Value) -> Value {
    let widget = with(place.widget(name), "/spec", spec);
    with(widget, "/apiVersion", json!(format!("{}/{version}", place.group)))
}

async fn each_version_prunes_by_its_own_schema(c: Cluster) {
    let text = json!({"type": "string"});
    let place = versions(
        &c,
        json!({"a": text, "both": text}),
        json!({"b": text, "both": text}),
    )
    .await;
    let spec = json!({"a": "1", "b": "2", "both": "3"});
    let made = create(&c, &place.widgets("v1"), &widget(&place, "v1", "a", spec.clone())).await;
    assert_eq!(made["spec"], json!({"a": "1", "both": "3"}));
    let read = c
        .api()
        .get(&format!("{}/a", place.widgets("v2")))
        .await
        .expect(200);
    assert_eq!(read["spec"], json!({"both": "3"}));
    // What the stored version does not know is not stored, and so not answered.
    let made = create(&c, &place.widgets("v2"), &widget(&place, "v2", "b", spec)).await;
    assert_eq!(made["spec"], json!({"both": "3"}));
    let list = c.api().get(&place.widgets("v2")).await.expect(200);
    assert_eq!(list["items"][1]["spec"], json!({"both": "3"}));
    place.remove(&c).await;
}

async fn each_version_validates_by_its_own_schema(c: Cluster) {
    let most = |most: i64| json!({"n": {"type": "integer", "maximum": most}});
    let place = versions(&c, most(10), most(5)).await;
    create(
        &c,
        &place.widgets("v1"),
        &widget(&place, "v1", "a", json!({"n": 9})),
    )
    .await;
    let path = format!("{}/b", place.widgets("v2"));
    let reply = c
        .api()
        .post(&place.widgets("v2"), widget(&place, "v2", "b", json!({"n": 9})))
        .await;
    reply.expect_error(422, "Invalid");
    assert_eq!(reply.causes()[0].field, "spec.n", "{reply}");
    c.api().get(&path).await.expect_error(404, "NotFound");
    place.remove(&c).await;
}

async fn defaults_are_those_of_the_request_and_of_the_store(c: Cluster) {
    let with_default =
        |name: &str, default: &str| (name.to_owned(), json!({"type": "string", "default": default}));
    let fields = |list: Vec<(String, Value)>| Value::Object(list.into_iter().collect());
    let text = || ("late".to_owned(), json!({"type": "string"}));
    let place = versions(
        &c,
        fields(vec![with_default("x", "one"), with_default("late", "stored")]),
        fields(vec![with_default("x", "two"), text()]),
    )
    .await;
    let made = create(&c, &place.widgets("v2"), &widget(&place, "v2", "a", json!({}))).await;
    assert_eq!(made["spec"]["x"], "two");
    for version in ["v1", "v2"] {
        let read = c
            .api()
            .get(&format!("{}/a", place.widgets(version)))
            .await
            .expect(200);
        assert_eq!(read["spec"], json!({"x": "two", "late": "stored"}), "{version}");
    }
    let path = format!("{}/a", place.widgets("v2"));
    let after = patched(&c, &path, json!({"spec": {"x": "three"}})).await;
    assert_eq!(after["spec"]["x"], "three");
    place.remove(&c).await;
}
