//! A kind with an almost immutable spec and graceful deletion.

use serde_json::json;

use super::{Kind, with_metadata};

pub fn kind() -> Kind {
    let places = places! {
        "/spec/nodeName": ["node-1"] / ["Bad Node", ""],
        "/spec/activeDeadlineSeconds": [100, 50] / [0, -1, "x"],
        "/spec/containers/0/image": ["i:1", "i:2"] / ["", " i"],
        "/spec/containers": [
            [{"name": "c", "image": "i:1"}],
            [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
            [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}],
            [{"name": "c", "image": "i", "livenessProbe": {"tcpSocket": {"port": "web"}}}],
            [{"name": "c", "image": "i", "securityContext": {"runAsUser": 0, "privileged": true}}],
            [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}],
        ] / [
            [], [{"name": "c", "image": "i"}, {"name": "c", "image": "j"}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 70000}]}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "name": "x"}, {"containerPort": 81, "name": "x"}]}],
            [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "name": "Not-A-Name-At-All-Really"}]}],
            [{"name": "c", "image": "i", "env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}],
            [{"name": "c", "image": "i", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "nosuch"}}}]}],
            [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "-1"}}}],
            [{"name": "c", "image": "i", "resources": {"limits": {"nosuch": "1"}}}],
            [{"name": "c", "image": "i", "securityContext": {"runAsUser": -1}}],
            [{"name": "c", "image": "i", "terminationMessagePolicy": "Odd"}],
            [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": ""}]}],
        ],
        "/spec/initContainers": [[{"name": "init", "image": "i"}], []] / [[{"name": "c", "image": "i"}], [{}]],
        "/spec/tolerations": [
            [{"key": "k", "operator": "Exists"}],
            [{"key": "k", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}], [],
        ] / [
            [{"key": "k", "operator": "Odd"}], [{"operator": "Equal"}],
            [{"key": "k", "tolerationSeconds": 5}],
        ],
        "/spec/terminationGracePeriodSeconds": [5, 0, 1] / [-1, 1.5],
        "/spec/restartPolicy": ["Never", "OnFailure", "Always"] / ["Odd", ""],
        "/spec/dnsPolicy": ["Default", "ClusterFirst"] / ["None", "Odd"],
        "/spec/hostNetwork": [false, true] / ["x"],
        "/spec/priority": [0] / [5],
        "/spec/priorityClassName": ["system-node-critical"] / ["nosuch"],
        "/spec/nodeSelector": [{"disk": "ssd"}] / [{"bad key": "x"}],
        "/spec/schedulingGates": [[{"name": "example.com/gate"}], []]
            / [[{"name": ""}], [{"name": "a"}, {"name": "a"}]],
        "/spec/serviceAccountName": ["sa"] / ["Bad_"],
        "/spec/volumes": [[{"name": "v", "emptyDir": {}}], [{"name": "v", "secret": {"secretName": "s"}}]] / [
            [{"name": "v", "emptyDir": {"sizeLimit": "x"}}], [{"name": "v", "nosuch": {}}], [{"name": "V"}],
        ],
        "/spec/securityContext": [{"fsGroup": 5}, {}] / [{"fsGroup": -5}, {"runAsUser": "x"}],
        "/spec/affinity": [{}] / [
            {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}},
        ],
        "/spec/overhead": [] / [{"cpu": "1"}],
        "/spec/hostname": ["h"] / ["H_"],
        "/spec/readinessGates": [[{"conditionType": "example.com/x"}]] / [[{"conditionType": "bad x"}]],
        "/spec/nosuch": [] / [1, {}],
        "/spec": [] / [null, {}],
    };
    let directives = places! {
        "/spec/containers": [
            [{"name": "c", "image": "i:9"}], [{"name": "c", "$patch": "delete"}],
            [{"name": "c", "image": "i:8", "imagePullPolicy": "Always"}], [{"name": "x", "image": "x"}],
        ] / [[{"image": "x"}], [{"name": "c", "$patch": "odd"}]],
        "/spec/tolerations": [[{"key": "k2", "operator": "Exists"}]] / [[{"$patch": "delete"}]],
        "/metadata/ownerReferences": [[{"$patch": "delete", "uid": "$other-uid"}]] / [],
    };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let status = places! {
        "/status/phase": ["Running", "Succeeded", "Pending"] / ["Odd", "", 1],
        "/status/conditions": [
            [condition("Ready", "True")], [condition("Ready", "False"), condition("example.com/x", "True")],
            [],
        ] / [[{}], [condition("Ready", "Maybe")], [condition("Ready", "True"), condition("Ready", "False")]],
        "/status/podIP": ["10.1.2.3"] / ["x"],
        "/status/podIPs": [[{"ip": "10.1.2.3"}]] / [[{"ip": "10.1.2.3"}, {"ip": "10.1.2.4"}], [{"ip": "x"}]],
        "/status/hostIP": ["10.9.9.9"] / ["x"],
        "/status/nominatedNodeName": ["node-2"] / [""],
        "/status/observedGeneration": [1, 2] / [-1],
        "/status/qosClass": ["BestEffort"] / ["Guaranteed", "Odd"],
        "/status/message": ["m", ""] / [1],
        "/status/containerStatuses": [
            [{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "", "state": {"running": {"startedAt": "2001-01-01T00:00:00Z"}}}],
        ] / [[{"name": "c"}], [{}]],
    };
    Kind {
        root: "/api/v1",
        plural: "pods",
        api_version: "v1",
        title: "Pod",
        rest: json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        places: with_metadata(places),
        directives,
        status,
        has_scale: false,
    }
}
