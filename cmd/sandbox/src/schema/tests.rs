//! Types and decoding.

use super::{Type, TypeRef, builtin, conform};
use crate::json::{Value, json};

fn kind(api_version: &str, kind: &str) -> TypeRef {
    builtin(api_version, kind).expect("a built-in kind")
}

/// The decoded body, and its unknown fields.
fn conformed(schema: TypeRef, mut value: Value) -> (Value, Vec<String>) {
    let unknown = conform(schema, &mut value).expect("a body of this type");
    (value, unknown)
}

fn refused(schema: TypeRef, mut value: Value) -> String {
    conform(schema, &mut value)
        .expect_err("a body of another type")
        .to_string()
}

#[test]
fn generated_types_are_complete() {
    for resource in crate::registry::all() {
        for kind in [&resource.kind, &resource.list_kind] {
            let known = builtin(&resource.api_version(), kind).is_some();
            assert!(known || resource.is_review(), "{kind}");
        }
    }
    for (name, ty) in crate::generated::types() {
        for field in &ty.fields {
            let item = field.ty.trim_start_matches("[]").trim_start_matches("{}");
            let known = !item.contains('.') || crate::generated::types().contains_key(item);
            assert!(known, "{name} {}: {}", field.name, field.ty);
        }
    }
}

#[test]
fn types_are_read_from_the_published_schema() {
    let pod = kind("v1", "Pod")
        .field("spec")
        .and_then(|spec| spec.ty.object())
        .expect("spec");
    assert_eq!(pod.name(), "io.k8s.api.core.v1.PodSpec");
    assert_eq!(pod.short_name(), "core.v1.PodSpec");
    let ty = |schema: TypeRef, field: &str| schema.field(field).map(|field| field.ty.clone());
    let containers = match ty(pod, "containers") {
        Some(Type::List(item)) => item.object().map(TypeRef::short_name),
        _ => None,
    };
    assert_eq!(containers, Some("core.v1.Container"));
    assert_eq!(ty(pod, "nodeSelector"), Some(Type::Map(Box::new(Type::String))));
    assert_eq!(ty(pod, "overhead"), Some(Type::Map(Box::new(Type::Quantity))));
    assert_eq!(ty(pod, "priority"), Some(Type::Int32));
    assert_eq!(ty(pod, "activeDeadlineSeconds"), Some(Type::Int64));
    assert_eq!(
        ty(kind("v1", "Secret"), "data"),
        Some(Type::Map(Box::new(Type::Bytes)))
    );
    assert_eq!(ty(kind("apps/v1", "ControllerRevision"), "data"), Some(Type::Any));
}

#[test]
fn unknown_fields_go_and_are_named() {
    let (value, unknown) = conformed(
        kind("apps/v1", "Deployment"),
        json!({"spec": {"zork": null, "template": {"spec": {"containers": [{"name": "a"}, {"name": "b", "foo": 1}]}}},
               "metadata": {"Labels": {"a": "b"}, "name": "d"}}),
    );
    assert_eq!(
        value,
        json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}}, "metadata": {"name": "d"}})
    );
    assert_eq!(
        unknown,
        [
            "metadata.Labels",
            "spec.template.spec.containers[1].foo",
            "spec.zork"
        ]
    );
}

#[test]
fn zero_values_under_omitempty_are_dropped() {
    let cases = [
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"labels": {}, "finalizers": []}, "data": {}}),
            json!({"metadata": {}}),
        ),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": null, "immutable": null}),
            json!({}),
        ),
        (
            "v1",
            "ConfigMap",
            json!({"immutable": false}),
            json!({"immutable": false}),
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}], "containers": []}}),
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}], "containers": []}}),
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"hostNetwork": false, "nodeName": "", "priority": 0, "nodeSelector": {}}}),
            json!({"spec": {"priority": 0}}),
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 0, "paused": false, "minReadySeconds": 0}}),
            json!({"spec": {"replicas": 0}}),
        ),
        (
            "apps/v1",
            "ReplicaSet",
            json!({"status": {"replicas": 0, "readyReplicas": 0}}),
            json!({"status": {"replicas": 0}}),
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}, "ingress": [], "egress": [{}]}}),
            json!({"spec": {"podSelector": {}, "egress": [{}]}}),
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            json!({"spec": {"storageClassName": "", "volumeName": ""}}),
            json!({"spec": {"storageClassName": ""}}),
        ),
        (
            "apps/v1",
            "ControllerRevision",
            json!({"data": {"a": null, "b": [], "c": {}}, "revision": 0}),
            json!({"data": {"a": null, "b": [], "c": {}}, "revision": 0}),
        ),
    ];
    for (api_version, name, from, to) in cases {
        let (value, unknown) = conformed(kind(api_version, name), from.clone());
        assert_eq!((value, unknown.len()), (to, 0), "{from}");
    }
}

#[test]
fn amounts_are_read_as_text_and_huge_ones_left_alone() {
    for (given, kept) in [
        (json!(" 1 "), "1"),
        (json!(0.5), "500m"),
        // Resources are counted in thousandths.
        (json!("0.1m"), "1m"),
        (json!("1e30"), "1e30"),
        (json!("1e999999999"), "1e999999999"),
        (
            json!("999999999999999999999999999999999999999999"),
            "999999999999999999999999999999999999999999",
        ),
    ] {
        let (value, _) = conformed(kind("v1", "Pod"), json!({"spec": {"overhead": {"cpu": given}}}));
        assert_eq!(value, json!({"spec": {"overhead": {"cpu": kept}}}));
    }
}

#[test]
fn null_items_become_the_zero_of_their_type() {
    let (value, _) = conformed(
        kind("v1", "Pod"),
        json!({"metadata": {"labels": {"a": null}, "finalizers": [null]},
               "spec": {"containers": [null], "overhead": {"cpu": null}}}),
    );
    assert_eq!(
        value,
        json!({"metadata": {"labels": {"a": ""}, "finalizers": [""]}, "spec": {"containers": [{}], "overhead": {"cpu": "0"}}})
    );
}

#[test]
fn a_schema_in_a_crd_is_read_in_all_its_shapes() {
    let body = |items: Value, rest: Value| {
        json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"items": items, "additionalProperties": rest, "default": {}, "enum": [null, 1]}}}],
            "group": "x.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}}})
    };
    let crd = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let (value, unknown) = conformed(crd, body(json!({"type": "string", "typo": 1}), json!(true)));
    assert_eq!(value, body(json!({"type": "string"}), json!(true)));
    assert_eq!(unknown, ["spec.versions[0].schema.openAPIV3Schema.items.typo"]);
    let (value, unknown) = conformed(crd, body(json!([{"typo": 1}]), json!({"typo": 1})));
    assert_eq!(value, body(json!([{}]), json!({})));
    assert_eq!(unknown.len(), 2);
    assert!(refused(crd, body(json!({}), json!("x"))).contains("found string"));
}
