use serde_json::{Value, json};

use crate::registry::pod::defaults::pull_policy;
use crate::registry::testing::{create_errors, created, object, resource, template, texts, updated};

fn pod(spec: Value) -> Value {
    let mut all = json!({"containers": [{"name": "c", "image": "nginx:1"}]});
    if let (Some(all), Value::Object(spec)) = (all.as_object_mut(), spec) {
        all.extend(spec);
    }
    json!({ "spec": all })
}

#[test]
fn a_minimal_pod_is_filled_in() {
    let pod = created(
        "pods",
        json!({"spec": {"containers": [{"name": "a", "image": "x"}]}}),
    );
    assert_eq!(
        pod["spec"],
        json!({
            "containers": [{"image": "x", "imagePullPolicy": "Always", "name": "a", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists",
                    "tolerationSeconds": 300},
                {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists",
                    "tolerationSeconds": 300}],
        })
    );
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert_eq!(pod["metadata"]["generation"], 1);
}

#[test]
fn templates_get_less_than_pods() {
    let set = created(
        "replicasets.apps",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template(&json!({"a": "b"}))}}),
    );
    let spec = &set["spec"]["template"]["spec"];
    for key in ["enableServiceLinks", "tolerations", "priority"] {
        assert!(spec[key].is_null(), "{key}");
    }
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
}

#[test]
fn nested_defaults() {
    let spec = object(
        "pods",
        pod(json!({
            "hostNetwork": true, "serviceAccountName": "s",
            "containers": [{
                "name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            }],
            "volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "h", "hostPath": {"path": "/"}}],
        })),
    )["spec"]
        .clone();
    let container = &spec["containers"][0];
    assert_eq!(
        container["ports"],
        json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}])
    );
    assert_eq!(
        container["livenessProbe"],
        json!({"failureThreshold": 3, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10,
            "successThreshold": 1, "timeoutSeconds": 1})
    );
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(
        container["env"][1]["valueFrom"]["resourceFieldRef"]["divisor"],
        "0"
    );
    assert_eq!(
        container["resources"]["requests"],
        json!({"cpu": "500m", "memory": "1Gi"})
    );
    assert_eq!(spec["serviceAccount"], "s");
    assert_eq!(
        spec["volumes"],
        json!([{"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
            {"name": "h", "hostPath": {"path": "/", "type": ""}}])
    );
}

