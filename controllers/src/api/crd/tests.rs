use super::*;

use crate::api::{GROUP, crds};

use std::collections::BTreeSet;

/// Calls `see` with every nested schema and its path.
fn each(schema: &Value, path: &str, see: &mut dyn FnMut(&str, &Value)) {
    see(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        each(field, &format!("{path}.{name}"), see);
    }
    for (key, name) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            each(&schema[key], &format!("{path}{name}"), see);
        }
    }
}

fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn every_crd_has_names_approval_and_status() {
    let mut names = BTreeSet::new();
    for definition in crds() {
        let name = definition["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        let spec = &definition["spec"];
        assert_eq!(
            name,
            format!("{}.{GROUP}", spec["names"]["plural"].as_str().expect("a plural"))
        );
        assert_eq!(
            definition["metadata"]["annotations"]["api-approved.kubernetes.io"],
            "unapproved, experimental-only"
        );
        assert_eq!(spec["names"]["categories"], json!([CATEGORY]));
        assert_eq!(spec["versions"].as_array().map(Vec::len), Some(1));
        assert_eq!(spec["versions"][0]["subresources"]["status"], json!({}));
        assert!(names.insert(name), "in order, each once");
    }
    assert!(crds().is_sorted_by_key(|it| it["metadata"]["name"].to_string()));
}

/// `kubectl apply` copies the object into an annotation, and all annotations of an object are limited to 256 KiB.
#[test]
fn every_crd_is_small_enough_for_kubectl_apply() {
    for definition in crds() {
        let bytes = definition.to_string().len();
        assert!(
            bytes < 200_000,
            "{}: {bytes} bytes",
            definition["metadata"]["name"]
        );
    }
}

#[test]
fn every_schema_is_structural_and_has_known_formats() {
    // The formats of the API server that our types can have.
    let formats = ["int32", "int64", "double", "date-time", "byte"];
    let mut seen = 0;
    for definition in crds() {
        each(schema(&definition), "", &mut |path, schema| {
            seen += 1;
            let keys: BTreeSet<&str> = schema
                .as_object()
                .expect("a schema")
                .keys()
                .map(String::as_str)
                .collect();
            for key in ["$ref", "$defs", "title", "anyOf", "oneOf", "allOf", "const"] {
                assert!(!keys.contains(key), "{path} has {key}");
            }
            let typed = schema["type"].is_string()
                || schema["x-kubernetes-int-or-string"] == true
                || schema["x-kubernetes-preserve-unknown-fields"] == true;
            assert!(typed, "{path}: {schema}");
            if let Some(format) = schema["format"].as_str() {
                assert!(formats.contains(&format), "{path} has the format {format}");
            }
            if schema["type"] == "integer" {
                assert!(schema["format"].is_string(), "{path} has no format");
            }
            if schema["type"] == "array" {
                assert!(schema["items"].is_object(), "{path}");
            }
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            for key in keys.into_iter().flatten().filter_map(Value::as_str) {
                let items = &schema["items"];
                let required = items["required"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|it| it == key);
                let default = items["properties"][key].get("default").is_some();
                assert!(required || default, "{path}: {key} may be missing");
            }
        });
    }
    assert!(seen > 500, "{seen}");
}

#[test]
fn only_fields_of_our_types_have_descriptions() {
    for definition in crds() {
        // AppReplicaSet has a condition type of its own, as ReplicaSet has.
        let conditions = definition["spec"]["names"]["kind"] != "AppReplicaSet";
        each(schema(&definition), "", &mut |path, schema| {
            let servers = ["", ".apiVersion", ".kind", ".metadata"].contains(&path);
            let types = [".spec.template.", ".spec.env[].", ".spec.resources."];
            let theirs = types.iter().any(|it| path.starts_with(it))
                || conditions && path.starts_with(".status.conditions[].");
            let described = schema["description"].is_string();
            assert!(!(theirs && described), "{path}");
            let theirs = theirs || path.ends_with("[]") || path.ends_with("{}");
            assert!(described || theirs || servers, "{path} is not described");
        });
    }
}

#[test]
fn pod_template_has_labels_and_list_map_keys() {
    let definition = crate::api::app_replica_set::crd();
    let template = &schema(&definition)["properties"]["spec"]["properties"]["template"];
    let of = |path: &str| {
        let mut at = template;
        for name in path.split('.') {
            at = match name {
                "[]" => &at["items"],
                name => &at["properties"][name],
            };
        }
        assert!(at.is_object(), "{path}");
        at
    };
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    assert_eq!(of("metadata.labels"), &texts);
    assert_eq!(of("metadata.annotations"), &texts);
    assert_eq!(of("metadata.creationTimestamp")["nullable"], true);
    let claim = of("spec.volumes.[].ephemeral.volumeClaimTemplate.metadata.labels");
    assert_eq!(claim, &texts);
    for (list, keys) in [
        ("spec.containers", json!(["name"])),
        ("spec.containers.[].env", json!(["name"])),
        (
            "spec.initContainers.[].ports",
            json!(["containerPort", "protocol"]),
        ),
    ] {
        assert_eq!(of(list)["x-kubernetes-list-type"], "map", "{list}");
        assert_eq!(of(list)["x-kubernetes-list-map-keys"], keys, "{list}");
    }
    assert_eq!(of("spec.containers.[].ports.[].protocol")["default"], "TCP");
    let limits = of("spec.containers.[].resources.limits");
    assert_eq!(limits["additionalProperties"]["x-kubernetes-int-or-string"], true);
    assert!(limits["additionalProperties"]["pattern"].is_string());
    let port = of("spec.containers.[].livenessProbe.httpGet.port");
    assert_eq!(port, &json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(of("spec")["required"], json!(["containers"]));
}

#[test]
fn output_is_deterministic() {
    assert_eq!(yaml::documents(&crds()), yaml::documents(&crds()));
}
