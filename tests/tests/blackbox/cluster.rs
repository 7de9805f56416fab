//! What every other surface builds on: that both ways to talk to the cluster see the same one, and that it is alive.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use coxswain_tests::{Cluster, Need, Test, test};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::support::soon;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(client_and_plain_http_see_the_same_objects),
        test!(watch_delivers_what_is_written),
        test!(kubeconfig_is_private),
        test!(wrong_token_is_unauthorized),
        test!(malformed_json_is_a_bad_request),
        test!(deleted_namespace_goes).needs(Need::Kcm),
    ]
}

async fn client_and_plain_http_see_the_same_objects(c: Cluster) {
    let ns = c.namespace().await;
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    c.create(&format!("/api/v1/namespaces/{ns}/configmaps"), body)
        .await;
    let typed: kube::Api<ConfigMap> = kube::Api::namespaced(c.client(), &ns);
    let read = typed.get("a").await.expect("the client reads what was posted");
    assert_eq!(
        read.data.unwrap_or_default().get("k").map(String::as_str),
        Some("v")
    );
}

async fn watch_delivers_what_is_written(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut watch = c.api().watch(&format!("{path}?watch=1")).await;
    assert_eq!(watch.header("content-type"), Some("application/json"));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let made = c.create(&path, body).await;
    assert_eq!(watch.expect("ADDED").await["metadata"], made["metadata"]);
    let change = json!({"data": {"k": "v"}});
    c.merge(&format!("{path}/a"), change).await;
    assert_eq!(watch.expect("MODIFIED").await["data"]["k"], "v");
    c.delete(&format!("{path}/a")).await;
    assert_eq!(watch.expect("DELETED").await["metadata"]["name"], "a");
    assert_eq!(watch.next(Duration::from_millis(100)).await, None);
    assert!(!watch.has_ended(), "the stream stays open");
}

async fn kubeconfig_is_private(c: Cluster) {
    let mode = std::fs::metadata(c.kubeconfig())
        .expect("the kubeconfig is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

async fn wrong_token_is_unauthorized(c: Cluster) {
    let headers = [("authorization", "Bearer nobody")];
    let reply = c
        .anonymous()
        .request(http::Method::GET, "/api/v1/namespaces", &headers, ())
        .await;
    reply.expect_error(401, "Unauthorized");
}

async fn malformed_json_is_a_bad_request(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}/configmaps");
    for body in [
        "{",
        "nonsense",
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}"#,
    ] {
        c.api().post(&path, body).await.expect_error(400, "BadRequest");
    }
    let list = c.read(&path).await;
    let made = list["items"].as_array().expect("items is a list");
    assert!(
        made.iter().all(|item| item["metadata"]["name"] != "a"),
        "{list:#}"
    );
}

async fn deleted_namespace_goes(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    c.create(&format!("{path}/configmaps"), body).await;
    c.delete(&path).await;
    soon("the namespace is gone", async || {
        (c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
    c.expect_absent(&format!("{path}/configmaps/a")).await;
}
