//! Expected headings and cells are those of a real 1.36 server.

use super::*;

/// Shows one object, created ten minutes ago.
fn cells(group: &str, kind: &str, mut object: Value) -> Vec<Value> {
    object["metadata"]["name"] = json!("n");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let printer = Printer::of(group, kind);
    let cells = printer.cells(&object, "2026-01-01T00:10:00Z".parse().unwrap());
    assert_eq!(
        cells.len(),
        printer.definitions().as_array().unwrap().len(),
        "a cell for each column of {kind}"
    );
    cells
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "a", "image": "i/a:1"}, {"name": "b", "image": "i/b"}]}})
}

#[test]
fn headings() {
    for (group, kind, expected) in [
        (
            "",
            "Pod",
            "Name Ready Status Restarts Age IP+ Node+ Nominated-Node+ Readiness-Gates+",
        ),
        (
            "apps",
            "ReplicaSet",
            "Name Desired# Current# Ready# Age Containers+ Images+ Selector+",
        ),
        (
            "apps",
            "Deployment",
            "Name Ready Up-to-date Available Age Containers+ Images+ Selector+",
        ),
        (
            "",
            "Service",
            "Name Type Cluster-IP External-IP Port(s) Age Selector+",
        ),
        (
            "",
            "Node",
            "Name Status Roles Age Version Internal-IP+ External-IP+ OS-Image+ Kernel-Version+ Container-Runtime+",
        ),
        (
            "",
            "Event",
            "Last-Seen Type Reason Object Subobject+ Source+ Message First-Seen+ Count+ Name+",
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "Name Created-At@",
        ),
        ("ex.io", "Pod", "Name Created-At@"),
    ] {
        let definitions = Printer::of(group, kind).definitions();
        let names = definitions.as_array().unwrap().iter().map(|column| {
            let kind = match text(column, "/type") {
                "integer" => "#",
                "date" => "@",
                _ => "",
            };
            let wide = if column["priority"] == 1 { "+" } else { "" };
            format!("{}{kind}{wide}", text(column, "/name").replace(' ', "-"))
        });
        assert_eq!(names.collect::<Vec<_>>().join(" "), expected, "{kind}");
    }
}

#[test]
fn replicas() {
    let set = json!({
        "spec": {"replicas": 3, "selector": {"matchLabels": {"b": "y", "app": "x"}}, "template": template()},
        "status": {"replicas": 2, "readyReplicas": 1},
    });
    let expected = json!(["n", 3, 2, 1, "10m", "a,b", "i/a:1,i/b", "app=x,b=y"]);
    assert_eq!(json!(cells("apps", "ReplicaSet", set)), expected);

    let controller = json!({
        "spec": {"replicas": 3, "selector": {"app": "x"}, "template": template()},
        "status": {"replicas": 2, "readyReplicas": 1},
    });
    let expected = json!(["n", 3, 2, 1, "10m", "a,b", "i/a:1,i/b", "app=x"]);
    assert_eq!(json!(cells("", "ReplicationController", controller)), expected);

    let deployment = json!({
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template()},
        "status": {"updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1},
    });
    let expected = json!(["n", "1/3", 2, 1, "10m", "a,b", "i/a:1,i/b", "app=x"]);
    assert_eq!(json!(cells("apps", "Deployment", deployment.clone())), expected);

    let expected = json!(["n", "1/3", "10m", "a,b", "i/a:1,i/b"]);
    assert_eq!(json!(cells("apps", "StatefulSet", deployment)), expected);
}

#[test]
fn daemon_sets_and_revisions() {
    let mut template = template();
    template["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let set = json!({
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
        "status": {
            "desiredNumberScheduled": 5,
            "currentNumberScheduled": 4,
            "numberReady": 3,
            "updatedNumberScheduled": 2,
            "numberAvailable": 1,
        },
    });
    let expected = json!(["n", 5, 4, 3, 2, 1, "disk=ssd", "10m", "a,b", "i/a:1,i/b", "app=x"]);
    assert_eq!(json!(cells("apps", "DaemonSet", set)), expected);

    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true});
    let revision = json!({"metadata": {"ownerReferences": [owner]}, "revision": 7});
    assert_eq!(
        json!(cells("apps", "ControllerRevision", revision)),
        json!(["n", "statefulset.apps/web", 7, "10m"])
    );
    assert_eq!(
        cells("apps", "ControllerRevision", json!({"revision": 1}))[1],
        "<none>"
    );
}

