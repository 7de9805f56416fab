//! A minimal CRD of `ServiceMonitor`, for the component that uses it.

use coxswain_tests::{Cluster, fixtures, time};
use serde_json::{Value, json};

use super::{NAMESPACE, create_all};

const GROUP: &str = "monitoring.coreos.com";

/// Creates the CRD and waits until the resource is served.
pub async fn create_crd(c: &Cluster) {
    let text = json!({"type": "string"});
    let object = |required: &[&str], properties: Value| json!({"type": "object", "required": required, "properties": properties});
    let endpoint = object(
        &[],
        json!({
            "port": text, "path": text, "scheme": {"type": "string", "enum": ["http", "https"]},
            "bearerTokenFile": text,
            "tlsConfig": object(&[], json!({"insecureSkipVerify": {"type": "boolean"}})),
        }),
    );
    let labels = json!({"type": "object", "additionalProperties": text});
    let spec = object(
        &["endpoints", "selector"],
        json!({
            "endpoints": {"type": "array", "items": endpoint},
            "jobLabel": text, "selector": object(&[], json!({"matchLabels": labels})),
        }),
    );
    let schema = json!({"openAPIV3Schema": object(&["spec"], json!({"spec": spec}))});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("servicemonitors.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    c.api().post(definitions, definition).await.expect(201);
    let served = time::eventually(time::ANSWER, async || {
        (c.api().get(&monitors()).await.status == 200).then_some(())
    });
    assert!(served.await.is_some(), "{}", c.api().get(&monitors()).await);
}

/// Creates the component and asserts that it selects the port of the Service.
pub async fn deploy(c: &Cluster) {
    create_crd(c).await;
    create_all(c, "components/servicemonitor").await;
    let monitor = c.api().get(&format!("{}/coxswain", monitors())).await.expect(200);
    let service = fixtures::core(NAMESPACE, "services") + "/coxswain";
    let service = c.api().get(&service).await.expect(200);
    let wanted = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .expect("labels");
    let has = |(key, value): (&String, &Value)| service["metadata"]["labels"][key] == *value;
    assert!(
        !wanted.is_empty() && wanted.iter().all(has),
        "{monitor} {service}"
    );
    let endpoint = &monitor["spec"]["endpoints"][0];
    let ports = service["spec"]["ports"].as_array().expect("ports");
    assert!(
        ports.iter().any(|it| it["name"] == endpoint["port"]),
        "{monitor} {service}"
    );
    assert_eq!(
        (&endpoint["path"], &endpoint["scheme"]),
        (&json!("/metrics"), &json!("https"))
    );
    assert!(endpoint["bearerTokenFile"].is_string(), "{monitor}");
    assert_eq!(
        endpoint["tlsConfig"]["insecureSkipVerify"], true,
        "nothing is dropped: {monitor}"
    );
}

fn monitors() -> String {
    fixtures::group(&format!("{GROUP}/v1"), NAMESPACE, "servicemonitors")
}
