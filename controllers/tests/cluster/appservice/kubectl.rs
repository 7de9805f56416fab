//! `kubectl` commands on `AppServices`.

use serde_json::json;
use steersman_harness::kubectl::Kubectl;
use steersman_harness::{Need, Test};

use super::fixture::{Fixture, app};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        fixture_test!(kubectl_apply_scale_wait_and_get),
        fixture_test!(crd_has_a_short_name_and_a_category),
        fixture_test!(kubectl_delete_waits_for_the_deletion),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kubectl)).collect()
}

fn kubectl(s: &Fixture) -> Kubectl {
    Kubectl::new(&s.c, &s.ns)
}

const MANIFEST: &str = "apiVersion: appcontroller.k8s.io/v1alpha1
kind: AppService
metadata:
  name: a
spec:
  deploymentName: web
  image: nginx
  replicas: 2
";

async fn kubectl_apply_scale_wait_and_get(s: Fixture) {
    let kubectl = kubectl(&s);
    assert_eq!(
        kubectl.run_with(&["apply", "-f", "-"], MANIFEST).ok(),
        "appservice.appcontroller.k8s.io/a created\n"
    );
    let waited = kubectl
        .run("wait --for=condition=Ready appservice/a --timeout=2m")
        .ok();
    assert_eq!(waited, "appservice.appcontroller.k8s.io/a condition met\n");
    assert_eq!(
        kubectl.run_with(&["apply", "-f", "-"], MANIFEST).ok(),
        "appservice.appcontroller.k8s.io/a unchanged\n"
    );
    assert_eq!(
        kubectl.run("scale appservice/a --replicas=3").ok(),
        "appservice.appcontroller.k8s.io/a scaled\n"
    );
    s.wait_until("three replicas are available", async || {
        (s.get("appservices", "a").await["status"]["availableReplicas"] == 3).then_some(())
    })
    .await;
    s.wait_ready("a").await;
    let table = kubectl.run("get appservices").ok();
    let rows: Vec<Vec<&str>> = table.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "DESIRED", "AVAILABLE", "AGE"]);
    assert_eq!(rows[1][..4], ["a", "True", "3", "3"]);
    let wide = kubectl.run("get aps -o wide").ok();
    assert!(wide.contains("nginx") && wide.contains("AllAvailable"), "{wide}");
    let selector = kubectl.run("get aps a -o jsonpath={.status.selector}").ok();
    let pods = kubectl.run(&format!("get pods -o name -l {selector}")).ok();
    assert_eq!(pods.lines().count(), 3);
}

async fn crd_has_a_short_name_and_a_category(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    assert_eq!(
        kubectl(&s).run("get aps -o name").ok(),
        "appservice.appcontroller.k8s.io/a\n"
    );
    let all = kubectl(&s).run("get steersman -o name").ok();
    assert!(all.contains("appservice.appcontroller.k8s.io/a\n"), "{all}");
}

async fn kubectl_delete_waits_for_the_deletion(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    s.wait_collector_observed().await;
    let deleted = kubectl(&s)
        .run("delete aps a --cascade=foreground --timeout=2m")
        .ok();
    assert!(deleted.contains("\"a\" deleted"), "{deleted}");
    assert!(s.names("deployments").await.is_empty());
    s.create_ready(app("b", json!({"deletionPolicy": "Orphan"})))
        .await;
    let deleted = kubectl(&s).run("delete aps b --timeout=2m").ok();
    assert!(deleted.contains("\"b\" deleted"), "{deleted}");
    assert_eq!(s.names("deployments").await, ["b"]);
}