#[test]
fn jobs() {
    let done = |kind: &str| json!([{"type": kind, "status": "True"}]);
    let start = "2026-01-01T00:05:00Z";
    for (spec, status, expected) in [
        (
            json!({"completions": 3}),
            json!({"succeeded": 1, "startTime": start}),
            ["Running", "1/3", "5m"],
        ),
        (json!({"parallelism": 4}), json!({}), ["Running", "0/1 of 4", ""]),
        (
            json!({"parallelism": 1}),
            json!({
                "succeeded": 1,
                "startTime": start,
                "completionTime": "2026-01-01T00:06:30Z",
                "conditions": done("Complete"),
            }),
            ["Complete", "1/1", "90s"],
        ),
        (
            json!({"completions": 1}),
            json!({"startTime": start, "conditions": done("Failed")}),
            ["Failed", "0/1", "5m"],
        ),
        (
            json!({"completions": 1}),
            json!({"conditions": done("Suspended")}),
            ["Suspended", "0/1", ""],
        ),
    ] {
        let cells = cells("batch", "Job", json!({"spec": spec, "status": status}));
        assert_eq!(cells[1..4], expected.map(Value::from));
    }
    let going =
        json!({"metadata": {"deletionTimestamp": start}, "status": {"conditions": done("Suspended")}});
    assert_eq!(cells("batch", "Job", going)[1], "Terminating");

    let cron = json!({
        "spec": {"schedule": "@daily", "suspend": true, "jobTemplate": {"spec": {"template": template()}}},
        "status": {"active": [{}], "lastScheduleTime": start},
    });
    let expected = json!([
        "n",
        "@daily",
        "<none>",
        "True",
        1,
        "5m",
        "10m",
        "a,b",
        "i/a:1,i/b",
        "<none>"
    ]);
    assert_eq!(json!(cells("batch", "CronJob", cron)), expected);
}

#[test]
fn services() {
    let balancer = json!({"ingress": [{"hostname": "lb.example.com"}, {"ip": "5.6.7.8"}]});
    for (spec, status, expected) in [
        (
            json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"]}),
            json!({}),
            ["10.0.0.1", "<none>", "<none>"],
        ),
        (
            json!({
                "type": "NodePort",
                "clusterIPs": ["10.0.0.1"],
                "externalIPs": ["1.2.3.4", "1.2.3.5"],
                "ports": [
                    {"port": 80, "nodePort": 30080, "protocol": "TCP"},
                    {"port": 53, "protocol": "UDP"},
                ],
            }),
            json!({}),
            ["10.0.0.1", "1.2.3.4,1.2.3.5", "80:30080/TCP,53/UDP"],
        ),
        (
            json!({"type": "LoadBalancer"}),
            json!({}),
            ["<none>", "<pending>", "<none>"],
        ),
        (
            json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}),
            json!({"loadBalancer": balancer}),
            ["<none>", "5.6.7.8,lb.example.com,9.9.9.9", "<none>"],
        ),
        (
            json!({"type": "ExternalName", "externalName": "ex.com"}),
            json!({}),
            ["<none>", "ex.com", "<none>"],
        ),
        (
            json!({"type": "ClusterIP", "clusterIPs": ["None"]}),
            json!({}),
            ["None", "<none>", "<none>"],
        ),
    ] {
        let cells = cells("", "Service", json!({"spec": spec, "status": status}));
        assert_eq!(cells[2..5], expected.map(Value::from));
    }
}

#[test]
fn nodes() {
    let node = json!({
        "metadata": {"labels": {
            "node-role.kubernetes.io/worker": "",
            "node-role.kubernetes.io/control-plane": "",
            "kubernetes.io/role": "extra",
        }},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64"},
            "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.9"}],
        },
    });
    let expected = json!([
        "n",
        "Ready,SchedulingDisabled",
        "control-plane,extra,worker",
        "10m",
        "v1.36.0",
        "10.0.0.9",
        "<none>",
        "<unknown>",
        "6.1 (amd64)",
        "<unknown>",
    ]);
    assert_eq!(json!(cells("", "Node", node)), expected);
    assert_eq!(
        cells("", "Node", json!({}))[1..3],
        ["Unknown", "<none>"].map(Value::from)
    );
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(cells("", "Node", lost)[1], "NotReady");
}

