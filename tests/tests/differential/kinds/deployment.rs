//! A workload: a template, an immutable selector, a status and a scale.

use serde_json::json;

use super::{Kind, with_metadata};

pub fn kind() -> Kind {
    let places = places! {
        "/spec/replicas": [0, 1, 3] / [-1, "3", 1.5, null, 3_000_000_000_i64],
        "/spec/minReadySeconds": [0, 5] / [-1, 700],
        "/spec/progressDeadlineSeconds": [700, 600] / [0, 5, -1],
        "/spec/revisionHistoryLimit": [0, 3] / [-1],
        "/spec/paused": [true, false] / ["x", null],
        "/spec/strategy": [
            {"type": "Recreate"},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "10%"}},
            {"type": "RollingUpdate"}, {},
        ] / [
            {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}, {"type": "Odd"},
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}, {"rollingUpdate": {"maxSurge": "x%"}},
            {"rollingUpdate": {"maxUnavailable": "120%"}}, {"rollingUpdate": {"maxUnavailable": -1}},
        ],
        "/spec/strategy/type": ["Recreate", "RollingUpdate"] / ["", "x", null],
        "/spec/strategy/rollingUpdate/maxSurge": [1, "50%", 0] / [-1, "50", true],
        "/spec/selector": [{"matchLabels": {"app": "a"}}] / [
            {"matchLabels": {"app": "b"}}, {}, null,
            {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
            {"matchExpressions": [{"key": "app", "operator": "Odd"}]}, {"matchLabels": {"bad key": "x"}},
        ],
        "/spec/template/metadata/labels": [{"app": "a", "v": "1"}, {"app": "a", "v": "2"}]
            / [{"app": "b"}, {}, null, {"app": "a", "bad!": "x"}],
        "/spec/template/metadata/annotations": [{"x": "1"}, {"x": "2"}] / [{"x": 1}],
        "/spec/template/spec/containers/0/image": ["i:1", "i:2"] / ["", " i", 1],
        "/spec/template/spec/containers": [
            [{"name": "c", "image": "i:1"}],
            [{"name": "c", "image": "i:latest"}, {"name": "d", "image": "j:2"}],
            [{"name": "d", "image": "j"}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "two"}]}],
            [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}]}],
            [{"name": "c", "image": "i", "env": [{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
            [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "64Mi"}}}],
            [{"name": "c", "image": "i", "readinessProbe": {"httpGet": {"port": 80}}}],
        ] / [
            [], null, [{"name": "c"}], [{"name": "c", "image": "i"}, {"name": "c", "image": "j"}],
            [{"name": "Bad", "image": "i"}], [{"name": "c", "image": "i", "imagePullPolicy": "Odd"}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 0}]}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "X"}]}],
            [{"name": "c", "image": "i", "env": [{"name": "", "value": "1"}]}],
            [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}],
            [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "lots"}}}],
            [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 0.5}}}],
            [{"name": "c", "image": "i", "volumeMounts": [{"name": "nosuch", "mountPath": "/x"}]}],
            [{"name": "c", "image": "i", "livenessProbe": {}}],
            [{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}}],
            [{"name": "c", "image": "i", "nosuch": 1}], {"name": "c"},
        ],
        "/spec/template/spec/restartPolicy": ["Always"] / ["Never", "", "x"],
        "/spec/template/spec/terminationGracePeriodSeconds": [0, 10] / [-5, "x"],
        "/spec/template/spec/nodeSelector": [{"disk": "ssd"}, {}] / [{"bad key": "x"}],
        "/spec/template/spec/volumes": [[{"name": "v", "emptyDir": {}}], [{"name": "v", "configMap": {"name": "x"}}], []]
            / [
            [{"name": "v"}], [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}], [{"emptyDir": {}}],
        ],
        "/spec/template/spec/hostNetwork": [true, false] / ["x"],
        "/spec/template/spec/tolerations": [[{"key": "k", "operator": "Exists"}], []]
            / [[{"operator": "Equal", "effect": "Odd"}], [{"key": "k", "operator": "Exists", "value": "v"}]],
        "/spec/template": [] / [null, {}],
        "/spec/nosuch": [] / [1],
        "/spec": [] / [null, {}, "x"],
    };
    let directives = places! {
        "/spec/template/spec/containers": [
            [{"name": "c", "image": "i:9"}], [{"name": "e", "image": "e"}],
            [{"name": "c", "$patch": "delete"}, {"name": "f", "image": "f"}],
            [{"$patch": "replace"}, {"name": "c", "image": "only"}],
            [{"name": "c", "ports": [{"containerPort": 80, "$patch": "delete"}]}],
            [{"name": "c", "ports": [{"containerPort": 82}]}],
            [{"name": "c", "env": [{"name": "A", "value": "9"}]}],
            [{"name": "c", "env": [{"name": "A", "$patch": "delete"}]}], [{"name": "c", "args": ["1", "2"]}],
            [{"name": "c", "resources": {"$patch": "replace", "limits": {"cpu": "2"}}}],
        ] / [
            [{"image": "x"}], [{"name": "c", "$patch": "odd"}], [{"name": "c", "image": null}], ["x"],
            [{"name": 1}],
        ],
        "/spec/template/spec/$setElementOrder~1containers": [[{"name": "d"}, {"name": "c"}], [{"name": "c"}]]
            / [[{"nosuch": "x"}]],
        "/spec/strategy": [{"$retainKeys": ["type"], "type": "Recreate"}, {"$patch": "replace", "type": "Recreate"}]
            / [{"$retainKeys": ["rollingUpdate"], "type": "Recreate"}],
        "/spec/template/metadata/labels": [{"$patch": "replace", "app": "a"}] / [{"$patch": "delete"}],
        "/spec/template/spec/volumes": [
            [{"name": "v", "$patch": "delete"}],
            [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}],
        ] / [[{"name": "v", "emptyDir": null}]],
    };
    let condition =
        |status: &str| json!({"type": "Available", "status": status, "reason": "R", "message": "m"});
    let status = places! {
        "/status/replicas": [0, 1, 3] / [-1, "x"],
        "/status/readyReplicas": [0, 1] / [7, -2],
        "/status/updatedReplicas": [0, 1] / [9],
        "/status/availableReplicas": [0, 1] / [9],
        "/status/observedGeneration": [1, 2] / [-1],
        "/status/collisionCount": [1, 2] / [0, -1],
        "/status/conditions": [[condition("True")], [condition("False")], []]
            / [[{}], [condition("True"), condition("False")], [{"type": "X"}], [{"status": "True"}]],
    };
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
