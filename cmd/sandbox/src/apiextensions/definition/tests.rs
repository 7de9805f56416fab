use serde_json::{Value, json};

use crate::registry::testing::{create_errors, created, updated};

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
fn names_are_completed_and_the_storage_version_recorded() {
    let crd = created(
        KIND,
        crd("x.io", &json!([version("v1", false), version("v2", true)])),
    );
    assert_eq!(
        crd["spec"]["names"],
        json!({"kind": "W", "listKind": "WList", "plural": "ws", "singular": "w"})
    );
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(
        crd["status"],
        json!({"acceptedNames": {"kind": "", "plural": ""}, "storedVersions": ["v2"]})
    );
    assert_eq!(crd["metadata"]["generation"], 1);
}

#[test]
fn all_errors_are_reported() {
    let mut bad = crd("xio", &json!([{"name": "v1", "served": true, "storage": false}]));
    bad["metadata"]["name"] = "bs.xio".into();
    bad["spec"]["scope"] = "Foo".into();
    assert_eq!(
        create_errors(KIND, bad),
        [
            "metadata.name: Invalid value: \"bs.xio\": must be spec.names.plural+\".\"+spec.group",
            "spec.group: Invalid value: \"xio\": should be a domain with at least one dot",
            "spec.scope: Unsupported value: \"Foo\": supported values: \"Cluster\", \"Namespaced\"",
            "spec.versions[0].schema.openAPIV3Schema: Required value",
            "spec.versions: Invalid value: [{\"name\":\"v1\",\"served\":true,\"storage\":false}]: must have exactly \
             one version marked as storage version",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ]
    );
}

#[test]
fn protected_groups_need_approval() {
    let with = |note: &str| {
        let mut crd = crd("x.k8s.io", &json!([version("v1", true)]));
        if !note.is_empty() {
            crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": note});
        }
        create_errors(KIND, crd)
    };
    assert_eq!(
        with(""),
        [
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval \
          annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"
        ]
    );
    assert_eq!(with("unapproved, just a test"), [""; 0]);
    assert_eq!(with("https://github.com/x/y/pull/1"), [""; 0]);
    assert!(with("yes")[0].contains("with either a URL or a reason starting with"));
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

#[test]
fn plural_name_is_immutable() {
    let mut other = crd("x.io", &json!([version("v1", true)]));
    other["spec"]["names"]["plural"] = "zs".into();
    let (_, errors) = updated(KIND, crd("x.io", &json!([version("v1", true)])), other);
    assert_eq!(
        errors,
        ["spec.names.plural: Invalid value: \"zs\": field is immutable"]
    );
}
