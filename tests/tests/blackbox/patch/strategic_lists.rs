//! Strategic merge patch: lists, which are merged by the key of their kind.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{STRATEGIC, apps, config_map, core, deployment, group, named, owner, pod, service, with},
    test,
};
use serde_json::{Value, json};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(containers_are_merged_by_name),
        test!(new_items_come_first),
        test!(items_are_deleted_by_directive),
        test!(list_is_replaced_by_directive),
        test!(list_is_removed_by_null),
        test!(ports_env_and_mounts_are_merged_by_their_keys),
        test!(plain_lists_are_replaced),
        test!(element_order_is_set),
        test!(finalizers_are_a_union),
        test!(finalizers_are_deleted_from_the_list),
        test!(deleting_from_an_absent_list_leaves_it_absent).since(1, 36),
        test!(owners_are_merged_by_uid),
        test!(conditions_are_merged_by_type),
        test!(service_ports_are_merged_by_port),
        test!(lists_without_a_merge_key_are_replaced),
    ]
}

/// A Deployment of two containers, of which the first has some of everything; returns its path.
async fn create(c: &Cluster) -> String {
    let ns = c.namespace().await;
    let first = json!({
        "name": "c", "image": "i", "args": ["x", "y"], "ports": [{"containerPort": 80, "name": "http"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    let containers = json!([first, {"name": "d", "image": "j"}]);
    let spec = json!({"containers": containers, "volumes": [{"name": "v", "emptyDir": {}}]});
    let body = with(deployment("a"), json!({"spec": {"template": {"spec": spec}}}));
    c.api().post(&apps(&ns, "deployments"), body).await.expect(201);
    apps(&ns, "deployments/a")
}

/// Patches the pod spec of the template and returns its containers.
async fn containers(c: &Cluster, path: &str, spec: Value) -> Vec<Value> {
    let change = json!({"spec": {"template": {"spec": spec}}});
    let changed = c.api().patch(path, STRATEGIC, change).await.expect(200);
    changed["spec"]["template"]["spec"]["containers"]
        .as_array()
        .expect("a list")
        .clone()
}

fn names(list: &[Value]) -> Vec<&str> {
    list.iter()
        .map(|item| item["name"].as_str().unwrap_or_default())
        .collect()
}

async fn containers_are_merged_by_name(c: Cluster) {
    let path = create(&c).await;
    let before = containers(&c, &path, json!({})).await;
    let after = containers(&c, &path, json!({"containers": [{"name": "c", "image": "k"}]})).await;
    assert_eq!(
        after,
        [with(before[0].clone(), json!({"image": "k"})), before[1].clone()]
    );
}

async fn new_items_come_first(c: Cluster) {
    let path = create(&c).await;
    let after = containers(&c, &path, json!({"containers": [{"name": "e", "image": "new"}]})).await;
    assert_eq!(names(&after), ["e", "c", "d"]);
    assert_eq!(after[0]["imagePullPolicy"], "Always", "with defaults");
    let change = json!({"containers": [{"name": "f", "image": "x"}, {"name": "d", "image": "x"}, {"name": "g", "image": "x"}]});
    assert_eq!(
        names(&containers(&c, &path, change).await),
        ["f", "e", "c", "d", "g"]
    );
}

async fn items_are_deleted_by_directive(c: Cluster) {
    let path = create(&c).await;
    let after = containers(
        &c,
        &path,
        json!({"containers": [{"name": "d", "$patch": "delete"}]}),
    )
    .await;
    assert_eq!(names(&after), ["c"]);
    let after = containers(
        &c,
        &path,
        json!({"containers": [{"name": "nope", "$patch": "delete"}]}),
    )
    .await;
    assert_eq!(names(&after), ["c"], "what is not there is gone already");
}

async fn list_is_replaced_by_directive(c: Cluster) {
    let path = create(&c).await;
    let after = containers(
        &c,
        &path,
        json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "o"}]}),
    )
    .await;
    assert_eq!(names(&after), ["only"]);
}

async fn list_is_removed_by_null(c: Cluster) {
    let path = create(&c).await;
    let after = containers(
        &c,
        &path,
        json!({"containers": [{"name": "c", "env": null, "args": null}]}),
    )
    .await;
    assert_eq!((after[0].get("env"), after[0].get("args")), (None, None));
    assert_eq!(after[0]["ports"][0]["containerPort"], 80);
}

