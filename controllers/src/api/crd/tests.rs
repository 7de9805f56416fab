use super::*;

use crate::api::{GROUP, crds};

use std::collections::BTreeSet;

/// Every schema in a definition, with its path.
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
fn every_definition_says_what_a_server_needs() {
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

/// `kubectl apply` keeps a copy of the whole object in an annotation, and annotations have 256 KiB.
#[test]
fn every_definition_is_small_enough_to_be_applied() {
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
fn every_schema_is_one_that_a_server_takes_without_a_warning() {
    // https://swagger.io/specification: those that servers know, of which types can have some.
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
fn our_own_fields_are_described_and_those_of_kubernetes_are_not() {
    for definition in crds() {
        // Those of a ReplicaSet are a type of its own, all others are the common one.
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
fn the_template_of_pods_keeps_its_labels_and_its_lists_their_keys() {
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
fn it_is_the_same_each_time() {
    assert_eq!(yaml::documents(&crds()), yaml::documents(&crds()));
}
