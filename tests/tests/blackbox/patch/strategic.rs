//! Strategic merge patch: maps, directives and refusals. (Its lists have a file of their own.)

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, apps, config_map, core, deployment, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(maps_are_merged_and_null_removes),
        test!(map_is_replaced_by_directive),
        test!(map_is_deleted_by_directive),
        test!(retain_keys_drops_the_others),
        test!(retain_keys_in_a_volume_changes_its_type),
        test!(strategy_without_retain_keys_is_merged),
        test!(status_is_left_alone),
        test!(null_is_an_empty_patch),
        test!(patch_that_is_no_object_is_a_bad_request),
        test!(unknown_directive_is_an_error),
        test!(directive_that_is_no_text_is_an_error),
        test!(numbers_are_made_to_fit),
        test!(list_item_without_merge_key_is_an_error),
        test!(map_in_place_of_a_list_is_invalid),
        test!(whole_object_may_be_replaced),
    ]
}

async fn create(c: &Cluster, change: Value) -> String {
    let ns = c.namespace().await;
    c.api()
        .post(&apps(&ns, "deployments"), with(deployment("a"), change))
        .await
        .expect(201);
    apps(&ns, "deployments/a")
}

async fn patch(c: &Cluster, path: &str, change: Value) -> Reply {
    c.api().patch(path, STRATEGIC, change).await
}

async fn maps_are_merged_and_null_removes(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let body = with(
        config_map("a"),
        json!({"data": {"k": "1", "l": "2"}, "metadata": {"labels": {"x": "1"}}}),
    );
    c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    let changed = patch(
        &c,
        &path,
        json!({"data": {"k": null, "m": "3"}, "metadata": {"labels": {"y": "2"}}}),
    )
    .await
    .expect(200);
    assert_eq!(changed["data"], json!({"l": "2", "m": "3"}));
    assert_eq!(changed["metadata"]["labels"], json!({"x": "1", "y": "2"}));
}

