//! An object whose spec hardly changes, and whose deletion waits for its node.

use serde_json::json;

use super::{Kind, place, with_metadata};

pub fn kind() -> Kind {
    let places = vec![
        place("/spec/nodeName", json!(["node-1"]), json!(["Bad Node", ""])),
        place(
            "/spec/activeDeadlineSeconds",
            json!([100, 50]),
            json!([0, -1, "x"]),
        ),
        place(
            "/spec/containers/0/image",
            json!(["i:1", "i:2"]),
            json!(["", " i"]),
        ),
        place(
            "/spec/containers",
            json!([
                [{"name": "c", "image": "i:1"}],
                [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
                [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
                [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}],
                [{"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}],
                [{"name": "c", "image": "i", "livenessProbe": {"tcpSocket": {"port": "web"}}}],
                [{"name": "c", "image": "i", "securityContext": {"runAsUser": 0, "privileged": true}}],
                [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}],
            ]),
            json!([
                [],
                [{"name": "c", "image": "i"}, {"name": "c", "image": "j"}],
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
            ]),
        ),
        place(
            "/spec/initContainers",
            json!([[{"name": "init", "image": "i"}], []]),
            json!([[{"name": "c", "image": "i"}], [{}]]),
        ),
        place(
            "/spec/tolerations",
            json!([[{"key": "k", "operator": "Exists"}], [{"key": "k", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}], []]),
            json!([[{"key": "k", "operator": "Odd"}], [{"operator": "Equal"}], [{"key": "k", "tolerationSeconds": 5}]]),
        ),
        place(
            "/spec/terminationGracePeriodSeconds",
            json!([5, 0, 1]),
            json!([-1, 1.5]),
        ),
        place(
            "/spec/restartPolicy",
            json!(["Never", "OnFailure", "Always"]),
            json!(["Odd", ""]),
        ),
        place(
            "/spec/dnsPolicy",
            json!(["Default", "ClusterFirst"]),
            json!(["None", "Odd"]),
        ),
        place("/spec/hostNetwork", json!([false, true]), json!(["x"])),
        place("/spec/priority", json!([0]), json!([5])),
        place(
            "/spec/priorityClassName",
            json!(["system-node-critical"]),
            json!(["nosuch"]),
        ),
        place(
            "/spec/nodeSelector",
            json!([{"disk": "ssd"}]),
            json!([{"bad key": "x"}]),
        ),
        place(
            "/spec/schedulingGates",
            json!([[{"name": "example.com/gate"}], []]),
            json!([[{"name": ""}], [{"name": "a"}, {"name": "a"}]]),
        ),
        place("/spec/serviceAccountName", json!(["sa"]), json!(["Bad_"])),
        place(
            "/spec/volumes",
            json!([[{"name": "v", "emptyDir": {}}], [{"name": "v", "secret": {"secretName": "s"}}]]),
            json!([[{"name": "v", "emptyDir": {"sizeLimit": "x"}}], [{"name": "v", "nosuch": {}}], [{"name": "V"}]]),
        ),
        place(
            "/spec/securityContext",
            json!([{"fsGroup": 5}, {}]),
            json!([{"fsGroup": -5}, {"runAsUser": "x"}]),
        ),
        place(
            "/spec/affinity",
            json!([{}]),
            json!([{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}}]),
        ),
        place("/spec/overhead", json!([]), json!([{"cpu": "1"}])),
        place("/spec/hostname", json!(["h"]), json!(["H_"])),
        place(
            "/spec/readinessGates",
            json!([[{"conditionType": "example.com/x"}]]),
            json!([[{"conditionType": "bad x"}]]),
        ),
        place("/spec/nosuch", json!([]), json!([1, {}])),
        place("/spec", json!([]), json!([null, {}])),
    ];
    let directives = vec![
        place(
            "/spec/containers",
            json!([
                [{"name": "c", "image": "i:9"}],
                [{"name": "c", "$patch": "delete"}],
                [{"name": "c", "image": "i:8", "imagePullPolicy": "Always"}],
                [{"name": "x", "image": "x"}],
            ]),
            json!([[{"image": "x"}], [{"name": "c", "$patch": "odd"}]]),
        ),
        place(
            "/spec/tolerations",
            json!([[{"key": "k2", "operator": "Exists"}]]),
            json!([[{"$patch": "delete"}]]),
        ),
        place(
            "/metadata/ownerReferences",
            json!([[{"$patch": "delete", "uid": "$other-uid"}]]),
            json!([]),
        ),
    ];
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let status = vec![
        place(
            "/status/phase",
            json!(["Running", "Succeeded", "Pending"]),
            json!(["Odd", "", 1]),
        ),
        place(
            "/status/conditions",
            json!([
                [condition("Ready", "True")],
                [condition("Ready", "False"), condition("example.com/x", "True")],
                []
            ]),
            json!([
                [{}],
                [condition("Ready", "Maybe")],
                [condition("Ready", "True"), condition("Ready", "False")]
            ]),
        ),
        place("/status/podIP", json!(["10.1.2.3"]), json!(["x"])),
        place(
            "/status/podIPs",
            json!([[{"ip": "10.1.2.3"}]]),
            json!([[{"ip": "10.1.2.3"}, {"ip": "10.1.2.4"}], [{"ip": "x"}]]),
        ),
        place("/status/hostIP", json!(["10.9.9.9"]), json!(["x"])),
        place("/status/nominatedNodeName", json!(["node-2"]), json!([""])),
        place("/status/observedGeneration", json!([1, 2]), json!([-1])),
        place(
            "/status/qosClass",
            json!(["BestEffort"]),
            json!(["Guaranteed", "Odd"]),
        ),
        place("/status/message", json!(["m", ""]), json!([1])),
        place(
            "/status/containerStatuses",
            json!([[{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "", "state": {"running": {"startedAt": "2001-01-01T00:00:00Z"}}}]]),
            json!([[{"name": "c"}], [{}]]),
        ),
    ];
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
