use serde_json::{Value, json};

use crate::registry::testing::{create_errors, created, resource, template, texts, updated};

fn with(extra: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template(&json!({"a": "b"}))});
    if let (Some(spec), Value::Object(extra)) = (spec.as_object_mut(), extra) {
        spec.extend(extra);
    }
    json!({ "spec": spec })
}

/// The spec of a new object without its template, which has tests of its own.
fn spec_of(kind: &str, extra: Value) -> Value {
    let mut spec = created(kind, with(extra))["spec"].clone();
    crate::registry::json::remove(&mut spec, "template");
    spec
}

#[test]
fn defaults() {
    let selector = json!({"matchLabels": {"a": "b"}});
    let cases = [
        (
            "deployments.apps",
            json!({"progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10, "selector": selector,
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"}}),
        ),
        ("replicasets.apps", json!({"replicas": 1, "selector": selector})),
        ("statefulsets.apps", json!({"replicas": 1, "selector": selector})),
        (
            "daemonsets.apps",
            json!({"revisionHistoryLimit": 10, "selector": selector,
                "updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}, "type": "RollingUpdate"}}),
        ),
    ];
    for (kind, expected) in cases {
        assert_eq!(spec_of(kind, json!({})), expected, "{kind}");
    }
    let recreate = spec_of("deployments.apps", json!({"strategy": {"type": "Recreate"}}));
    assert_eq!(recreate["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn old_controllers_take_labels_from_the_template() {
    let controller = created(
        "replicationcontrollers",
        json!({"spec": {"template": template(&json!({"a": "b"}))}}),
    );
    assert_eq!(controller["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(controller["spec"]["selector"], json!({"a": "b"}));
    assert_eq!(controller["spec"]["replicas"], 1);
    assert_eq!(
        create_errors("replicationcontrollers", json!({"spec": {}})),
        ["spec.selector: Required value", "spec.template: Required value"]
    );
}

#[test]
fn what_is_wrong_is_named() {
    let mismatch = "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template \
                    `labels`";
    let cases = [
        (
            "deployments.apps",
            json!({"replicas": -1}),
            vec!["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "deployments.apps",
            json!({"selector": null}),
            vec!["spec.selector: Required value", mismatch],
        ),
        (
            "deployments.apps",
            json!({"selector": {}}),
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            "deployments.apps",
            json!({"selector": {"matchLabels": {"a": "c"}}}),
            vec![mismatch],
        ),
        (
            "deployments.apps",
            json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}),
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            "deployments.apps",
            json!({"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}),
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            "deployments.apps",
            json!({"strategy": {"rollingUpdate": {"maxSurge": "x"}}}),
            vec![
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x\": a valid percent string must be a numeric \
             string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ],
        ),
        (
            "deployments.apps",
            json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
            vec![
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ],
        ),
        (
            "deployments.apps",
            json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}),
            vec!["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
        ),
        (
            "replicasets.apps",
            json!({"selector": {"matchLabels": {"a": "c"}}}),
            vec![mismatch],
        ),
        (
            "replicasets.apps",
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            vec![
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' \
                 or 'NotIn'",
                "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}]}: invalid \
                 label selector",
            ],
        ),
        ("daemonsets.apps", json!({"selector": null}), vec![mismatch]),
        (
            "daemonsets.apps",
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}),
            vec![
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is \
             non-zero",
            ],
        ),
    ];
    for (kind, extra, expected) in cases {
        let mut spec = with(extra.clone());
        if extra["selector"].is_null() && extra.get("selector").is_some() {
            crate::registry::json::remove(&mut spec["spec"], "selector");
        }
        assert_eq!(create_errors(kind, spec), expected, "{kind} {extra}");
    }
}

#[test]
fn templates_run_for_ever() {
    let mut never = with(json!({}));
    never["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    never["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 5.into();
    for (kind, name) in [
        ("deployments.apps", "ReplicaSet"),
        ("replicasets.apps", "ReplicaSet"),
        ("daemonsets.apps", "DaemonSet"),
    ] {
        assert_eq!(
            create_errors(kind, never.clone()),
            [
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"".to_owned(),
                format!(
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {name} is not \
                     Supported"
                ),
            ],
            "{kind}"
        );
    }
}

#[test]
fn selectors_are_for_good() {
    for kind in ["deployments.apps", "replicasets.apps", "daemonsets.apps"] {
        let new =
            with(json!({"selector": {"matchLabels": {"a": "c"}}, "template": template(&json!({"a": "c"}))}));
        let (_, errors) = updated(kind, with(json!({})), new);
        assert_eq!(
            errors,
            ["spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable"],
            "{kind}"
        );
    }
}

#[test]
fn daemon_sets_count_their_templates() {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let set = created("daemonsets.apps", with(json!({})));
    assert_eq!(set["metadata"]["annotations"], json!({COUNT: "1"}));
    let (same, _) = updated(
        "daemonsets.apps",
        with(json!({})),
        with(json!({"minReadySeconds": 1})),
    );
    assert_eq!(same["metadata"]["annotations"], json!({COUNT: "1"}));
    assert_eq!(same["metadata"]["generation"], 2);
    let mut other = with(json!({}));
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "httpd".into();
    let (changed, _) = updated("daemonsets.apps", with(json!({})), other);
    assert_eq!(changed["metadata"]["annotations"], json!({COUNT: "2"}));
}

#[test]
fn counts_must_add_up() {
    let res = resource("deployments.apps");
    let mut old = created("deployments.apps", with(json!({})));
    old["status"] = json!({"collisionCount": 2});
    let mut new = old.clone();
    new["status"] = json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "collisionCount": 1});
    assert_eq!(
        texts(&crate::registry::validate_status(&res, &old, &new)),
        [
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            "status.collisionCount: Invalid value: 1: cannot be decremented",
        ]
    );
}

#[test]
fn revisions_never_change() {
    let kind = "controllerrevisions.apps";
    assert_eq!(
        create_errors(kind, json!({"revision": -1})),
        [
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Required value: data is mandatory",
        ]
    );
    let (_, errors) = updated(kind, json!({"data": {"a": 1}}), json!({"data": {"a": 2}}));
    assert_eq!(errors, ["data: Invalid value: {\"a\":2}: field is immutable"]);
}
