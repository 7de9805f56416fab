use serde_json::{Value, json};

use crate::registry::testing::updated;

const KIND: &str = "customresourcedefinitions.apiextensions.k8s.io";

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}})
}

fn crd(group: &str, versions: &Value) -> Value {
    json!({
        "metadata": {"name": format!("ws.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "ws", "kind": "W"}, "versions": versions},
    })
}

#[test]
fn stored_versions_must_stay() {
    let (crd, errors) = updated(
        KIND,
        crd("x.io", &json!([version("v1", true)])),
        crd("x.io", &json!([version("v1", false), version("v2", true)])),
    );
    assert_eq!(errors, [""; 0]);
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(crd["metadata"]["generation"], 2);

    let (_, errors) = updated(
        KIND,
        self::crd("x.io", &json!([version("v1", true)])),
        self::crd("x.io", &json!([version("v2", true)])),
    );
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with(
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was"
        )
    );
}
