//! Tests of strategic merge patches on a Deployment and its pod template.

use super::super::{PatchError, PatchType, apply};
use crate::json::{Value, json};
use crate::schema;

fn pod_spec() -> Value {
    json!({
        "containers": [{"name": "a", "image": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                       {"name": "b", "image": "b"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "t"}],
        "nodeSelector": {"disk": "ssd"}
    })
}

pub(super) fn deployment(pod: &Value) -> Value {
    json!({"metadata": {"name": "d", "finalizers": ["x/a", "x/b"], "labels": {"a": "1"}},
           "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "template": {"spec": pod}}})
}

fn strategic(patch: &Value) -> Result<Value, PatchError> {
    let schema = schema::builtin("apps/v1", "Deployment");
    apply(
        PatchType::Strategic,
        &deployment(&pod_spec()),
        patch.to_string().as_bytes(),
        schema,
    )
}

fn patched_pod(patch: &Value) -> Value {
    let patched = strategic(&json!({"spec": {"template": {"spec": patch}}}))
        .unwrap_or_else(|error| panic!("{patch}: {error}"));
    patched["spec"]["template"]["spec"].clone()
}

pub(super) fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["name"].as_str())
        .collect()
}

#[test]
fn keyed_lists_merge_by_key() {
    let pod = patched_pod(&json!({"containers": [{"name": "b", "image": "new", "command": null}]}));
    assert_eq!(pod["containers"][0], pod_spec()["containers"][0]);
    assert_eq!(pod["containers"][1], json!({"name": "b", "image": "new"}));
    let pod = patched_pod(
        &json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "3"}, {"name": "Z"}]}]}),
    );
    assert_eq!(
        pod["containers"][0]["env"],
        json!([{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}, {"name": "Z"}])
    );
}

#[test]
fn new_items_precede_server_only_items() {
    let cases = [
        (json!([{"name": "z"}]), vec!["z", "a", "b"]),
        (json!([{"name": "b"}, {"name": "z"}]), vec!["a", "b", "z"]),
        (json!([{"name": "z"}, {"name": "b"}]), vec!["z", "a", "b"]),
        (json!([{"name": "a"}, {"name": "z"}]), vec!["a", "z", "b"]),
        (json!([{"name": "b"}, {"name": "a"}]), vec!["b", "a"]),
        (json!([]), vec!["a", "b"]),
    ];
    for (containers, expected) in cases {
        let pod = patched_pod(&json!({ "containers": containers }));
        assert_eq!(names(&pod["containers"]), expected, "{containers}");
    }
}

#[test]
fn item_directives_delete_or_replace() {
    let pod = patched_pod(
        &json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "none", "$patch": "delete"}]}),
    );
    assert_eq!(names(&pod["containers"]), ["b"]);
    let pod = patched_pod(&json!({"containers": [{"$patch": "replace"}, {"name": "z", "image": "z"}]}));
    assert_eq!(pod["containers"], json!([{"name": "z", "image": "z"}]));
}

#[test]
fn object_directives_are_applied() {
    let pod =
        patched_pod(&json!({"nodeSelector": {"zone": "1"}, "tolerations": [{"key": "u"}], "volumes": null}));
    assert_eq!(pod["nodeSelector"], json!({"disk": "ssd", "zone": "1"}));
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "u"}]),
        "a list without a key is replaced"
    );
    assert_eq!(pod.get("volumes"), None);
    assert_eq!(
        patched_pod(&json!({"nodeSelector": {"$patch": "replace", "zone": "1"}}))["nodeSelector"],
        json!({"zone": "1"})
    );
    assert_eq!(
        patched_pod(&json!({"nodeSelector": {"$patch": "delete"}}))["nodeSelector"],
        json!({})
    );
    assert_eq!(
        patched_pod(&json!({"nodeSelector": {"disk": null}}))["nodeSelector"],
        json!({})
    );
}

#[test]
fn new_values_lose_nulls_and_directives() {
    let pod = patched_pod(
        &json!({"securityContext": {"runAsUser": null, "sysctls": [{"name": "a", "value": null}]},
                                  "affinity": {"$patch": "delete"}, "hostAliases": [{"ip": "1", "$patch": "delete"}]}),
    );
    assert_eq!(pod["securityContext"], json!({"sysctls": [{"name": "a"}]}));
    assert_eq!(pod.get("affinity"), None);
    assert_eq!(pod["hostAliases"], json!([]));
}

