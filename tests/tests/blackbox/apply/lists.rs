//! Lists that merge item by item.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{apps, core, named},
    test,
};
use serde_json::{Value, json};

use super::{apply, fields};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(containers_and_what_they_hold_merge_by_key),
        test!(items_go_with_the_last_who_has_them),
        test!(finalizers_are_a_set),
        test!(owner_references_are_told_apart_by_uid),
        test!(service_ports_have_two_keys).since(1, 36),
        test!(what_is_one_value_is_replaced),
    ]
}

fn deployment(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec})
}

fn pods(containers: &Value) -> Value {
    json!({"template": {"spec": {"containers": containers}}})
}

async fn first(c: &Cluster) -> String {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let container = json!({"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}],
        "ports": [{"containerPort": 80}]});
    let spec = json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container, {"name": "d", "image": "j"}]}},
    });
    apply(c, &path, "one", "", &deployment(&spec)).await.expect(201);
    path
}

fn containers(object: &Value) -> &[Value] {
    let list = object["spec"]["template"]["spec"]["containers"].as_array();
    list.map(Vec::as_slice).unwrap_or_default()
}

fn names(list: &[Value]) -> Vec<&str> {
    list.iter().filter_map(|item| item["name"].as_str()).collect()
}

async fn containers_and_what_they_hold_merge_by_key(c: Cluster) {
    let path = first(&c).await;
    let config = pods(&json!([
        {"name": "e", "image": "k"},
        {"name": "c", "env": [{"name": "F", "value": "2"}], "ports": [{"containerPort": 80, "protocol": "UDP"}]},
    ]));
    let merged = apply(&c, &path, "two", "", &deployment(&config))
        .await
        .expect(200);
    let all = containers(&merged);
    let mut sorted = names(all);
    sorted.sort_unstable();
    assert_eq!(sorted, ["c", "d", "e"]);
    let merged_one = all
        .iter()
        .find(|item| item["name"] == "c")
        .expect("the container");
    assert_eq!(merged_one["image"], "i");
    assert_eq!(merged_one["env"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        merged_one["ports"].as_array().map(Vec::len),
        Some(2),
        "two protocols are two ports"
    );
    let own = fields(&merged, "two", "Apply");
    let own = &own["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    assert_eq!(
        own["f:env"]["k:{\"name\":\"F\"}"],
        json!({".": {}, "f:name": {}, "f:value": {}})
    );
    assert_eq!(own["f:image"], Value::Null);
    // A port without a protocol is the one that is there.
    let config = pods(&json!([{"name": "c", "ports": [{"containerPort": 80, "name": "web"}]}]));
    let merged = apply(&c, &path, "three", "", &deployment(&config))
        .await
        .expect(200);
    let merged_one = containers(&merged)
        .iter()
        .find(|item| item["name"] == "c")
        .expect("the container");
    assert_eq!(merged_one["ports"].as_array().map(Vec::len), Some(2));
}

async fn items_go_with_the_last_who_has_them(c: Cluster) {
    let path = first(&c).await;
    let config = pods(&json!([{"name": "e", "image": "k"}]));
    apply(&c, &path, "two", "", &deployment(&config))
        .await
        .expect(200);
    let config = pods(&json!([{"name": "e", "env": [{"name": "X", "value": "1"}]}]));
    apply(&c, &path, "three", "", &deployment(&config))
        .await
        .expect(200);
    let config = pods(&json!([{"name": "e", "image": "k"}]));
    let left = apply(&c, &path, "three", "", &deployment(&config))
        .await
        .expect(200);
    assert_eq!(names(containers(&left)), ["c", "d", "e"]);
    assert_eq!(containers(&left)[2].get("env"), None);
    for manager in ["two", "three"] {
        let left = apply(&c, &path, manager, "", &deployment(&json!({})))
            .await
            .expect(200);
        let expected: &[&str] = if manager == "two" {
            &["c", "d", "e"]
        } else {
            &["c", "d"]
        };
        assert_eq!(names(containers(&left)), expected);
    }
}

async fn finalizers_are_a_set(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let with = |finalizers: Value| {
        let mut object = named("v1", "ConfigMap", "a");
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    apply(&c, &path, "one", "", &with(json!(["a.b/x", "a.b/y"])))
        .await
        .expect(201);
    let both = apply(&c, &path, "two", "", &with(json!(["a.b/z", "a.b/y"])))
        .await
        .expect(200);
    let own = fields(&both, "two", "Apply")["f:metadata"]["f:finalizers"].clone();
    assert_eq!(own, json!({"v:\"a.b/y\"": {}, "v:\"a.b/z\"": {}}));
    let left = apply(&c, &path, "one", "", &with(json!([]))).await.expect(200);
    let mut finalizers: Vec<&str> = left["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    finalizers.sort_unstable();
    assert_eq!(finalizers, ["a.b/y", "a.b/z"]);
}

async fn owner_references_are_told_apart_by_uid(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let owned = |name: &str, uid: &str| {
        let mut object = named("v1", "ConfigMap", "a");
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "X", "name": name, "uid": uid}]);
        object
    };
    apply(&c, &path, "one", "", &owned("n", "u1")).await.expect(201);
    let both = apply(&c, &path, "two", "", &owned("n", "u2")).await.expect(200);
    assert_eq!(
        both["metadata"]["ownerReferences"].as_array().map(Vec::len),
        Some(2)
    );
    let refused = apply(&c, &path, "two", "", &owned("other", "u1")).await;
    refused.expect_error(409, "Conflict");
    refused.check(
        refused.causes()[0]
            .field
            .starts_with(".metadata.ownerReferences[uid=\"u1\"]"),
        "expected the item",
    );
}

/// Before, a service had one key for its ports.
async fn service_ports_have_two_keys(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services/a");
    let service = |ports: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": ports},
        })
    };
    let ports = json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}]);
    apply(&c, &path, "one", "", &service(ports)).await.expect(201);
    let ports = json!([{"name": "v", "port": 81}]);
    let merged = apply(&c, &path, "two", "", &service(ports)).await.expect(200);
    assert_eq!(merged["spec"]["ports"].as_array().map(Vec::len), Some(3));
    let ports = json!([{"name": "u", "port": 80, "protocol": "UDP"}]);
    let left = apply(&c, &path, "one", "", &service(ports)).await.expect(200);
    let list = left["spec"]["ports"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    assert_eq!(names(list), ["u", "v"]);
}

async fn what_is_one_value_is_replaced(c: Cluster) {
    let path = first(&c).await;
    let config = pods(&json!([{"name": "c", "args": ["a", "b"]}]));
    apply(&c, &path, "two", "", &deployment(&config))
        .await
        .expect(200);
    let config = pods(&json!([{"name": "c", "args": ["c"]}]));
    let refused = apply(&c, &path, "three", "", &deployment(&config)).await;
    refused.expect_error(409, "Conflict");
    let field = ".spec.template.spec.containers[name=\"c\"].args";
    refused.check(refused.causes()[0].field == field, "expected the whole list");
    let taken = apply(&c, &path, "three", "&force=true", &deployment(&config))
        .await
        .expect(200);
    assert_eq!(containers(&taken)[0]["args"], json!(["c"]));
    let own = fields(&taken, "three", "Apply");
    let own = &own["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    assert_eq!(own["f:args"], json!({}));
}
