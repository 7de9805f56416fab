//! What holds across kinds.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::registry::testing::{
    create_errors, created, object, resource, template, texts, updated, versioned,
};
use crate::registry::{
    Propagation, all, allows_create_on_update, allows_unconditional_update, default, default_propagation,
    never_gets_gc_finalizers, prepare_status, prepare_update, propagation_warning,
};

fn workload() -> Value {
    json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template(&json!({"a": "b"}))}})
}

/// A spec that every kind accepts as far as these tests go.
fn sample(qualified: &str) -> Value {
    match qualified {
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => workload(),
        "replicationcontrollers" => json!({"spec": {"template": template(&json!({"a": "b"}))}}),
        "pods" => json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}}),
        "services" => json!({"spec": {"ports": [{"port": 80}]}}),
        "events.events.k8s.io" => json!({"regarding": {"namespace": "default"}}),
        _ => json!({}),
    }
}

#[test]
fn defaulting_twice_changes_nothing() {
    for res in all() {
        let once = object(&versioned(&res), sample(&res.qualified()));
        let mut twice = once.clone();
        default(&res, &mut twice);
        assert_eq!(twice, once, "{}", res.qualified());
    }
}

#[test]
fn writing_back_what_was_read_changes_nothing() {
    for res in all() {
        let old = created(&versioned(&res), sample(&res.qualified()));
        let mut new = old.clone();
        default(&res, &mut new);
        prepare_update(&res, &old, &mut new);
        assert_eq!(new, old, "{}", res.qualified());
        if res.status {
            prepare_status(&res, &old, &mut new);
            assert_eq!(new, old, "{}/status", res.qualified());
        }
    }
}

#[test]
fn which_kinds_have_a_generation() {
    let with: Vec<String> = all()
        .iter()
        .filter(|res| !created(&versioned(res), sample(&res.qualified()))["metadata"]["generation"].is_null())
        .map(|res| res.kind.clone())
        .collect();
    assert_eq!(
        with,
        [
            "Pod",
            "ReplicationController",
            "DaemonSet",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
            "CronJob",
            "Job",
            "PodDisruptionBudget",
            "NetworkPolicy",
            "PriorityClass",
            "FlowSchema",
            "PriorityLevelConfiguration",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "CustomResourceDefinition",
        ]
    );
}

#[test]
fn generations_count_what_the_kind_says() {
    // Kind, what changes, and the generation afterwards.
    let cases = [
        ("deployments.apps", "/spec/replicas", json!(5), 2),
        ("deployments.apps", "/metadata/annotations", json!({"a": "b"}), 2),
        ("deployments.apps", "/metadata/labels", json!({"a": "b"}), 1),
        ("replicasets.apps", "/spec/replicas", json!(5), 2),
        ("replicasets.apps", "/metadata/annotations", json!({"a": "b"}), 1),
        ("statefulsets.apps", "/spec/replicas", json!(5), 2),
        ("jobs.batch", "/spec/parallelism", json!(5), 2),
        ("pods", "/spec/activeDeadlineSeconds", json!(5), 2),
        ("pods", "/metadata/labels", json!({"a": "b"}), 1),
    ];
    for (kind, pointer, value, generation) in cases {
        let res = resource(kind);
        let old = created(kind, sample(kind));
        let mut new = old.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        crate::registry::json::set(new.pointer_mut(parent).expect("a parent"), key, value);
        default(&res, &mut new);
        prepare_update(&res, &old, &mut new);
        assert_eq!(new["metadata"]["generation"], generation, "{kind} {pointer}");
    }
}

#[test]
fn clients_choose_neither_status_nor_generation() {
    let mut new = workload();
    new["status"] = json!({"replicas": 7});
    new["metadata"] = json!({"generation": 9});
    let deployment = created("deployments.apps", new.clone());
    assert_eq!(deployment["status"], json!({}));
    assert_eq!(deployment["metadata"]["generation"], 1);
    let (deployment, errors) = updated("deployments.apps", workload(), new);
    assert_eq!(errors, [""; 0]);
    assert_eq!(deployment["status"], json!({}));
    assert_eq!(deployment["metadata"]["generation"], 1);
}

#[test]
fn what_survives_at_the_status_endpoint() {
    // Kind, and whether labels, annotations and owners sent there are kept.
    let cases = [
        ("deployments.apps", false, true, true),
        ("replicasets.apps", true, true, true),
        ("statefulsets.apps", true, true, true),
        ("pods", true, true, false),
        ("nodes", true, true, true),
        ("jobs.batch", true, true, true),
        ("customresourcedefinitions.apiextensions.k8s.io", true, true, true),
    ];
    for (kind, labels, annotations, owners) in cases {
        let res = resource(kind);
        let old = created(kind, sample(kind));
        let mut new = old.clone();
        crate::registry::json::set(&mut new["metadata"], "labels", json!({"x": "y"}));
        crate::registry::json::set(&mut new["metadata"], "annotations", json!({"x": "y"}));
        crate::registry::json::set(&mut new["metadata"], "ownerReferences", json!([{"kind": "X"}]));
        crate::registry::json::set(&mut new["spec"], "replicas", json!(7));
        prepare_status(&res, &old, &mut new);
        let kept = |key: &str| new["metadata"][key] != old["metadata"][key];
        assert_eq!(
            (kept("labels"), kept("annotations"), kept("ownerReferences")),
            (labels, annotations, owners),
            "{kind}"
        );
        assert_eq!(new["spec"], old["spec"], "{kind}");
        assert_eq!(
            new["metadata"]["generation"], old["metadata"]["generation"],
            "{kind}"
        );
    }
}

