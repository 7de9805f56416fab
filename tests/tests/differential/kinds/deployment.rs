//! A workload: a template, a selector that cannot change, a status and a scale.

use serde_json::json;

use super::{Kind, place, with_metadata};

pub fn kind() -> Kind {
    let places = vec![
        place(
            "/spec/replicas",
            json!([0, 1, 3]),
            json!([-1, "3", 1.5, null, 3_000_000_000_i64]),
        ),
        place("/spec/minReadySeconds", json!([0, 5]), json!([-1, 700])),
        place(
            "/spec/progressDeadlineSeconds",
            json!([700, 600]),
            json!([0, 5, -1]),
        ),
        place("/spec/revisionHistoryLimit", json!([0, 3]), json!([-1])),
        place("/spec/paused", json!([true, false]), json!(["x", null])),
        place(
            "/spec/strategy",
            json!([
                {"type": "Recreate"},
                {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "10%"}},
                {"type": "RollingUpdate"},
                {},
            ]),
            json!([
                {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
                {"type": "Odd"},
                {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
                {"rollingUpdate": {"maxSurge": "x%"}},
                {"rollingUpdate": {"maxUnavailable": "120%"}},
                {"rollingUpdate": {"maxUnavailable": -1}},
            ]),
        ),
        place(
            "/spec/strategy/type",
            json!(["Recreate", "RollingUpdate"]),
            json!(["", "x", null]),
        ),
        place(
            "/spec/strategy/rollingUpdate/maxSurge",
            json!([1, "50%", 0]),
            json!([-1, "50", true]),
        ),
        place(
            "/spec/selector",
            json!([{"matchLabels": {"app": "a"}}]),
            json!([
                {"matchLabels": {"app": "b"}},
                {},
                null,
                {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
                {"matchExpressions": [{"key": "app", "operator": "Odd"}]},
                {"matchLabels": {"bad key": "x"}},
            ]),
        ),
        place(
            "/spec/template/metadata/labels",
            json!([{"app": "a", "v": "1"}, {"app": "a", "v": "2"}]),
            json!([{"app": "b"}, {}, null, {"app": "a", "bad!": "x"}]),
        ),
        place(
            "/spec/template/metadata/annotations",
            json!([{"x": "1"}, {"x": "2"}]),
            json!([{"x": 1}]),
        ),
        place(
            "/spec/template/spec/containers/0/image",
            json!(["i:1", "i:2"]),
            json!(["", " i", 1]),
        ),
        place(
            "/spec/template/spec/containers",
            json!([
                [{"name": "c", "image": "i:1"}],
                [{"name": "c", "image": "i:latest"}, {"name": "d", "image": "j:2"}],
                [{"name": "d", "image": "j"}],
                [{"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "two"}]}],
                [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}]}],
                [{"name": "c", "image": "i", "env": [{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
                [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "64Mi"}}}],
                [{"name": "c", "image": "i", "readinessProbe": {"httpGet": {"port": 80}}}],
            ]),
            json!([
                [],
                null,
                [{"name": "c"}],
                [{"name": "c", "image": "i"}, {"name": "c", "image": "j"}],
                [{"name": "Bad", "image": "i"}],
                [{"name": "c", "image": "i", "imagePullPolicy": "Odd"}],
                [{"name": "c", "image": "i", "ports": [{"containerPort": 0}]}],
                [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "X"}]}],
                [{"name": "c", "image": "i", "env": [{"name": "", "value": "1"}]}],
                [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}],
                [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "lots"}}}],
                [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 0.5}}}],
                [{"name": "c", "image": "i", "volumeMounts": [{"name": "nosuch", "mountPath": "/x"}]}],
                [{"name": "c", "image": "i", "livenessProbe": {}}],
                [{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}}],
                [{"name": "c", "image": "i", "nosuch": 1}],
                {"name": "c"},
            ]),
        ),
        place(
            "/spec/template/spec/restartPolicy",
            json!(["Always"]),
            json!(["Never", "", "x"]),
        ),
        place(
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!([0, 10]),
            json!([-5, "x"]),
        ),
        place(
            "/spec/template/spec/nodeSelector",
            json!([{"disk": "ssd"}, {}]),
            json!([{"bad key": "x"}]),
        ),
        place(
            "/spec/template/spec/volumes",
            json!([[{"name": "v", "emptyDir": {}}], [{"name": "v", "configMap": {"name": "x"}}], []]),
            json!([[{"name": "v"}], [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}], [{"emptyDir": {}}]]),
        ),
        place(
            "/spec/template/spec/hostNetwork",
            json!([true, false]),
            json!(["x"]),
        ),
        place(
            "/spec/template/spec/tolerations",
            json!([[{"key": "k", "operator": "Exists"}], []]),
            json!([[{"operator": "Equal", "effect": "Odd"}], [{"key": "k", "operator": "Exists", "value": "v"}]]),
        ),
        place("/spec/template", json!([]), json!([null, {}])),
        place("/spec/nosuch", json!([]), json!([1])),
        place("/spec", json!([]), json!([null, {}, "x"])),
    ];
    let directives = vec![
        place(
            "/spec/template/spec/containers",
            json!([
                [{"name": "c", "image": "i:9"}],
                [{"name": "e", "image": "e"}],
                [{"name": "c", "$patch": "delete"}, {"name": "f", "image": "f"}],
                [{"$patch": "replace"}, {"name": "c", "image": "only"}],
                [{"name": "c", "ports": [{"containerPort": 80, "$patch": "delete"}]}],
                [{"name": "c", "ports": [{"containerPort": 82}]}],
                [{"name": "c", "env": [{"name": "A", "value": "9"}]}],
                [{"name": "c", "env": [{"name": "A", "$patch": "delete"}]}],
                [{"name": "c", "args": ["1", "2"]}],
                [{"name": "c", "resources": {"$patch": "replace", "limits": {"cpu": "2"}}}],
            ]),
            json!([[{"image": "x"}], [{"name": "c", "$patch": "odd"}], [{"name": "c", "image": null}], ["x"], [{"name": 1}]]),
        ),
        place(
            "/spec/template/spec/$setElementOrder~1containers",
            json!([[{"name": "d"}, {"name": "c"}], [{"name": "c"}]]),
            json!([[{"nosuch": "x"}]]),
        ),
        place(
            "/spec/strategy",
            json!([{"$retainKeys": ["type"], "type": "Recreate"}, {"$patch": "replace", "type": "Recreate"}]),
            json!([{"$retainKeys": ["rollingUpdate"], "type": "Recreate"}]),
        ),
        place(
            "/spec/template/metadata/labels",
            json!([{"$patch": "replace", "app": "a"}]),
            json!([{"$patch": "delete"}]),
        ),
        place(
            "/spec/template/spec/volumes",
            json!([[{"name": "v", "$patch": "delete"}], [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]]),
            json!([[{"name": "v", "emptyDir": null}]]),
        ),
    ];
    let condition =
        |status: &str| json!({"type": "Available", "status": status, "reason": "R", "message": "m"});
    let status = vec![
        place("/status/replicas", json!([0, 1, 3]), json!([-1, "x"])),
        place("/status/readyReplicas", json!([0, 1]), json!([7, -2])),
        place("/status/updatedReplicas", json!([0, 1]), json!([9])),
        place("/status/availableReplicas", json!([0, 1]), json!([9])),
        place("/status/observedGeneration", json!([1, 2]), json!([-1])),
        place("/status/collisionCount", json!([1, 2]), json!([0, -1])),
        place(
            "/status/conditions",
            json!([[condition("True")], [condition("False")], []]),
            json!([[{}], [condition("True"), condition("False")], [{"type": "X"}], [{"status": "True"}]]),
        ),
    ];
    let spec = json!({
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    Kind {
        root: "/apis/apps/v1",
        plural: "deployments",
        api_version: "apps/v1",
        title: "Deployment",
        rest: json!({"spec": spec}),
        places: with_metadata(places),
        directives,
        status,
        has_scale: true,
    }
}