async fn ports_env_and_mounts_are_merged_by_their_keys(c: Cluster) {
    let path = create(&c).await;
    let change = json!({
        "name": "c",
        "ports": [{"containerPort": 81}],
        "env": [{"name": "A", "value": "9"}, {"name": "C", "value": "3"}],
        "volumeMounts": [{"mountPath": "/w", "name": "v"}],
    });
    let after = containers(&c, &path, json!({"containers": [change]})).await;
    let ports = json!([{"containerPort": 81, "protocol": "TCP"}, {"containerPort": 80, "name": "http", "protocol": "TCP"}]);
    assert_eq!(after[0]["ports"], ports);
    let env = json!([{"name": "A", "value": "9"}, {"name": "C", "value": "3"}, {"name": "B", "value": "2"}]);
    assert_eq!(after[0]["env"], env);
    let mounts = json!([{"name": "v", "mountPath": "/w"}, {"name": "v", "mountPath": "/v"}]);
    assert_eq!(after[0]["volumeMounts"], mounts);
    let change = json!({
        "name": "c",
        "ports": [{"containerPort": 80, "$patch": "delete"}],
        "env": [{"name": "A", "$patch": "delete"}],
        "volumeMounts": [{"mountPath": "/v", "$patch": "delete"}],
    });
    let after = containers(&c, &path, json!({"containers": [change]})).await;
    assert_eq!(
        after[0]["ports"],
        json!([{"containerPort": 81, "protocol": "TCP"}])
    );
    assert_eq!(
        after[0]["env"],
        json!([{"name": "C", "value": "3"}, {"name": "B", "value": "2"}])
    );
    assert_eq!(
        after[0]["volumeMounts"],
        json!([{"name": "v", "mountPath": "/w"}])
    );
}

async fn plain_lists_are_replaced(c: Cluster) {
    let path = create(&c).await;
    let after = containers(&c, &path, json!({"containers": [{"name": "c", "args": ["z"]}]})).await;
    assert_eq!(after[0]["args"], json!(["z"]));
}

async fn element_order_is_set(c: Cluster) {
    let path = create(&c).await;
    let order = json!({"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}], "containers": [{"name": "c", "image": "z"}]});
    let after = containers(&c, &path, order).await;
    assert_eq!(names(&after), ["d", "c"]);
    assert_eq!(after[1]["image"], "z");
    let change = json!({
        "name": "c", "$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": [{"name": "A", "value": "5"}],
    });
    let after = containers(&c, &path, json!({"containers": [change]})).await;
    let one = after
        .iter()
        .find(|container| container["name"] == "c")
        .expect("the container");
    assert_eq!(
        one["env"],
        json!([{"name": "B", "value": "2"}, {"name": "A", "value": "5"}])
    );
}

/// A `ConfigMap` with this metadata; returns its path.
async fn config(c: &Cluster, meta: Value) -> String {
    let ns = c.namespace().await;
    let body = with(config_map("a"), json!({"metadata": meta}));
    c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    core(&ns, "configmaps/a")
}

async fn meta(c: &Cluster, path: &str, change: Value) -> Value {
    c.api()
        .patch(path, STRATEGIC, json!({"metadata": change}))
        .await
        .expect(200)["metadata"]
        .clone()
}

async fn finalizers_are_a_union(c: Cluster) {
    let path = config(&c, json!({"finalizers": ["a.b/c"]})).await;
    let after = meta(&c, &path, json!({"finalizers": ["a.b/d", "a.b/c"]})).await;
    assert_eq!(after["finalizers"], json!(["a.b/d", "a.b/c"]));
    let after = meta(&c, &path, json!({"finalizers": ["a.b/e"]})).await;
    let mut all: Vec<&str> = after["finalizers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    all.sort_unstable();
    assert_eq!(all, ["a.b/c", "a.b/d", "a.b/e"]);
    let order =
        json!({"$setElementOrder/finalizers": ["a.b/x", "a.b/e", "a.b/d", "a.b/c"], "finalizers": ["a.b/x"]});
    let after = meta(&c, &path, order).await;
    assert_eq!(after["finalizers"], json!(["a.b/x", "a.b/e", "a.b/d", "a.b/c"]));
    let after = meta(&c, &path, json!({"finalizers": null})).await;
    assert_eq!(after.get("finalizers"), None);
}

async fn finalizers_are_deleted_from_the_list(c: Cluster) {
    let path = config(&c, json!({"finalizers": ["a.b/c", "a.b/d"]})).await;
    let after = meta(
        &c,
        &path,
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}),
    )
    .await;
    assert_eq!(after["finalizers"], json!(["a.b/d"]));
    let after = meta(
        &c,
        &path,
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/d"]}),
    )
    .await;
    assert_eq!(after.get("finalizers"), None);
}

/// Before, the patch became the list.
async fn deleting_from_an_absent_list_leaves_it_absent(c: Cluster) {
    let path = config(&c, json!({})).await;
    let after = meta(
        &c,
        &path,
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}),
    )
    .await;
    assert_eq!(after.get("finalizers"), None);
}

