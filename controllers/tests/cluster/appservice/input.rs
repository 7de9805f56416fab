//! Defaulting and validation by the CRD.

use serde_json::{Value, json};
use steersman_harness::Test;

use super::fixture::{Fixture, app};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(unset_fields_are_defaulted),
        fixture_test!(invalid_specs_are_rejected),
        // CEL rules are enabled by default since 1.25.
        fixture_test!(violations_of_cel_rules_are_rejected).since(1, 25),
        fixture_test!(controller_reports_violations_without_cel_rules),
    ]
}

async fn unset_fields_are_defaulted(s: Fixture) {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "a"},
                      "spec": {"deploymentName": "web", "ports": [{"port": 80}]}});
    let made = s.create("appservices", body).await;
    let expected = json!({"deploymentName": "web", "deletionPolicy": "Delete",
                          "ports": [{"port": 80, "protocol": "TCP"}]});
    assert_eq!(made["spec"], expected);
}

async fn is_rejected(s: &Fixture, body: &Value) -> bool {
    s.c.api().post(&s.all("appservices"), body.clone()).await.status == 422
}

async fn invalid_specs_are_rejected(s: Fixture) {
    let ports = |ports: Value| json!({"ports": ports});
    for spec in [
        json!({"deploymentName": ""}),
        json!({"deploymentName": "Web"}),
        json!({"deploymentName": "a".repeat(64)}),
        json!({"replicas": -1}),
        json!({"image": "a b"}),
        json!({"image": ""}),
        json!({"deletionPolicy": "Keep"}),
        ports(json!([{"port": 0}])),
        ports(json!([{"port": 65536}])),
        ports(json!([{"port": 80, "protocol": "tcp"}])),
        ports(json!([{"port": 80}, {"port": 80}])),
        json!({"env": [{"name": "A"}, {"name": "A"}]}),
    ] {
        assert!(is_rejected(&s, &app("a", spec.clone())).await, "{spec}");
    }
    s.create_ready(app("a", json!({}))).await;
    let scale = format!("{}/scale", s.path("appservices", "a"));
    let negative = json!({"spec": {"replicas": -1}});
    let reply =
        s.c.api()
            .patch(&scale, "application/merge-patch+json", negative)
            .await;
    assert_eq!(reply.status, 422);
}

async fn violations_of_cel_rules_are_rejected(s: Fixture) {
    let twice = json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]});
    assert!(is_rejected(&s, &app("a", twice)).await);
    let ports = json!({"deploymentName": "web", "ports": [{"port": 80}]});
    assert!(is_rejected(&s, &app("a.b", ports)).await);
    assert!(is_rejected(&s, &app(&"a".repeat(64), json!({"deploymentName": "web"}))).await);
}

/// With CEL rules the create is rejected.
async fn controller_reports_violations_without_cel_rules(s: Fixture) {
    let twice = app(
        "a",
        json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}),
    );
    let reply = s.c.api().post(&s.all("appservices"), twice).await;
    if reply.status == 201 {
        s.wait_stalled("a", "InvalidSpec").await;
        assert!(s.names("deployments").await.is_empty());
        s.patch_spec("a", json!({"ports": [{"port": 80}]})).await;
        s.wait_ready("a").await;
    }
}
