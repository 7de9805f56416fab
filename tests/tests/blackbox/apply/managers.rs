//! The managers that other writes leave behind.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, apps, core, deployment, pod},
    test,
};
use http::Method;
use serde_json::{Value, json};

use super::{apply, fields, managers, map};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(every_write_has_a_manager),
        test!(without_a_name_it_is_the_user_agent),
        test!(what_is_removed_nobody_has),
        test!(saying_nothing_about_managers_keeps_them),
        test!(managers_can_be_forgotten_and_begin_anew).since(1, 36),
        test!(claims_are_taken_if_they_are_sound).since(1, 36),
        test!(old_managers_are_merged).since(1, 36),
        test!(the_oldest_managers_are_merged_first).since(1, 36),
        test!(a_change_has_its_time).since(1, 36),
        test!(the_same_in_other_words_is_no_change).since(1, 36),
        test!(metadata_alone_shows_them_too),
        test!(who_lost_everything_is_no_manager).since(1, 36),
        test!(a_subresource_cannot_forget_managers).since(1, 36),
        test!(an_empty_map_is_had_too).since(1, 36),
        test!(items_that_stand_twice_are_one).since(1, 36),
    ]
}

async fn who_lost_everything_is_no_manager(c: Cluster) {
    let ns = c.namespace().await;
    let posted = core(&ns, "configmaps?fieldManager=one");
    c.api().post(&posted, map(&json!({"a": "1"}))).await.expect(201);
    let path = core(&ns, "configmaps/a?fieldManager=two");
    let other = json!([{"op": "replace", "path": "/data", "value": {"a": "2"}}]);
    let taken = c.api().patch(&path, JSON_PATCH, other).await.expect(200);
    assert_eq!(fields(&taken, "two", "Update"), json!({"f:data": {"f:a": {}}}));
    assert_eq!(fields(&taken, "one", "Update"), json!({"f:data": {}}));
    let gone = json!({"data": null});
    let gone = c.api().patch(&path, MERGE, gone).await.expect(200);
    assert_eq!(managers(&gone), Vec::<&str>::new());
}

async fn a_subresource_cannot_forget_managers(c: Cluster) {
    let ns = c.namespace().await;
    c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    let forget = json!({"metadata": {"managedFields": [{}]}, "status": {"message": "m"}});
    let path = core(&ns, "pods/a/status?fieldManager=two");
    let told = c.api().patch(&path, MERGE, forget).await.expect(200);
    assert_eq!(managers(&told).len(), 2, "{told:#}");
}

async fn an_empty_map_is_had_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods/a");
    let mut config = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    config["spec"] = json!({"securityContext": {}, "containers": [{"name": "c", "image": "i"}]});
    let made = apply(&c, &path, "one", "", &config).await.expect(201);
    assert_eq!(
        fields(&made, "one", "Apply")["f:spec"]["f:securityContext"],
        json!({})
    );
}

async fn items_that_stand_twice_are_one(c: Cluster) {
    let ns = c.namespace().await;
    let mut twice = deployment("a");
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = env;
    c.api().post(&apps(&ns, "deployments"), twice).await.expect(201);
    let path = format!("{}/a?fieldManager=two", apps(&ns, "deployments"));
    let place = "/spec/template/spec/containers/0/env/1/value";
    let other = json!([{"op": "replace", "path": place, "value": "3"}]);
    let changed = c.api().patch(&path, JSON_PATCH, other).await.expect(200);
    let env = json!({"f:env": {"k:{\"name\":\"A\"}": {}}});
    let container = json!({"f:containers": {"k:{\"name\":\"c\"}": env}});
    assert_eq!(
        fields(&changed, "two", "Update"),
        json!({"f:spec": {"f:template": {"f:spec": container}}})
    );
}

async fn every_write_has_a_manager(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let posted = c
        .api()
        .post(
            &core(&ns, "configmaps?fieldManager=post"),
            map(&json!({"a": "1"})),
        )
        .await
        .expect(201);
    assert_eq!(fields(&posted, "post", "Update")["f:data"]["f:a"], json!({}));
    let put = format!("{path}?fieldManager=put");
    c.api()
        .put(&put, map(&json!({"a": "1", "b": "1"})))
        .await
        .expect(200);
    for (manager, kind, body) in [
        ("merge", MERGE, json!({"data": {"c": "1"}})),
        (
            "json",
            JSON_PATCH,
            json!([{"op": "add", "path": "/data/d", "value": "1"}]),
        ),
        ("strategic", STRATEGIC, json!({"data": {"e": "1"}})),
    ] {
        c.api()
            .patch(&format!("{path}?fieldManager={manager}"), kind, body)
            .await
            .expect(200);
    }
    let all = c.api().get(&path).await.expect(200);
    for (manager, key) in [("put", "b"), ("merge", "c"), ("json", "d"), ("strategic", "e")] {
        let own = json!({"f:data": {format!("f:{key}"): {}}});
        assert_eq!(fields(&all, manager, "Update"), own, "{manager}");
    }
}

