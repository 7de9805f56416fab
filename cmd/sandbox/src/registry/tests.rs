//! Properties of every kind.

use proptest::prelude::*;

use crate::json::{Value, json};
use crate::registry::testing::{created, object, resource, template, versioned};
use crate::registry::{all, default, prepare_status, prepare_update, validate_create};

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
        let once = object(&versioned(res), sample(&res.qualified()));
        let mut twice = once.clone();
        default(res, &mut twice, None);
        assert_eq!(twice, once, "{}", res.qualified());
    }
}

#[test]
fn writing_back_what_was_read_changes_nothing() {
    for res in all() {
        let old = created(&versioned(res), sample(&res.qualified()));
        let mut new = old.clone();
        default(res, &mut new, None);
        prepare_update(res, &old, &mut new);
        assert_eq!(new, old, "{}", res.qualified());
        if res.status {
            prepare_status(res, &old, &mut new);
            assert_eq!(new, old, "{}/status", res.qualified());
        }
    }
}

#[test]
fn default_label_returns_after_its_removal() {
    let old = created("namespaces", json!({}));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({});
    default(&resource("namespaces"), &mut new, Some(&old));
    assert_eq!(new, old);
}

#[test]
fn names_of_every_kind_fit_into_a_path() {
    for res in all() {
        let mut object = created(&versioned(res), sample(&res.qualified()));
        for name in ["/", "a%b", ".", ".."] {
            object["metadata"]["name"] = json!(name);
            let errors = validate_create(res, &object);
            let refused = errors.iter().any(|it| it.field == "metadata.name");
            assert!(refused, "{} {name}", res.qualified());
        }
    }
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.make_mut().iter_mut().for_each(without_nulls),
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
            crate::registry::default(res, &mut obj, None);
            obj
        };
        let check = |what: &str, obj: &Value| {
            let (mut once, mut twice) = (obj.clone(), obj.clone());
            prop_assert_eq!(crate::schema::conform(schema, &mut twice), Ok(vec![]), "{}", what);
            // The one place where the server writes null: times that are not set.
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
