//! Internal controllers that a test runs in steps.

use http::Method;
use serde_json::{Value, json};
use steersman_sandbox::{ApiService, InternalController, Sandbox};

use crate::client::{get, send};
use crate::definitions::{CRDS, WIDGETS, define, widgets};

const NAMESPACES: &str = "/api/v1/namespaces";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Starts a sandbox with a delayed controller, after the rounds for the initial objects.
fn start(controller: InternalController) -> (Sandbox, ApiService) {
    let builder = Sandbox::builder().seed(7).root_ca("pem");
    let sandbox = builder.delayed(controller).start().expect("a sandbox");
    while sandbox.step(controller) {}
    let service = sandbox.service();
    (sandbox, service)
}

async fn create(service: &ApiService, path: &str, object: &Value) {
    let (code, created) = send(service, Method::POST, path, object).await;
    assert_eq!(code, 201, "{created}");
}

#[tokio::test(start_paused = true)]
async fn terminating_namespace_keeps_its_content_until_the_step() {
    let (sandbox, service) = start(InternalController::NamespaceDeletion);
    create(&service, NAMESPACES, &json!({"metadata": {"name": "n"}})).await;
    let map = json!({"metadata": {"name": "m", "finalizers": ["test.dev/hold"]}});
    create(&service, "/api/v1/namespaces/n/configmaps", &map).await;
    let path = "/api/v1/namespaces/n";
    let (code, _) = send(&service, Method::DELETE, path, &Value::Null).await;
    assert_eq!(code, 200);
    let (_, namespace) = get(&service, path).await;
    assert_eq!(namespace["status"], json!({"phase": "Terminating"}));
    let (_, accounts) = get(&service, "/api/v1/namespaces/n/serviceaccounts").await;
    assert_eq!(accounts["items"].as_array().map(Vec::len), Some(1));

    assert!(sandbox.step(InternalController::NamespaceDeletion));
    let (_, accounts) = get(&service, "/api/v1/namespaces/n/serviceaccounts").await;
    assert_eq!(accounts["items"].as_array().map(Vec::len), Some(0));
    let (_, namespace) = get(&service, path).await;
    let conditions = namespace["status"]["conditions"].as_array().expect("conditions");
    let finalizers = conditions
        .iter()
        .find(|it| it["type"] == "NamespaceFinalizersRemaining");
    assert_eq!(finalizers.expect("a condition")["status"], "True");
    assert!(!sandbox.step(InternalController::NamespaceDeletion));

    let map = "/api/v1/namespaces/n/configmaps/m";
    let (_, mut object) = get(&service, map).await;
    object["metadata"]["finalizers"] = json!([]);
    let (code, _) = send(&service, Method::PUT, map, &object).await;
    assert_eq!(code, 200);
    assert_eq!(get(&service, path).await.0, 200);
    assert!(sandbox.step(InternalController::NamespaceDeletion));
    assert_eq!(get(&service, path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn crd_is_not_served_until_the_step() {
    let (sandbox, service) = start(InternalController::CrdEstablishing);
    define(&service, &widgets()).await;
    let path = format!("{CRDS}/widgets.x.io");
    let established = |crd: &Value| {
        let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
    };
    assert!(!established(&get(&service, &path).await.1));
    assert_eq!(get(&service, WIDGETS).await.0, 404);

    assert!(sandbox.step(InternalController::CrdEstablishing));
    assert!(established(&get(&service, &path).await.1));
    assert_eq!(get(&service, WIDGETS).await.0, 200);
    assert!(!sandbox.step(InternalController::CrdEstablishing));
}

#[tokio::test(start_paused = true)]
async fn namespace_has_no_default_objects_until_the_step() {
    let (sandbox, service) = start(InternalController::NamespaceDefaults);
    create(&service, NAMESPACES, &json!({"metadata": {"name": "n"}})).await;
    let paths =
        ["serviceaccounts/default", "configmaps/kube-root-ca.crt"].map(|it| format!("{NAMESPACES}/n/{it}"));
    for path in &paths {
        assert_eq!(get(&service, path).await.0, 404, "{path}");
    }
    assert!(sandbox.step(InternalController::NamespaceDefaults));
    for path in &paths {
        assert_eq!(get(&service, path).await.0, 200, "{path}");
    }
    assert!(!sandbox.step(InternalController::NamespaceDefaults));

    send(&service, Method::DELETE, &paths[0], &Value::Null).await;
    assert_eq!(get(&service, &paths[0]).await.0, 404);
    assert!(sandbox.step(InternalController::NamespaceDefaults));
    assert_eq!(get(&service, &paths[0]).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn aggregated_role_has_no_rules_until_the_step() {
    let (sandbox, service) = start(InternalController::RoleAggregation);
    let selector = json!([{"matchLabels": {"to": "all"}}]);
    let aggregated =
        json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selector}});
    create(&service, ROLES, &aggregated).await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let part = json!({"metadata": {"name": "part", "labels": {"to": "all"}}, "rules": rules});
    create(&service, ROLES, &part).await;
    let path = format!("{ROLES}/all");
    assert_eq!(get(&service, &path).await.1["rules"], Value::Null);

    assert!(sandbox.step(InternalController::RoleAggregation));
    assert_eq!(get(&service, &path).await.1["rules"], rules);
    assert!(!sandbox.step(InternalController::RoleAggregation));
}

#[tokio::test(start_paused = true)]
async fn immediate_controllers_leave_nothing_for_a_step() {
    let sandbox = Sandbox::builder().root_ca("pem").start().expect("a sandbox");
    for controller in [
        InternalController::NamespaceDeletion,
        InternalController::CrdEstablishing,
        InternalController::NamespaceDefaults,
        InternalController::RoleAggregation,
    ] {
        assert!(!sandbox.step(controller), "{controller:?}");
    }
}
