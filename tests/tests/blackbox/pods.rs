//! Pods beyond the rules of all kinds: binding, eviction, and what of a pod may still change.

mod binding;
mod eviction;

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{MERGE, STRATEGIC, core, pod, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, speaks_1_36, unchanged};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    let spec = vec![
        test!(spec_is_immutable_but_for_few_fields),
        test!(image_deadline_and_tolerations_may_change),
        test!(containers_may_not_be_added_or_removed),
    ];
    [binding::tests(), eviction::tests(), spec].concat()
}

/// Creates the pod `a` with this spec and returns its path.
async fn create(c: &Cluster, ns: &str, change: Value) -> String {
    let body = with(pod("a"), json!({"spec": change}));
    c.api().post(&core(ns, "pods"), body).await.expect(201);
    core(ns, "pods/a")
}

#[track_caller]
fn success(reply: &Reply) {
    let body = reply.expect(201);
    let ok = body["kind"] == "Status" && body["status"] == "Success" && body["code"] == 201;
    reply.check(ok, "expected a Status of success");
}

async fn spec_is_immutable_but_for_few_fields(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let start = if speaks_1_36(&c) {
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
         tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
    } else {
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, \
         `spec.initContainers[*].image`, `spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing \
         tolerations)\n"
    };
    for change in [
        json!({"nodeName": "n"}),
        json!({"restartPolicy": "Never"}),
        json!({"terminationGracePeriodSeconds": 5}),
        json!({"containers": [{"name": "c", "command": ["x"]}]}),
    ] {
        let reply = c.api().patch(&path, STRATEGIC, json!({"spec": change})).await;
        // What follows is a diff, for people.
        invalid(&reply, &["Forbidden spec"]);
        reply.check(
            reply.causes()[0].message.starts_with(start),
            &format!("expected {start}"),
        );
    }
    unchanged(&c, &path, &before).await;
}

async fn image_deadline_and_tolerations_may_change(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let toleration = json!({"key": "x", "operator": "Exists"});
    let before = c.api().get(&path).await.expect(200);
    let mut tolerations = before["spec"]["tolerations"].as_array().expect("a list").clone();
    tolerations.push(toleration);
    let containers = json!([{"name": "c", "image": "j"}]);
    let change = json!({"containers": containers, "activeDeadlineSeconds": 5, "tolerations": tolerations});
    let changed = c
        .api()
        .patch(&path, STRATEGIC, json!({"spec": change}))
        .await
        .expect(200);
    assert_eq!(changed["spec"]["containers"][0]["image"], "j");
    assert_eq!(changed["spec"]["activeDeadlineSeconds"], 5);
    assert_eq!(changed["spec"]["tolerations"], json!(tolerations));
    let reply = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"activeDeadlineSeconds": 9}}))
        .await;
    invalid(
        &reply,
        &["Invalid spec.activeDeadlineSeconds: must be less than or equal to previous value"],
    );
    unchanged(&c, &path, &changed).await;
}

async fn containers_may_not_be_added_or_removed(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let change = json!({"spec": {"containers": [{"name": "d", "image": "j"}]}});
    let reply = c.api().patch(&path, STRATEGIC, change).await;
    invalid(
        &reply,
        &["Forbidden spec.containers: pod updates may not add or remove containers"],
    );
    unchanged(&c, &path, &before).await;
}
