use serde_json::{Value, json};

use crate::registry::meta::{keep_system_fields, validate, validate_update};
use crate::registry::names::subdomain_name;

fn texts(meta: &Value, namespaced: bool) -> Vec<String> {
    validate(meta, namespaced, subdomain_name)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn names_and_namespaces() {
    let cases = [
        (json!({"name": "a", "namespace": "b"}), true, vec![]),
        (json!({"name": "a"}), false, vec![]),
        (
            json!({"namespace": "b"}),
            true,
            vec!["metadata.name: Required value: name or generateName is required"],
        ),
        (
            json!({"name": "a"}),
            true,
            vec!["metadata.namespace: Required value"],
        ),
        (
            json!({"name": "a", "namespace": "b"}),
            false,
            vec!["metadata.namespace: Forbidden: not allowed on this type"],
        ),
        (
            json!({"name": "a", "namespace": "b.c"}),
            true,
            vec!["metadata.namespace: Invalid value: \"b.c\": must not contain dots"],
        ),
    ];
    for (meta, namespaced, expected) in cases {
        assert_eq!(texts(&meta, namespaced), expected, "{meta}");
    }
}

#[test]
fn owner_references() {
    let owner = |extra: Value| {
        let mut owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u"});
        if let (Some(owner), Some(extra)) = (owner.as_object_mut(), extra.as_object()) {
            owner.extend(extra.clone());
        }
        owner
    };
    let cases = [
        (
            vec![owner(json!({"controller": true})), owner(json!({"name": "e"}))],
            vec![],
        ),
        (
            vec![owner(
                json!({"apiVersion": "", "kind": "", "name": "", "uid": ""}),
            )],
            vec![
                "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            ],
        ),
        (
            vec![owner(json!({"apiVersion": "apps/"}))],
            vec!["metadata.ownerReferences.apiVersion: Invalid value: \"apps/\": version must not be empty"],
        ),
    ];
    for (owners, expected) in cases {
        let meta = json!({"name": "a", "namespace": "b", "ownerReferences": owners});
        assert_eq!(texts(&meta, true), expected, "{meta}");
    }
}

#[test]
fn owners_that_are_never_allowed() {
    let event = json!([{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]);
    let errors = texts(
        &json!({"name": "a", "namespace": "b", "ownerReferences": event}),
        true,
    );
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].ends_with("/v1, Kind=Event is disallowed from being an owner"),
        "{errors:?}"
    );

    let two = json!([
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "v", "controller": true},
    ]);
    let errors = texts(
        &json!({"name": "a", "namespace": "b", "ownerReferences": two}),
        true,
    );
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].ends_with(
            "Only one reference can have Controller set to true. Found \"true\" in references for A/a and B/b"
        ),
        "{errors:?}"
    );
}

#[test]
fn finalizers_and_annotations() {
    let both = json!({"name": "a", "namespace": "b", "finalizers": ["orphan", "foregroundDeletion"]});
    assert_eq!(
        texts(&both, true),
        [
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
          foregroundDeletion cannot be both set"
        ]
    );
    let bad = json!({"name": "a", "namespace": "b", "finalizers": ["a/b/c"]});
    assert!(
        texts(&bad, true)[0].starts_with("metadata.finalizers: Invalid value: \"a/b/c\": a valid label key")
    );
    let odd_case = json!({"name": "a", "namespace": "b", "annotations": {"Example.com/Key": "any \n text"}});
    assert_eq!(texts(&odd_case, true), Vec::<String>::new());
    let big = json!({"name": "a", "namespace": "b", "annotations": {"k": "x".repeat(256 * 1024)}});
    assert_eq!(
        texts(&big, true),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn updates_keep_what_the_server_owns() {
    let old = json!({"metadata": {"name": "a", "uid": "u", "generation": 3, "creationTimestamp": "t1",
        "deletionTimestamp": "t2", "deletionGracePeriodSeconds": 0}});
    let mut new = json!({"metadata": {"name": "a", "generation": 9, "creationTimestamp": "t9"}});
    keep_system_fields(&old, &mut new);
    assert_eq!(new, old);
}

#[test]
fn updates_may_not_change_identity() {
    let old = json!({"name": "a", "namespace": "n", "uid": "u", "generation": 2});
    let new = json!({"name": "b", "namespace": "n", "uid": "v", "generation": 1, "deletionTimestamp": "t"});
    let errors: Vec<String> = validate_update(&old, &new)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.uid: Invalid value: \"v\": field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"t\": field is immutable",
        ]
    );
}

#[test]
fn terminating_objects_get_no_new_finalizers() {
    let old = json!({"name": "a", "deletionTimestamp": "t", "finalizers": ["x/a", "x/b"]});
    let fewer = json!({"name": "a", "deletionTimestamp": "t", "finalizers": ["x/b"]});
    assert!(validate_update(&old, &fewer).is_empty());
    let more = json!({"name": "a", "deletionTimestamp": "t", "finalizers": ["x/d", "x/b", "x/c"]});
    let errors: Vec<String> = validate_update(&old, &more)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
          finalizers []string{\"x/c\", \"x/d\"}"
        ]
    );
}
