//! `AppServices` with very many entries in their lists.

use serde_json::{Value, json};

use super::super::Load;
use super::{TENANT, path};

/// The entries of `env` in an object of 1.5 MB. The names have to differ.
const ENV_MAX: u64 = 20_000;
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/appservices.appcontroller.k8s.io";
const CHANGES: u64 = 5;

pub(super) async fn run(load: &mut Load) {
    load.prepare_hostile().await;
    let cluster = load.cluster.clone();
    let crd = cluster.get(CRD).await;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let admitted = |field: &str| {
        crd.pointer(&format!("{spec}/{field}/maxItems"))
            .and_then(Value::as_u64)
    };
    let env = admitted("env").unwrap_or(u64::MAX).min(load.scaled(ENV_MAX));
    let ports = admitted("ports").unwrap_or(u64::MAX).min(load.scaled(ENV_MAX));
    super::outside(|| drop(crd));
    let apps = path("appservices", TENANT);
    for n in 0..4 {
        cluster
            .create(&apps, || app_service(&format!("web-{n}"), env, ports))
            .await;
    }
    load.memory_limit = 64 << 20;
    load.start_hostile_with(&[("appservices", 4), ("deployments", 4)])
        .await;
    load.bound_poll("creation");
    for change in 0..CHANGES {
        for n in 0..4 {
            let replicas = json!({"spec": {"replicas": change % 2}});
            cluster.patch(&format!("{apps}/web-{n}"), &replicas).await;
        }
        if change == 1 {
            load.serve_other("web").await;
        }
        load.settle("a change").await;
    }
    load.bound_poll("changes");
}

fn app_service(name: &str, env: u64, ports: u64) -> Value {
    let env: Vec<_> = (0..env)
        .map(|n| json!({"name": format!("A{n}"), "value": "x"}))
        .collect();
    let ports: Vec<_> = (0..ports)
        .map(|n| json!({"port": n + 1, "name": format!("p-{n}")}))
        .collect();
    json!({
        "apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": name},
        "spec": {"deploymentName": name, "image": "registry.example/web:1", "replicas": 1, "env": env, "ports": ports},
    })
}
