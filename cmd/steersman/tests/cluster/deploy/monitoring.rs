//! The component `monitoring`: minimal CRDs of its custom resources, and the Service that its `ServiceMonitor` selects.

use serde_json::{Value, json};
use steersman_harness::fixtures::{self, CRDS};
use steersman_harness::{Cluster, time};

use super::NAMESPACE;

pub const VERSION: &str = "monitoring.coreos.com/v1";

/// Creates the CRDs of the Prometheus Operator and waits until the resources are served.
pub async fn create_crds(c: &Cluster) {
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        create_crd(c, VERSION, kind).await;
    }
}

/// Creates a CRD without a schema of its fields, and waits until the resource is served.
pub async fn create_crd(c: &Cluster, version: &str, kind: &str) {
    let (group, name) = version.split_once('/').expect("a group and a version");
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": name, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    c.api().post(CRDS, definition).await.expect(201);
    let all = fixtures::group(version, NAMESPACE, &plural);
    let served = time::eventually(time::ANSWER, async || {
        (c.api().get(&all).await.status == 200).then_some(())
    });
    assert!(served.await.is_some(), "{}", c.api().get(&all).await);
}

/// Asserts that the `ServiceMonitor` selects a port of the Service.
pub async fn selects_the_service(c: &Cluster) {
    let monitor = format!(
        "{}/steersman",
        fixtures::group(VERSION, NAMESPACE, "servicemonitors")
    );
    let monitor = c.api().get(&monitor).await.expect(200);
    let service = fixtures::core(NAMESPACE, "services") + "/steersman";
    let service = c.api().get(&service).await.expect(200);
    let wanted = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .expect("labels");
    let has = |(key, value): (&String, &Value)| service["metadata"]["labels"][key] == *value;
    assert!(
        !wanted.is_empty() && wanted.iter().all(has),
        "{monitor} {service}"
    );
    let ports = service["spec"]["ports"].as_array().expect("ports");
    for endpoint in monitor["spec"]["endpoints"].as_array().expect("endpoints") {
        assert!(
            ports.iter().any(|it| it["name"] == endpoint["port"]),
            "{monitor} {service}"
        );
    }
}