async fn owners_are_merged_by_uid(c: Cluster) {
    let path = config(&c, json!({"ownerReferences": [owner("u1")]})).await;
    let after = meta(&c, &path, json!({"ownerReferences": [owner("u2")]})).await;
    assert_eq!(after["ownerReferences"], json!([owner("u2"), owner("u1")]));
    let after = meta(
        &c,
        &path,
        json!({"ownerReferences": [{"uid": "u1", "controller": true}]}),
    )
    .await;
    let first = with(owner("u1"), json!({"controller": true}));
    assert_eq!(after["ownerReferences"], json!([owner("u2"), first]));
    // As the garbage collector does it, with the object's own uid to make sure.
    let delete = json!({"uid": after["uid"], "ownerReferences": [{"$patch": "delete", "uid": "u2"}]});
    let after = meta(&c, &path, delete).await;
    assert_eq!(after["ownerReferences"], json!([first]));
    let same = meta(
        &c,
        &path,
        json!({"ownerReferences": [{"$patch": "delete", "uid": "nope"}]}),
    )
    .await;
    assert_eq!(same, after);
    let after = meta(
        &c,
        &path,
        json!({"ownerReferences": [{"$patch": "delete", "uid": "u1"}]}),
    )
    .await;
    assert_eq!(after.get("ownerReferences"), None);
}

async fn conditions_are_merged_by_type(c: Cluster) {
    let ns = c.namespace().await;
    c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    let patch = async |status: Value| -> Vec<(String, String)> {
        let path = core(&ns, "pods/a/status");
        let changed = c
            .api()
            .patch(&path, STRATEGIC, json!({"status": status}))
            .await
            .expect(200);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = changed["status"]["conditions"].as_array().expect("a list");
        conditions
            .iter()
            .map(|one| (text(&one["type"]), text(&one["status"])))
            .collect()
    };
    let is = |kind: &str, status: &str| (kind.to_owned(), status.to_owned());
    let both = json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]});
    assert_eq!(patch(both).await, [is("Ready", "False"), is("X", "True")]);
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(patch(ready).await, [is("Ready", "True"), is("X", "True")]);
    let order = json!({"$setElementOrder/conditions": [{"type": "X"}, {"type": "Ready"}], "conditions": []});
    assert_eq!(patch(order).await, [is("X", "True"), is("Ready", "True")]);
    let gone = json!({"conditions": [{"type": "X", "$patch": "delete"}]});
    assert_eq!(patch(gone).await, [is("Ready", "True")]);
}

async fn service_ports_are_merged_by_port(c: Cluster) {
    let ns = c.namespace().await;
    let ports = json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}});
    c.api()
        .post(&core(&ns, "services"), with(service("a"), ports))
        .await
        .expect(201);
    let patch = async |ports: Value| {
        let change = json!({"spec": {"ports": ports}});
        c.api()
            .patch(&core(&ns, "services/a"), STRATEGIC, change)
            .await
            .expect(200)["spec"]["ports"]
            .clone()
    };
    let full =
        |name: &str, port: u16| json!({"name": name, "protocol": "TCP", "port": port, "targetPort": port});
    assert_eq!(
        patch(json!([{"port": 80, "name": "renamed"}])).await,
        json!([full("renamed", 80), full("b", 81)])
    );
    assert_eq!(
        patch(json!([{"port": 81, "$patch": "delete"}])).await,
        json!([full("renamed", 80)])
    );
}

async fn lists_without_a_merge_key_are_replaced(c: Cluster) {
    let ns = c.namespace().await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let rule = |resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
    let body = with(named(rbac, "Role", "a"), json!({"rules": [rule("pods")]}));
    c.api().post(&group(rbac, &ns, "roles"), body).await.expect(201);
    let path = group(rbac, &ns, "roles/a");
    let changed = c
        .api()
        .patch(&path, STRATEGIC, json!({"rules": [rule("secrets")]}))
        .await
        .expect(200);
    assert_eq!(changed["rules"], json!([rule("secrets")]));
    // The two lists of a service account differ: one has a merge key.
    let body = with(
        named("v1", "ServiceAccount", "a"),
        json!({"secrets": [{"name": "a"}]}),
    );
    c.api()
        .post(&core(&ns, "serviceaccounts"), body)
        .await
        .expect(201);
    let change = json!({"secrets": [{"name": "b"}]});
    let changed = c
        .api()
        .patch(&core(&ns, "serviceaccounts/a"), STRATEGIC, change)
        .await
        .expect(200);
    assert_eq!(changed["secrets"], json!([{"name": "b"}, {"name": "a"}]));
}
