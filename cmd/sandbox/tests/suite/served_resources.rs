//! Sandboxes that serve some of the built-in resources.

use http::Method;
use serde_json::{Value, json};
use steersman_sandbox::{ApiService, Sandbox};

use crate::client::{builder, delete, get, post, send_with};
use crate::definitions::{CRDS, WIDGETS, define, widgets};

const SERVICE: &str = "/api/v1/namespaces/default/services";

fn sandbox() -> Sandbox {
    let serves = |group: &str, resource: &str| {
        matches!(
            (group, resource),
            ("", "namespaces" | "pods") | ("apps", "replicasets") | ("apiextensions.k8s.io", _)
        )
    };
    let service = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}]}}";
    let builder = builder().objects(service).serve_only(serves);
    builder.start().expect("a sandbox")
}

/// The names of the objects in a list of a discovery document.
fn names(document: &Value, list: &str, field: &str) -> Vec<String> {
    let items = document[list].as_array().expect("a list");
    let name = |it: &Value| it[field].as_str().unwrap_or_default().to_owned();
    items.iter().map(name).collect()
}

async fn aggregated(service: &ApiService, path: &str) -> Vec<String> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, document) = send_with(service, Method::GET, path, &[("accept", accept)], &Value::Null).await;
    let versions = document["items"].as_array().expect("items").iter();
    let versions = versions.flat_map(|it| it["versions"].as_array().expect("versions"));
    versions
        .flat_map(|it| names(it, "resources", "resource"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn resources_that_are_not_served_are_not_found() {
    let service = sandbox().service();
    for path in [
        "/api/v1/namespaces/default/pods",
        "/apis/apps/v1/replicasets",
        "/api/v1/namespaces/default",
    ] {
        assert_eq!(get(&service, path).await.0, 200, "{path}");
    }
    for path in [
        SERVICE,
        "/api/v1/namespaces/default/services/s",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/jobs",
        "/apis/batch/v1",
        "/apis/batch",
        "/openapi/v3/apis/batch/v1",
    ] {
        assert_eq!(get(&service, path).await.0, 404, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_served_resources_only() {
    let service = sandbox().service();
    let (_, groups) = get(&service, "/apis").await;
    assert_eq!(names(&groups, "groups", "name"), ["apps", "apiextensions.k8s.io"]);
    let (_, core) = get(&service, "/api/v1").await;
    let core = names(&core, "resources", "name");
    let top: Vec<_> = core.iter().filter(|it| !it.contains('/')).collect();
    assert_eq!(top, ["namespaces", "pods"]);
    let (_, apps) = get(&service, "/apis/apps/v1").await;
    let expected = ["replicasets", "replicasets/scale", "replicasets/status"];
    assert_eq!(names(&apps, "resources", "name"), expected);
    assert_eq!(aggregated(&service, "/api").await, ["namespaces", "pods"]);
    assert_eq!(
        aggregated(&service, "/apis").await,
        ["replicasets", "customresourcedefinitions"]
    );
}

#[tokio::test(start_paused = true)]
async fn openapi_has_paths_of_served_resources_only() {
    let service = sandbox().service();
    let (_, index) = get(&service, "/openapi/v3").await;
    let documents: Vec<&String> = index["paths"].as_object().expect("paths").keys().collect();
    assert_eq!(
        documents,
        ["api/v1", "apis/apiextensions.k8s.io/v1", "apis/apps/v1"]
    );
    let (_, v2) = get(&service, "/openapi/v2").await;
    let (_, v3) = get(&service, "/openapi/v3/apis/apps/v1").await;
    for document in [v2, v3] {
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.contains_key("/apis/apps/v1/replicasets"));
        assert!(!paths.keys().any(|path| path.contains("deployments")));
        assert!(!paths.keys().any(|path| path.contains("/services")));
    }
}

#[tokio::test(start_paused = true)]
async fn crd_of_a_restricted_sandbox_is_served() {
    let sandbox = sandbox();
    let service = sandbox.service();
    define(&service, &widgets()).await;
    assert_eq!(get(&service, WIDGETS).await.0, 200);
    assert_eq!(get(&sandbox.fork().service(), WIDGETS).await.0, 200);
    let (_, groups) = get(&service, "/apis").await;
    assert!(names(&groups, "groups", "name").contains(&"x.io".to_owned()));
    assert_eq!(
        get(&service, "/apis/batch/v1").await.0,
        404,
        "the CRD enables nothing else"
    );
    assert_eq!(delete(&service, &format!("{CRDS}/widgets.x.io")).await.0, 200);
    assert_eq!(get(&service, WIDGETS).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn namespace_with_objects_that_are_not_served_is_deleted() {
    let sandbox = sandbox();
    let service = sandbox.service();
    post(
        &service,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "n"}}),
    )
    .await;
    assert!(
        sandbox.export().contains("\"namespace\":\"n\""),
        "the ServiceAccount exists"
    );
    delete(&service, "/api/v1/namespaces/n").await;
    assert_eq!(get(&service, "/api/v1/namespaces/n").await.0, 404);
    assert!(!sandbox.export().contains("\"namespace\":\"n\""));
}