async fn without_a_name_it_is_the_user_agent(c: Cluster) {
    let ns = c.namespace().await;
    let headers = [("user-agent", "some-tool/v1.2 (linux/amd64)")];
    let made = c
        .api()
        .request(
            Method::POST,
            &core(&ns, "configmaps"),
            &headers,
            map(&json!({"a": "1"})),
        )
        .await;
    assert_eq!(managers(&made.expect(201)), ["some-tool"]);
}

async fn what_is_removed_nobody_has(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "m", "", &map(&json!({"a": "1", "b": "1"})))
        .await
        .expect(201);
    let change = json!({"data": {"a": null}});
    let left = c
        .api()
        .patch(&format!("{path}?fieldManager=other"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(managers(&left), ["m"]);
    assert_eq!(fields(&left, "m", "Apply")["f:data"]["f:a"], Value::Null);
}

async fn saying_nothing_about_managers_keeps_them(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = apply(&c, &path, "m", "", &map(&json!({"a": "1"})))
        .await
        .expect(201);
    let put = c.api().put(&path, map(&json!({"a": "1"}))).await.expect(200);
    assert_eq!(
        put["metadata"]["managedFields"],
        made["metadata"]["managedFields"]
    );
    let patched = c
        .api()
        .patch(&path, MERGE, json!({"metadata": {"managedFields": null}}))
        .await
        .expect(200);
    assert_eq!(
        patched["metadata"]["managedFields"],
        made["metadata"]["managedFields"]
    );
}

async fn managers_can_be_forgotten_and_begin_anew(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    for empty in [json!([]), json!([{}])] {
        apply(&c, &path, "m", "&force=true", &map(&json!({"a": "1"}))).await;
        let bare = c
            .api()
            .patch(&path, MERGE, json!({"metadata": {"managedFields": empty}}))
            .await
            .expect(200);
        assert_eq!(managers(&bare), Vec::<&str>::new());
        let bare = c
            .api()
            .patch(&path, MERGE, json!({"data": {"b": "1"}}))
            .await
            .expect(200);
        assert_eq!(
            managers(&bare),
            Vec::<&str>::new(),
            "nobody is recorded until somebody applies"
        );
    }
    let refused = apply(&c, &path, "m", "", &map(&json!({"b": "2"}))).await;
    refused.expect_error(409, "Conflict");
    let text = "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.b";
    assert_eq!(refused.message(), text);
    let applied = apply(&c, &path, "m", "", &map(&json!({"c": "2"})))
        .await
        .expect(200);
    assert_eq!(managers(&applied), ["m", "before-first-apply"]);
}

async fn claims_are_taken_if_they_are_sound(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = apply(&c, &path, "m", "", &map(&json!({"a": "1"})))
        .await
        .expect(201);
    for wrong in [
        json!([{"manager": "x", "operation": "Steal", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
        json!([{"manager": "x", "operation": "Apply", "apiVersion": "", "fieldsType": "FieldsV1"}]),
        json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
        json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1"}]),
    ] {
        let kept = c
            .api()
            .patch(&path, MERGE, json!({"metadata": {"managedFields": wrong}}))
            .await
            .expect(200);
        assert_eq!(
            kept["metadata"]["managedFields"],
            made["metadata"]["managedFields"]
        );
    }
    // One of a version that is none of this kind is forgotten.
    let foreign = json!([{"op": "add", "path": "/metadata/managedFields/-", "value": {
        "manager": "x", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }}]);
    let kept = c.api().patch(&path, JSON_PATCH, foreign).await.expect(200);
    assert_eq!(managers(&kept), ["m"]);
    let rename = json!([{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "renamed"}]);
    let renamed = c.api().patch(&path, JSON_PATCH, rename).await.expect(200);
    assert_eq!(managers(&renamed), ["renamed"]);
    assert_eq!(fields(&renamed, "renamed", "Apply"), fields(&made, "m", "Apply"));
}

async fn old_managers_are_merged(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    c.api()
        .post(&core(&ns, "configmaps?fieldManager=m0"), map(&json!({"k0": "1"})))
        .await
        .expect(201);
    for n in 1..12 {
        let body = json!({"data": {format!("k{n}"): "1"}});
        c.api()
            .patch(&format!("{path}?fieldManager=m{n}"), MERGE, body)
            .await
            .expect(200);
    }
    let all = c.api().get(&path).await.expect(200);
    assert_eq!(managers(&all).len(), 10);
    let ancient = fields(&all, "ancient-changes", "Update");
    assert_eq!(ancient["f:data"]["f:k0"], json!({}), "{all:#}");
    assert_eq!(fields(&all, "m11", "Update"), json!({"f:data": {"f:k11": {}}}));
}

/// Whatever order they come in; what they are merged into has the time of the last of them.
async fn the_oldest_managers_are_merged_first(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let data = |count: usize| -> Value { (0..count).map(|n| (format!("k{n}"), json!("1"))).collect() };
    c.api()
        .post(&core(&ns, "configmaps"), map(&data(11)))
        .await
        .expect(201);
    let entry = |n: usize| {
        let fields = json!({"f:data": {format!("f:k{n}"): {}}});
        json!({"manager": format!("m{n}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
               "fieldsV1": fields, "time": format!("2020-01-01T00:00:{n:02}Z")})
    };
    let shuffled: Vec<Value> = (0..11).map(|n| entry(n * 7 % 11)).collect();
    let mut next = map(&data(12));
    next["metadata"]["managedFields"] = shuffled.into();
    let written = c
        .api()
        .put(&format!("{path}?fieldManager=last"), next)
        .await
        .expect(200);
    let rest = (3..11).map(|n| format!("m{n}"));
    let expected: Vec<String> = std::iter::once("ancient-changes".to_owned())
        .chain(rest)
        .chain(["last".to_owned()])
        .collect();
    let entries = written["metadata"]["managedFields"].as_array().expect("managers");
    let found: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(found, expected);
    assert_eq!(entries[0]["time"], "2020-01-01T00:00:02Z");
    assert_eq!(
        fields(&written, "ancient-changes", "Update"),
        json!({"f:data": {"f:k0": {}, "f:k1": {}, "f:k2": {}}})
    );
}

/// Makes `past` the one manager, since long ago.
async fn long_ago(c: &Cluster, path: &str, operation: &str) -> Value {
    let mut object = c.api().get(path).await.expect(200);
    let entry = &mut object["metadata"]["managedFields"][0];
    (entry["manager"], entry["operation"], entry["time"]) = (json!("past"), json!(operation), json!(PAST));
    let written = c
        .api()
        .put(&format!("{path}?fieldManager=past"), object)
        .await
        .expect(200);
    assert_eq!(time_of(&written), PAST);
    written
}

const PAST: &str = "2020-01-01T00:00:00Z";

/// Since when the one manager has what it has.
fn time_of(object: &Value) -> &Value {
    assert_eq!(managers(object), ["past"]);
    &object["metadata"]["managedFields"][0]["time"]
}

async fn a_change_has_its_time(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    c.api()
        .post(&core(&ns, "configmaps"), map(&json!({"a": "1"})))
        .await
        .expect(201);
    let before = long_ago(&c, &path, "Update").await;
    let change = async |data: Value| {
        let path = format!("{path}?fieldManager=past");
        c.api()
            .patch(&path, MERGE, json!({"data": data}))
            .await
            .expect(200)
    };
    assert_eq!(change(json!({"a": "1"})).await, before);
    let after = change(json!({"b": "1"})).await;
    assert_ne!(time_of(&after), PAST);
    assert_eq!(
        fields(&after, "past", "Update")["f:data"],
        json!({".": {}, "f:a": {}, "f:b": {}})
    );
}

async fn the_same_in_other_words_is_no_change(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods/a");
    let limits = json!({"limits": {"cpu": "1000m"}});
    let config = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": limits}]}});
    let made = apply(&c, &path, "one", "", &config).await.expect(201);
    assert_eq!(made["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
    let before = long_ago(&c, &path, "Apply").await;
    let after = apply(&c, &path, "past", "", &config).await.expect(200);
    assert_eq!(after, before);
}

async fn metadata_alone_shows_them_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = apply(&c, &path, "m", "", &map(&json!({"a": "1"})))
        .await
        .expect(201);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial = c
        .api()
        .request(Method::GET, &path, &[("accept", accept)], ())
        .await
        .expect(200);
    assert_eq!(partial["metadata"], made["metadata"]);
}
