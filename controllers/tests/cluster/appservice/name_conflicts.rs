//! Child names that are taken.

use serde_json::json;
use steersman_harness::Test;
use steersman_harness::fixtures;

use super::fixture::{Fixture, app, condition};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(foreign_children_are_not_changed),
        fixture_test!(first_appservice_keeps_a_deployment_name),
    ]
}

async fn foreign_children_are_not_changed(s: Fixture) {
    let theirs = s.create("deployments", fixtures::deployment("a")).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 9}]}});
    s.create("services", service).await;
    s.create("appservices", app("a", json!({"ports": [{"port": 80}]})))
        .await;
    let it = s.wait_stalled("a", "ErrResourceExists").await;
    assert_eq!(condition(&it, "Ready").0, "False");
    s.wait_until("there is an event", async || {
        s.events("a")
            .await
            .contains(&"ErrResourceExists".to_owned())
            .then_some(())
    })
    .await;
    let after = s.get("deployments", "a").await;
    assert_eq!(
        (&after["spec"], after["metadata"].get("ownerReferences")),
        (&theirs["spec"], None)
    );
    s.delete("deployments", "a", "Background").await;
    s.wait_until("the Deployment is recreated", async || {
        let it = s.read("deployments", "a").await;
        (it.status == 200 && it.json()["metadata"]["labels"]["app.kubernetes.io/instance"] == "a")
            .then_some(())
    })
    .await;
    assert_eq!(s.get("services", "a").await["spec"]["ports"][0]["port"], 9);
    s.delete("services", "a", "Background").await;
    s.wait_ready("a").await;
}

async fn first_appservice_keeps_a_deployment_name(s: Fixture) {
    s.create_ready(app("a", json!({"deploymentName": "web"}))).await;
    s.create(
        "appservices",
        app("b", json!({"deploymentName": "web", "image": "i:2"})),
    )
    .await;
    s.wait_stalled("b", "ErrResourceExists").await;
    assert_eq!(condition(&s.get("appservices", "a").await, "Ready").0, "True");
    s.delete("appservices", "a", "Foreground").await;
    s.wait_ready("b").await;
    let image = &s.get("deployments", "web").await["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "i:2");
}
