//! Binding: what a scheduler does.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{core, named, with},
    test,
};
use serde_json::{Value, json};

use super::{create, success};
use crate::expect::{bad_request, not_found, unchanged, wrong_uid};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(binding_sets_node_and_condition),
        test!(binding_a_bound_pod_is_a_conflict),
        test!(binding_a_missing_pod_is_not_found),
        test!(binding_must_be_complete),
        test!(binding_dry_run_changes_nothing),
        test!(binding_carries_annotations),
        test!(binding_carries_labels).since(1, 35),
        test!(binding_checks_the_uid).since(1, 36),
        test!(bindings_of_the_namespace_bind_too),
    ]
}

fn binding(name: &str, change: Value) -> Value {
    let target = json!({"target": {"kind": "Node", "name": "no-such-node"}});
    with(with(named("v1", "Binding", name), target), change)
}

async fn binding_sets_node_and_condition(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    // The node need not exist.
    success(
        &c.api()
            .post(&format!("{path}/binding"), binding("a", json!({})))
            .await,
    );
    let read = c.api().get(&path).await.expect(200);
    assert_eq!(read["spec"]["nodeName"], "no-such-node");
    let condition = &read["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
    assert!(condition["lastTransitionTime"].is_string(), "{condition:#}");
    assert_eq!(condition["lastProbeTime"], Value::Null);
    assert_eq!(read["status"]["phase"], "Pending");
    if c.version() >= (1, 33) {
        assert_eq!(read["metadata"]["generation"], 1, "a binding is not counted");
    }
}

async fn binding_a_bound_pod_is_a_conflict(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    success(
        &c.api()
            .post(&format!("{path}/binding"), binding("a", json!({})))
            .await,
    );
    let bound = c.api().get(&path).await.expect(200);
    for node in ["no-such-node", "other"] {
        let body = binding("a", json!({"target": {"name": node}}));
        let reply = c.api().post(&format!("{path}/binding"), body).await;
        reply.expect_error(409, "Conflict");
        let message = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"no-such-node\"";
        reply.check(reply.message() == message, &format!("expected {message}"));
        let details = json!({"name": "a", "kind": "pods/binding"});
        reply.check(reply.json()["details"] == details, "other details");
    }
    unchanged(&c, &path, &bound).await;
}

async fn binding_a_missing_pod_is_not_found(c: Cluster) {
    let ns = c.namespace().await;
    let reply = c
        .api()
        .post(&core(&ns, "pods/a/binding"), binding("a", json!({})))
        .await;
    not_found(&reply, "pods", "a");
}

async fn binding_must_be_complete(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let post = async |body: Value| c.api().post(&format!("{path}/binding"), body).await;
    bad_request(
        &post(binding("b", json!({}))).await,
        "name in URL does not match name in Binding object",
    );
    for (target, message) in [
        (json!({"name": null}), "target.name: Required value"),
        (
            json!({"kind": "Pod"}),
            "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
        ),
    ] {
        let reply = post(binding("a", json!({"target": target}))).await;
        // Not 422: nobody translates it.
        reply.expect_error(500, "");
        reply.check(reply.message() == message, &format!("expected {message}"));
    }
    unchanged(&c, &path, &before).await;
    let reply = c.api().get(&format!("{path}/binding")).await;
    reply.expect_error(405, "MethodNotAllowed");
}

async fn binding_dry_run_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    success(
        &c.api()
            .post(&format!("{path}/binding?dryRun=All"), binding("a", json!({})))
            .await,
    );
    unchanged(&c, &path, &before).await;
}

async fn binding_carries_annotations(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let body = binding("a", json!({"metadata": {"annotations": {"x": "y"}}}));
    success(&c.api().post(&format!("{path}/binding"), body).await);
    let read = c.api().get(&path).await.expect(200);
    assert_eq!(read["metadata"]["annotations"], json!({"x": "y"}));
}

async fn binding_carries_labels(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let body = binding("a", json!({"metadata": {"labels": {"x": "y"}}}));
    success(&c.api().post(&format!("{path}/binding"), body).await);
    let read = c.api().get(&path).await.expect(200);
    assert_eq!(read["metadata"]["labels"], json!({"app": "a", "x": "y"}));
}

async fn binding_checks_the_uid(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    let body = binding("a", json!({"metadata": {"uid": "other"}}));
    wrong_uid(&c.api().post(&format!("{path}/binding"), body).await, "pods", "a");
    unchanged(&c, &path, &before).await;
    let body = binding("a", json!({"metadata": {"uid": before["metadata"]["uid"]}}));
    success(&c.api().post(&format!("{path}/binding"), body).await);
}

async fn bindings_of_the_namespace_bind_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = create(&c, &ns, json!({})).await;
    success(
        &c.api()
            .post(&core(&ns, "bindings"), binding("a", json!({})))
            .await,
    );
    assert_eq!(
        c.api().get(&path).await.expect(200)["spec"]["nodeName"],
        "no-such-node"
    );
}