#[test]
fn images_without_a_fixed_tag_are_pulled_always() {
    let cases = [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("localhost:5000/a/b", "Always"),
        ("localhost:5000/a/b:v1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("", "IfNotPresent"),
        ("Not An Image", "IfNotPresent"),
    ];
    for (image, expected) in cases {
        assert_eq!(pull_policy(image), expected, "{image}");
    }
}

#[test]
fn quality_of_service() {
    let with = |resources: Value| {
        let pod = json!({"spec": {"containers": [{"name": "c", "image": "nginx", "resources": resources}]}});
        created("pods", pod)["status"]["qosClass"].clone()
    };
    assert_eq!(with(json!({})), "BestEffort");
    assert_eq!(with(json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(with(json!({"limits": {"cpu": "1"}})), "Burstable");
    assert_eq!(
        with(json!({"limits": {"cpu": "1", "memory": "1Gi"}})),
        "Guaranteed"
    );
    assert_eq!(
        with(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})),
        "Burstable"
    );
}

#[test]
fn what_is_wrong_with_containers_is_named() {
    let errors = create_errors(
        "pods",
        json!({"spec": {"containers": [
            {"name": "a", "image": "x", "resources": {"requests": {"cpu": "2", "foo": "1"}, "limits": {"cpu": "1"}},
                "volumeMounts": [{"name": "v", "mountPath": "/x"}], "ports": [{"containerPort": 0}],
                "env": [{"name": "a=b"}]},
            {"name": "a"},
        ]}}),
    );
    assert_eq!(
        errors,
        [
            "spec.containers[0].ports[0].containerPort: Required value",
            "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist \
             only of printable ASCII characters other than '='",
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            "spec.containers[0].resources.requests[foo]: Invalid value: \"foo\": must be a standard resource type or \
             fully qualified",
            "spec.containers[0].resources.requests[foo]: Invalid value: \"foo\": must be a standard resource for \
             containers",
            "spec.containers[1].image: Required value",
            "spec.containers[1].name: Duplicate value: \"a\"",
        ]
    );
}

#[test]
fn what_is_wrong_with_the_rest_is_named() {
    let cases = [
        (json!({"containers": []}), "spec.containers: Required value"),
        (
            json!({"restartPolicy": "Sometimes"}),
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \
             \"Never\"",
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            json!({"volumes": [{"name": "v"}, {"name": "v"}]}),
            "spec.volumes[1].name: Duplicate value: \"v\"",
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            json!({"tolerations": [{"value": "x"}]}),
            "spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which \
             means \"match all values and all keys\"",
        ),
        (
            json!({"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"tcpSocket": {"port": 1}}}]}),
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without \
             restartPolicy=Always",
        ),
        (
            json!({"containers": [{"name": "c", "image": "x", "livenessProbe": {}}]}),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            json!({"nodeName": "n", "schedulingGates": [{"name": "x/y"}]}),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(create_errors("pods", pod(spec.clone())), [expected], "{spec}");
    }
}

#[test]
fn next_to_nothing_may_change() {
    let allowed = [
        json!({"containers": [{"name": "c", "image": "nginx:2"}]}),
        json!({"activeDeadlineSeconds": 10}),
        json!({"tolerations": [{"key": "k", "operator": "Exists"}]}),
    ];
    for change in allowed {
        let (new, errors) = updated("pods", pod(json!({})), pod(change.clone()));
        assert_eq!(errors, [""; 0], "{change}");
        assert_eq!(new["metadata"]["generation"], 2, "{change}");
    }
    let (_, errors) = updated("pods", pod(json!({})), pod(json!({"nodeName": "n"})));
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with(
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
             existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
             previously negative)\n"
        ),
        "{errors:?}"
    );
    let two = json!({"containers": [{"name": "c", "image": "nginx:1"}, {"name": "d", "image": "x"}]});
    let (_, errors) = updated("pods", pod(json!({})), pod(two));
    assert_eq!(
        errors,
        ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    );
    let (_, errors) = updated(
        "pods",
        pod(json!({"activeDeadlineSeconds": 5})),
        pod(json!({"activeDeadlineSeconds": 6})),
    );
    assert_eq!(
        errors,
        ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"]
    );
    let (_, errors) = updated(
        "pods",
        pod(json!({"tolerations": [{"key": "k", "operator": "Exists"}]})),
        pod(json!({})),
    );
    assert_eq!(
        errors,
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
}

#[test]
fn status_keeps_what_old_writers_do_not_know() {
    let res = resource("pods");
    let mut old = created("pods", pod(json!({})));
    old["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "observedGeneration": 1}]);
    let mut new = old.clone();
    new["status"] =
        json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
    crate::registry::default(&res, &mut new);
    crate::registry::prepare_status(&res, &old, &mut new);
    assert_eq!(
        new["status"],
        json!({"phase": "Running", "qosClass": "BestEffort", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1, "lastProbeTime": null, "lastTransitionTime": null}]})
    );
    assert_eq!(
        texts(&crate::registry::validate_status(&res, &old, &new)),
        [""; 0]
    );
    new["status"]["qosClass"] = "Guaranteed".into();
    assert_eq!(
        texts(&crate::registry::validate_status(&res, &old, &new)),
        ["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"]
    );
}

#[test]
fn gated_pods_say_so_from_the_start() {
    let mut gated = pod(json!({"schedulingGates": [{"name": "x/y"}]}));
    gated["metadata"] = json!({"creationTimestamp": "2024-01-01T00:00:00Z"});
    assert_eq!(
        created("pods", gated)["status"]["conditions"],
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": "2024-01-01T00:00:00Z"}])
    );
}

#[test]
fn a_negative_grace_period_is_short_but_not_none() {
    let hasty = object("pods", pod(json!({"terminationGracePeriodSeconds": -1})));
    assert_eq!(hasty["spec"]["terminationGracePeriodSeconds"], 1);
}