async fn map_is_replaced_by_directive(c: Cluster) {
    let path = create(&c, json!({"metadata": {"labels": {"x": "1", "y": "2"}}})).await;
    let changed = patch(
        &c,
        &path,
        json!({"metadata": {"labels": {"$patch": "replace", "z": "3"}}}),
    )
    .await
    .expect(200);
    assert_eq!(changed["metadata"]["labels"], json!({"z": "3"}));
    let strategy = json!({"$patch": "replace", "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}});
    let changed = patch(&c, &path, json!({"spec": {"strategy": strategy}}))
        .await
        .expect(200);
    let rolling = json!({"maxUnavailable": "25%", "maxSurge": 3});
    assert_eq!(
        changed["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": rolling})
    );
}

async fn map_is_deleted_by_directive(c: Cluster) {
    let path = create(&c, json!({"metadata": {"labels": {"x": "1"}}})).await;
    let changed = patch(&c, &path, json!({"metadata": {"labels": {"$patch": "delete"}}}))
        .await
        .expect(200);
    assert_eq!(changed["metadata"].get("labels"), None);
}

async fn retain_keys_drops_the_others(c: Cluster) {
    let path = create(&c, json!({})).await;
    let strategy = json!({"$retainKeys": ["type"], "type": "Recreate"});
    let changed = patch(&c, &path, json!({"spec": {"strategy": strategy}}))
        .await
        .expect(200);
    assert_eq!(changed["spec"]["strategy"], json!({"type": "Recreate"}));
}

async fn retain_keys_in_a_volume_changes_its_type(c: Cluster) {
    let volumes = json!([{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]);
    let path = create(&c, json!({"spec": {"template": {"spec": {"volumes": volumes}}}})).await;
    let volume = json!({"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}});
    let changed = patch(
        &c,
        &path,
        json!({"spec": {"template": {"spec": {"volumes": [volume]}}}}),
    )
    .await
    .expect(200);
    let volumes = json!([
        {"name": "v", "configMap": {"name": "x", "defaultMode": 420}},
        {"name": "w", "emptyDir": {}},
    ]);
    assert_eq!(changed["spec"]["template"]["spec"]["volumes"], volumes);
    let volume = json!({"name": "v", "emptyDir": {}});
    let reply = patch(
        &c,
        &path,
        json!({"spec": {"template": {"spec": {"volumes": [volume]}}}}),
    )
    .await;
    let cause = "Forbidden spec.template.spec.volumes[0].configMap: may not specify more than 1 volume type";
    invalid(&reply, &[cause]);
    unchanged(&c, &path, &changed).await;
}

async fn strategy_without_retain_keys_is_merged(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let reply = patch(&c, &path, json!({"spec": {"strategy": {"type": "Recreate"}}})).await;
    invalid(
        &reply,
        &["Forbidden spec.strategy.rollingUpdate: may not be specified when strategy `type` is 'Recreate'"],
    );
    unchanged(&c, &path, &before).await;
}

async fn status_is_left_alone(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let after = patch(&c, &path, json!({"status": {"replicas": 5}}))
        .await
        .expect(200);
    assert_eq!(after["status"], before["status"]);
    assert_eq!(after["metadata"]["generation"], 1);
}

async fn null_is_an_empty_patch(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    assert_eq!(c.api().patch(&path, STRATEGIC, "null").await.expect(200), before);
}

async fn patch_that_is_no_object_is_a_bad_request(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    for body in ["[]", "3", "\"x\"", "nope", "{"] {
        c.api()
            .patch(&path, STRATEGIC, body)
            .await
            .expect_error(400, "BadRequest");
    }
    unchanged(&c, &path, &before).await;
}

async fn unknown_directive_is_an_error(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let container = json!({"name": "c", "$patch": "frob"});
    let reply = patch(
        &c,
        &path,
        json!({"spec": {"template": {"spec": {"containers": [container]}}}}),
    )
    .await;
    reply.expect_error(500, "");
    let message = "unknown patch type: frob in map: map[$patch:frob name:c]";
    reply.check(reply.message() == message, &format!("expected {message}"));
    unchanged(&c, &path, &before).await;
}

async fn list_item_without_merge_key_is_an_error(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let container = json!({"image": "x"});
    let reply = patch(
        &c,
        &path,
        json!({"spec": {"template": {"spec": {"containers": [container]}}}}),
    )
    .await;
    reply.expect_error(500, "");
    let message = "map: map[image:x] does not contain declared merge key: name";
    reply.check(reply.message() == message, &format!("expected {message}"));
    unchanged(&c, &path, &before).await;
}

async fn map_in_place_of_a_list_is_invalid(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let reply = patch(
        &c,
        &path,
        json!({"spec": {"template": {"spec": {"containers": {"name": "c"}}}}}),
    )
    .await;
    invalid(&reply, &["Invalid patch"]);
    unchanged(&c, &path, &before).await;
}

async fn whole_object_may_be_replaced(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let body = with(config_map("a"), json!({"metadata": {"labels": {"x": "1"}}}));
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    let replace = json!({"$patch": "replace", "metadata": {"name": "a"}, "data": {"l": "2"}});
    let changed = patch(&c, &path, replace).await.expect(200);
    assert_eq!(changed["data"], json!({"l": "2"}));
    assert_eq!(changed["metadata"].get("labels"), None);
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
    crate::expect::bad_request(&patch(&c, &path, json!({"$patch": "delete"})).await, message);
}

async fn directive_that_is_no_text_is_an_error(c: Cluster) {
    let path = create(&c, json!({"metadata": {"labels": {"x": "1"}}})).await;
    let before = c.api().get(&path).await.expect(200);
    for (directive, shown) in [
        (json!(1), "%!s(int64=1) in map: map[$patch:1]"),
        (json!(true), "%!s(bool=true) in map: map[$patch:true]"),
        (
            json!({"a": 1.5}),
            "map[a:%!s(float64=1.5)] in map: map[$patch:map[a:1.5]]",
        ),
    ] {
        let change = json!({"metadata": {"labels": {"$patch": directive}}});
        let reply = patch(&c, &path, change).await;
        reply.expect_error(500, "");
        let message = format!("unknown patch type: {shown}");
        reply.check(reply.message() == message, &format!("expected {message}"));
    }
    unchanged(&c, &path, &before).await;
}

/// What is merged in the typed form does not pass through JSON again: no number is too large there, nor written wrong.
async fn numbers_are_made_to_fit(c: Cluster) {
    let path = create(&c, json!({})).await;
    let change = |replicas: Value| json!({"spec": {"replicas": replicas}});
    let reply = patch(&c, &path, change(json!(3_000_000_000_i64))).await;
    invalid(
        &reply,
        &["Invalid spec.replicas: Invalid value: -1294967296: must be greater than or equal to 0"],
    );
    let changed = patch(&c, &path, change(json!(4_294_967_298_i64))).await;
    assert_eq!(changed.expect(200)["spec"]["replicas"], 2);
    let changed = patch(&c, &path, change(json!(3.0))).await;
    assert_eq!(changed.expect(200)["spec"]["replicas"], 3);
    let before = c.api().get(&path).await.expect(200);
    patch(&c, &path, change(json!(1.5)))
        .await
        .expect_error(422, "Invalid");
    for kind in [MERGE, JSON_PATCH] {
        let change = match kind {
            MERGE => change(json!(3_000_000_000_i64)),
            _ => json!([{"op": "replace", "path": "/spec/replicas", "value": 3_000_000_000_i64}]),
        };
        let reply = c.api().patch(&path, kind, change).await;
        reply.expect_error(422, "Invalid");
        reply.check(
            reply.causes()[0].field == "patch",
            "expected the patch as the cause",
        );
    }
    unchanged(&c, &path, &before).await;
}