#[test]
fn retain_keys_removes_other_fields() {
    let patched = strategic(&json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}))
        .expect("patched");
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
    let pod = patched_pod(
        &json!({"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}),
    );
    assert_eq!(
        pod["volumes"],
        json!([{"name": "v", "secret": {"secretName": "s"}}])
    );
}

#[test]
fn scalar_lists_merge_as_sets() {
    let finalizers = |patch: Value| {
        let patched = strategic(&json!({ "metadata": patch })).expect("patched");
        patched["metadata"]["finalizers"].clone()
    };
    assert_eq!(
        finalizers(json!({"finalizers": ["x/c", "x/a"]})),
        json!(["x/c", "x/a", "x/b"])
    );
    assert_eq!(
        finalizers(json!({"$deleteFromPrimitiveList/finalizers": ["x/a", "x/none"]})),
        json!(["x/b"])
    );
    assert_eq!(
        finalizers(json!({"$deleteFromPrimitiveList/finalizers": ["x/a"], "finalizers": ["x/c"]})),
        json!(["x/c", "x/b"])
    );
    assert_eq!(
        finalizers(json!({"$setElementOrder/finalizers": ["x/b", "x/a"]})),
        json!(["x/b", "x/a"])
    );
    assert_eq!(finalizers(json!({"finalizers": null})), json!(null));
}

#[test]
fn set_element_order_sorts_list() {
    let pod = patched_pod(
        &json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                                  "containers": [{"name": "c", "image": "c"}, {"name": "a", "image": "new"}]}),
    );
    assert_eq!(names(&pod["containers"]), ["b", "c", "a"]);
    assert_eq!(pod["containers"][2]["image"], "new");
    let pod = patched_pod(&json!({"$setElementOrder/containers": [], "containers": [{"name": "z"}]}));
    assert_eq!(names(&pod["containers"]), ["a", "b", "z"]);
    let pod = patched_pod(&json!({"$setElementOrder/containers": [{"name": "b"}],
                                  "containers": [{"name": "a", "$patch": "delete"}]}));
    assert_eq!(names(&pod["containers"]), ["b"]);
    let pod = patched_pod(
        &json!({"$setElementOrder/imagePullSecrets": [{"name": "s"}], "imagePullSecrets": [{"name": "s"}]}),
    );
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "s"}]));
}

#[test]
fn invalid_strategic_patch_is_rejected() {
    let pod = |pod: Value| json!({"spec": {"template": {"spec": pod}}});
    let cases = [
        (pod(json!({"containers": [{"image": "x"}]})), 500),
        (pod(json!({"containers": [{"$patch": "delete"}]})), 500),
        (pod(json!({"containers": [{"name": "a", "$patch": "zap"}]})), 500),
        (
            pod(json!({"containers": [{"name": "a", "$patch": "merge"}]})),
            500,
        ),
        (json!({"spec": {"$patch": "merge"}}), 500),
        (pod(json!({"volumes": ["x"]})), 500),
        (json!({"metadata": {"finalizers": [[]]}}), 500),
        (json!({"metadata": {"$deleteFromPrimitiveList": ["x"]}}), 400),
        (json!({"metadata": {"$setElementOrder": ["x"]}}), 400),
        (json!({"metadata": {"$setElementOrder/finalizers": "x"}}), 500),
        (json!({"metadata": {"$setElementOrder/labels": ["x"]}}), 500),
        (json!({"metadata": {"$setElementOrder/zork": ["x"]}}), 500),
        (
            pod(
                json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a", "image": "q"}]}),
            ),
            500,
        ),
        (
            pod(json!({"$setElementOrder/containers": [{"nam": "b"}], "containers": [{"name": "a"}]})),
            500,
        ),
        (json!({"spec": {"strategy": {"$retainKeys": "x"}}}), 400),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
            400,
        ),
    ];
    for (patch, code) in cases {
        let found = match strategic(&patch) {
            Err(PatchError::Internal(_)) => 500,
            Err(PatchError::NotDecodable(_)) => 400,
            other => panic!("{patch}: {other:?}"),
        };
        assert_eq!(found, code, "{patch}");
    }
}

#[test]
fn unknown_object_directives_are_unknown_fields() {
    let patched = strategic(&json!({"spec": {"$zork": 1}})).expect("patched");
    assert_eq!(patched["spec"]["$zork"], json!(1));
}

#[test]
fn disruption_budget_selector_is_replaced() {
    let current = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}});
    let patch = br#"{"spec":{"selector":{"matchLabels":{"b":"2"}}}}"#;
    let schema = schema::builtin("policy/v1", "PodDisruptionBudget");
    let patched = apply(PatchType::Strategic, &current, patch, schema);
    assert_eq!(
        patched,
        Ok(json!({"spec": {"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}}))
    );
}

#[test]
fn merge_into_free_form_data_is_rejected() {
    let schema = schema::builtin("apps/v1", "ControllerRevision");
    let answer = apply(
        PatchType::Strategic,
        &json!({"data": {"spec": {}}}),
        br#"{"data":{"spec":{}}}"#,
        schema,
    );
    let reason = "unable to find api field in struct RawExtension for the json field \"spec\"";
    assert_eq!(answer, Err(PatchError::Internal(reason.to_owned())));
}