#[test]
fn events_of_both_groups() {
    let core = json!({
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
        "type": "Normal",
        "reason": "R",
        "message": " hi\n",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:09:00Z",
        "count": 9,
    });
    let expected = json!([
        "60s",
        "Normal",
        "R",
        "pod/p",
        "spec.containers{a}",
        "kubelet, n1",
        "hi",
        "10m",
        9,
        "n"
    ]);
    assert_eq!(json!(cells("", "Event", core)), expected);

    let mut new = json!({
        "regarding": {"kind": "ReplicaSet", "name": "r"},
        "type": "Normal",
        "reason": "Q",
        "note": "note",
        "reportingController": "ex.io/c",
        "reportingInstance": "c-1",
        "eventTime": "2026-01-01T00:05:00.000000Z",
        "deprecatedFirstTimestamp": null,
        "deprecatedLastTimestamp": null,
        "deprecatedSource": {},
    });
    let expected = json!([
        "5m",
        "Normal",
        "Q",
        "replicaset/r",
        "",
        "ex.io/c, c-1",
        "note",
        "5m",
        1,
        "n"
    ]);
    assert_eq!(json!(cells("events.k8s.io", "Event", new.clone())), expected);
    new["series"] = json!({"count": 4, "lastObservedTime": "2026-01-01T00:09:30.000000Z"});
    let series = cells("events.k8s.io", "Event", new);
    assert_eq!((&series[0], &series[8]), (&json!("30s"), &json!(4)));
}

#[test]
fn claims_and_quotas() {
    let bound = json!({
        "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "legacy"}},
        "spec": {"volumeName": "vol", "volumeMode": "Block", "storageClassName": "fast"},
        "status": {
            "phase": "Bound",
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        },
    });
    let expected = json!([
        "n", "Bound", "vol", "2Gi", "RWO,RWX", "legacy", "<unset>", "10m", "Block"
    ]);
    assert_eq!(json!(cells("", "PersistentVolumeClaim", bound)), expected);
    let open = json!({"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}});
    let expected = json!(["n", "Pending", "", "", "", "fast", "<unset>", "10m", "<unset>"]);
    assert_eq!(json!(cells("", "PersistentVolumeClaim", open)), expected);

    let quota = json!({"status": {
        "hard": {"pods": "4", "limits.cpu": "5", "requests.cpu": "4", "count/jobs.batch": "9"},
        "used": {"pods": "1", "requests.cpu": "500m", "count/jobs.batch": "2"},
    }});
    let expected = json!([
        "n",
        "count/jobs.batch: 2/9, pods: 1/4, requests.cpu: 500m/4",
        "limits.cpu: 0/5",
        "10m"
    ]);
    assert_eq!(json!(cells("", "ResourceQuota", quota)), expected);
}

#[test]
fn small_kinds() {
    let subjects = json!([
        {"kind": "User", "name": "u"},
        {"kind": "User", "name": "v"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "x"},
    ]);
    for (group, kind, object, expected) in [
        (
            "",
            "Namespace",
            json!({"status": {"phase": "Active"}}),
            json!(["n", "Active", "10m"]),
        ),
        (
            "",
            "ConfigMap",
            json!({"data": {"a": ""}, "binaryData": {"b": ""}}),
            json!(["n", 2, "10m"]),
        ),
        (
            "",
            "Secret",
            json!({"type": "Opaque", "data": {"a": ""}}),
            json!(["n", "Opaque", 1, "10m"]),
        ),
        ("", "ServiceAccount", json!({}), json!(["n", "10m"])),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"holderIdentity": "me"}}),
            json!(["n", "me", "10m"]),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
            json!(["n", "50%", "N/A", 2, "10m"]),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"maxUnavailable": 1}}),
            json!(["n", "N/A", "1", 0, "10m"]),
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}}}),
            json!(["n", "<none>", "10m"]),
        ),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            json!({"value": 5, "preemptionPolicy": "Never"}),
            json!(["n", 5, false, "10m", "Never"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRoleBinding",
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}),
            json!(["n", "ClusterRole/r", "10m", "u, v", "g", "x/s"]),
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            json!({"webhooks": [{}]}),
            json!(["n", 1, "10m"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "Role",
            json!({}),
            json!(["n", "2026-01-01T00:00:00Z"]),
        ),
    ] {
        assert_eq!(json!(cells(group, kind, object)), expected, "{kind}");
    }
}