#[test]
fn what_a_delete_does_by_default() {
    let orphans: Vec<String> = all()
        .iter()
        .filter(|res| default_propagation(res) == Propagation::Orphan)
        .map(crate::resource::Resource::qualified)
        .collect();
    assert_eq!(orphans, ["replicationcontrollers", "jobs.batch"]);
    assert!(
        propagation_warning(&resource("jobs.batch")).is_some_and(|text| text.starts_with("child pods are"))
    );
    assert_eq!(propagation_warning(&resource("replicationcontrollers")), None);
    assert!(never_gets_gc_finalizers(&resource("events.events.k8s.io")));
    assert!(!never_gets_gc_finalizers(&resource("pods")));
}

#[test]
fn what_put_may_do() {
    let creates: Vec<String> = all()
        .iter()
        .filter(|res| allows_create_on_update(res))
        .map(|res| res.kind.clone())
        .collect();
    assert_eq!(
        creates,
        [
            "Event",
            "Service",
            "Lease",
            "Event",
            "ClusterRoleBinding",
            "ClusterRole",
            "RoleBinding",
            "Role"
        ]
    );
    let careful: Vec<String> = all()
        .iter()
        .filter(|res| !allows_unconditional_update(res))
        .map(|res| res.kind.clone())
        .collect();
    assert_eq!(
        careful,
        [
            "Lease",
            "PodDisruptionBudget",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "CustomResourceDefinition"
        ]
    );
}

#[test]
fn the_same_error_is_said_once() {
    let res = resource("configmaps");
    let old = created("configmaps", json!({}));
    let mut new = old.clone();
    crate::registry::json::set(&mut new["metadata"], "labels", json!({"a b": "c"}));
    let errors = texts(&crate::registry::validate_update(&res, &old, &new));
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("metadata.labels: Invalid value: \"a b\": name part must consist of"),
        "{errors:?}"
    );
}

#[test]
fn finalizers_name_their_owner_where_the_kind_asks_for_it() {
    let bare = json!({"metadata": {"finalizers": ["mine"]}});
    let known = json!({"metadata": {"finalizers": ["orphan", "x.io/mine"]}});
    for kind in ["configmaps", "secrets", "roles.rbac.authorization.k8s.io"] {
        assert_eq!(
            create_errors(kind, bare.clone()),
            [
                "metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it \
              fully qualified"
            ],
            "{kind}"
        );
        assert_eq!(create_errors(kind, known.clone()), [""; 0], "{kind}");
        assert_eq!(updated(kind, json!({}), bare.clone()).1.len(), 1, "{kind}");
    }
    for kind in ["leases.coordination.k8s.io", "poddisruptionbudgets.policy"] {
        assert_eq!(create_errors(kind, bare.clone()), [""; 0], "{kind}");
    }
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

proptest! {
    /// Decoding brings an object into the form in which it is compared, and nothing here takes it out of it again.
    #[test]
    fn rules_leave_objects_in_the_form_of_their_schema(
        which in 0usize..100,
        old in prop::collection::vec(any::<u8>(), 1..300),
        new in prop::collection::vec(any::<u8>(), 1..300),
    ) {
        let all = all();
        let res = &all[which % all.len()];
        let schema = crate::schema::builtin(&res.api_version(), &res.kind).expect("a schema");
        let decoded = |bytes: &[u8]| {
            let mut obj = crate::schema::testing::object(schema, bytes);
            crate::schema::conform(schema, &mut obj).expect("built to the type");
            crate::registry::json::section(&mut obj, "metadata");
            crate::registry::default(res, &mut obj);
            obj
        };
        let check = |what: &str, obj: &Value| {
            let (mut once, mut twice) = (obj.clone(), obj.clone());
            prop_assert_eq!(crate::schema::conform(schema, &mut twice), Ok(vec![]), "{}", what);
            // The one place where the server writes null: times that nobody has set.
            crate::registry::json::with(&mut once, "status", without_nulls);
            crate::registry::json::with(&mut twice, "status", without_nulls);
            prop_assert_eq!(once, twice, "{} {}", res.kind, what);
            Ok(())
        };
        let mut old = decoded(&old);
        check("default", &old)?;
        crate::registry::prepare_create(res, &mut old);
        check("create", &old)?;
        let sent = decoded(&new);
        let mut new = sent.clone();
        crate::registry::prepare_update(res, &old, &mut new);
        check("update", &new)?;
        let mut new = sent;
        crate::registry::prepare_status(res, &old, &mut new);
        check("status", &new)?;
    }
}
