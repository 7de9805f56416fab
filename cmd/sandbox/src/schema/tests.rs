//! The schema as a whole, and what it makes of a body.

use serde_json::{Value, json};

use super::{Type, TypeRef, builtin, conform, delete_options, object_meta, zero};

fn kind(api_version: &str, kind: &str) -> TypeRef {
    builtin(api_version, kind).expect("a built-in kind")
}

/// What a body becomes, and which fields were unknown.
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
fn every_kind_of_the_sandbox_is_known() {
    let kinds = [
        (
            "v1",
            "Namespace Node Pod Service ConfigMap Secret ServiceAccount Event ReplicationController",
        ),
        ("v1", "PersistentVolumeClaim ResourceQuota Binding PodTemplate"),
        (
            "apps/v1",
            "ReplicaSet Deployment StatefulSet DaemonSet ControllerRevision",
        ),
        ("batch/v1", "Job CronJob"),
        ("coordination.k8s.io/v1", "Lease"),
        ("events.k8s.io/v1", "Event"),
        ("policy/v1", "PodDisruptionBudget Eviction"),
        (
            "rbac.authorization.k8s.io/v1",
            "Role RoleBinding ClusterRole ClusterRoleBinding",
        ),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("autoscaling/v1", "Scale"),
        (
            "flowcontrol.apiserver.k8s.io/v1",
            "FlowSchema PriorityLevelConfiguration",
        ),
        (
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        ),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ];
    for (api_version, names) in kinds {
        for name in names.split(' ') {
            let schema = kind(api_version, name);
            assert!(schema.field("metadata").is_some(), "{api_version} {name}");
        }
    }
    assert_eq!(kind("v1", "Event").name(), "io.k8s.api.core.v1.Event");
    assert_eq!(
        kind("events.k8s.io/v1", "Event").name(),
        "io.k8s.api.events.v1.Event"
    );
    assert!(builtin("v1", "Deployment").is_none());
    assert!(object_meta().is_some_and(|meta| meta.field("finalizers").is_some()));
    assert!(delete_options().is_some_and(|options| options.field("propagationPolicy").is_some()));
}

#[test]
fn every_reference_resolves_and_short_names_are_unique() {
    fn check(ty: &Type) {
        match ty {
            Type::Object(name) => assert!(ty.object().is_some(), "{name}"),
            Type::Map(inner) | Type::List(inner) => check(inner),
            Type::OneOf(types) => types.iter().for_each(check),
            _ => {}
        }
    }
    let schema = super::kinds::schema();
    let mut names = std::collections::BTreeSet::new();
    for name in schema.definitions.keys() {
        let definition = schema.definition(name).expect("itself");
        assert!(names.insert(definition.short_name()), "{name}");
        definition.fields().for_each(|(_, field)| check(&field.ty));
    }
    assert!(names.len() > 300, "{}", names.len());
}

#[test]
fn fields_that_keep_their_zero_exist_and_are_sorted() {
    assert!(zero::KEPT.is_sorted_by_key(|(name, _)| name));
    let schema = super::kinds::schema();
    for (name, fields) in zero::KEPT {
        let found = schema
            .definitions
            .keys()
            .find(|full| super::short_name(full) == *name);
        let definition = schema.definition(found.expect(name)).expect(name);
        for field in fields.split(' ') {
            let field = definition
                .field(field)
                .unwrap_or_else(|| panic!("{name}.{field}"));
            assert!(field.keeps_zero && !field.required);
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
    assert_eq!(
        ty(pod, "containers"),
        Some(Type::List(Box::new(Type::Object(
            "io.k8s.api.core.v1.Container".to_owned()
        ))))
    );
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
fn at_most_a_hundred_unknown_fields_are_named() {
    let many: serde_json::Map<String, Value> = (0..500).map(|n| (format!("x{n}"), json!(n))).collect();
    let (value, unknown) = conformed(kind("v1", "ConfigMap"), Value::Object(many));
    assert_eq!((value, unknown.len()), (json!({}), 100));
}

#[test]
fn what_omitempty_leaves_out_goes_and_what_says_something_stays() {
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

#[test]
fn wrong_types_are_rejected_with_their_path() {
    let spec = |container: Value| json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    for (body, message) in [
        (
            json!({"spec": {"replicas": "3"}}),
            "spec.replicas: expected int32, found string",
        ),
        (
            json!({"spec": {"replicas": 3_000_000_000_u64}}),
            "spec.replicas: expected int32, found number 3000000000",
        ),
        (
            json!({"spec": {"replicas": 3.0}}),
            "spec.replicas: expected int32, found number 3.0",
        ),
        (
            json!({"metadata": {"generation": u64::MAX}}),
            "metadata.generation: expected int64, found number 18446744073709551615",
        ),
        (json!({"spec": []}), "spec: expected object, found array"),
        (
            spec(json!("x")),
            "spec.template.spec.containers[0]: expected object, found string",
        ),
        (
            spec(json!({"ports": {}})),
            "spec.template.spec.containers[0].ports: expected array, found object",
        ),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "metadata.labels.a: expected string, found number",
        ),
        (
            json!({"metadata": {"creationTimestamp": 5}}),
            "metadata.creationTimestamp: expected string, found number",
        ),
        (
            json!({"spec": {"paused": "true"}}),
            "spec.paused: expected boolean, found string",
        ),
        (
            spec(json!({"resources": {"limits": {"cpu": true}}})),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(
            refused(kind("apps/v1", "Deployment"), body.clone()),
            message,
            "{body}"
        );
    }
}

#[test]
fn bytes_are_checked_and_line_breaks_dropped() {
    let secret = kind("v1", "Secret");
    let (value, _) = conformed(secret, json!({"data": {"a": "YWJj\nYWJj", "b": "", "c": null}}));
    assert_eq!(value, json!({"data": {"a": "YWJjYWJj", "b": "", "c": ""}}));
    for wrong in ["!!!!", "YQ"] {
        assert!(refused(secret, json!({"data": {"a": wrong}})).starts_with("invalid base64"));
    }
}
