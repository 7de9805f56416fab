//! What a server refuses, and what it fills in.

use coxswain_tests::Test;
use serde_json::{Value, json};

use super::stage::{Stage, app};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(what_is_missing_is_filled_in),
        staged!(what_makes_no_sense_is_refused),
        // Rules are since then.
        staged!(what_only_rules_can_say_is_refused).since(1, 25),
        staged!(a_server_without_rules_has_it_said_by_the_controller),
    ]
}

async fn what_is_missing_is_filled_in(s: Stage) {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "a"},
                      "spec": {"deploymentName": "web", "ports": [{"port": 80}]}});
    let made = s.create("appservices", body).await;
    let expected = json!({"deploymentName": "web", "deletionPolicy": "Delete",
                          "ports": [{"port": 80, "protocol": "TCP"}]});
    assert_eq!(made["spec"], expected);
}

async fn refused(s: &Stage, body: &Value) -> bool {
    s.c.api().post(&s.all("appservices"), body.clone()).await.status == 422
}

async fn what_makes_no_sense_is_refused(s: Stage) {
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
        assert!(refused(&s, &app("a", spec.clone())).await, "{spec}");
    }
    s.serve(app("a", json!({}))).await;
    let scale = format!("{}/scale", s.path("appservices", "a"));
    let negative = json!({"spec": {"replicas": -1}});
    let reply =
        s.c.api()
            .patch(&scale, "application/merge-patch+json", negative)
            .await;
    assert_eq!(reply.status, 422);
}

async fn what_only_rules_can_say_is_refused(s: Stage) {
    let twice = json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]});
    assert!(refused(&s, &app("a", twice)).await);
    let ports = json!({"deploymentName": "web", "ports": [{"port": 80}]});
    assert!(refused(&s, &app("a.b", ports)).await);
    assert!(refused(&s, &app(&"a".repeat(64), json!({"deploymentName": "web"}))).await);
}

/// Where there are rules, this one cannot be made.
async fn a_server_without_rules_has_it_said_by_the_controller(s: Stage) {
    let twice = app(
        "a",
        json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}),
    );
    let reply = s.c.api().post(&s.all("appservices"), twice).await;
    if reply.status == 201 {
        s.stalled("a", "InvalidSpec").await;
        assert!(s.names("deployments").await.is_empty());
        s.want("a", json!({"ports": [{"port": 80}]})).await;
        s.ready("a").await;
    }
}
