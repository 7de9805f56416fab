//! Tests of table cells. A 1.36 API server printed the expected cells.

use serde_json::json;

use super::*;

/// Group and kind, the object without name and creation time, and its cells. The object is ten minutes old.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str)] = &[
    ("/ConfigMap", r#"{"data": {"a": ""}, "binaryData": {"b": ""}}"#, r#"["n", 2, "10m"]"#),
    ("/Event", r#"{"involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "f"}, "type": "Normal", "reason": "R", "message": " hi\n",
        "source": {"component": "kubelet", "host": "n1"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:09:00Z", "count": 9}"#,
        r#"["60s", "Normal", "R", "pod/p", "f", "kubelet, n1", "hi", "10m", 9, "n"]"#),
    ("events.k8s.io/Event", r#"{"regarding": {"kind": "ReplicaSet", "name": "r"}, "note": "x", "reportingController": "c", "reportingInstance": "i",
        "eventTime": "2026-01-01T00:05:00.000000Z", "series": {"count": 4, "lastObservedTime": "2026-01-01T00:09:30.000000Z"}}"#,
        r#"["30s", "", "", "replicaset/r", "", "c, i", "x", "5m", 4, "n"]"#),
    ("/Namespace", r#"{"status": {"phase": "Active"}}"#, r#"["n", "Active", "10m"]"#),
    ("/Node", r#"{"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "extra"}}, "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
        "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64"}}}"#,
        r#"["n", "Ready,SchedulingDisabled", "extra,worker", "10m", "v1.36.0", "10.0.0.9", "<none>", "<unknown>", "6.1 (amd64)", "<unknown>"]"#),
    ("/PersistentVolumeClaim", r#"{"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "legacy"}},
        "spec": {"volumeName": "vol", "volumeMode": "Block"}, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}}"#,
        r#"["n", "Bound", "vol", "2Gi", "RWO,RWX", "legacy", "<unset>", "10m", "Block"]"#),
    ("/PersistentVolumeClaim", r#"{"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}"#,
        r#"["n", "Pending", "", "", "", "fast", "<unset>", "10m", "<unset>"]"#),
    ("/ReplicationController", r#"{"spec": {"replicas": 3, "selector": {"app": "x"}, "template": TEMPLATE}, "status": {"replicas": 2, "readyReplicas": 1}}"#,
        r#"["n", 3, 2, 1, "10m", "a,b", "i/a:1,i/b", "app=x"]"#),
    ("/ResourceQuota", r#"{"status": {"hard": {"pods": "4", "limits.cpu": "5", "count/jobs.batch": "9"}, "used": {"pods": "1", "count/jobs.batch": "2"}}}"#,
        r#"["n", "count/jobs.batch: 2/9, pods: 1/4", "limits.cpu: 0/5", "10m"]"#),
    ("/Secret", r#"{"type": "Opaque", "data": {"a": ""}}"#, r#"["n", "Opaque", 1, "10m"]"#),
    ("/Service", r#"{"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "externalIPs": ["1.2.3.4"],
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}"#,
        r#"["n", "NodePort", "10.0.0.1", "1.2.3.4", "80:30080/TCP,53/UDP", "10m", "<none>"]"#),
    ("/Service", r#"{"spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}, "status": {"loadBalancer": {"ingress": [{"hostname": "lb"}, {"ip": "5.6.7.8"}]}}}"#,
        r#"["n", "LoadBalancer", "<none>", "5.6.7.8,lb,9.9.9.9", "<none>", "10m", "<none>"]"#),
    ("apps/ControllerRevision", r#"{"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]}, "revision": 7}"#,
        r#"["n", "statefulset.apps/web", 7, "10m"]"#),
    ("apps/DaemonSet", r#"{"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}, "status": {"desiredNumberScheduled": 5,
        "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}"#,
        r#"["n", 5, 4, 3, 2, 1, "disk=ssd", "10m", "a,b", "i/a:1,i/b", "app=x"]"#),
    ("apps/Deployment", r#"{"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
        "status": {"updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}}"#,
        r#"["n", "1/3", 2, 1, "10m", "a,b", "i/a:1,i/b", "app=x"]"#),
    ("batch/CronJob", r#"{"spec": {"schedule": "@daily", "suspend": true, "jobTemplate": {"spec": {"template": TEMPLATE}}},
        "status": {"active": [{}], "lastScheduleTime": "2026-01-01T00:05:00Z"}}"#,
        r#"["n", "@daily", "<none>", "True", 1, "5m", "10m", "a,b", "i/a:1,i/b", "<none>"]"#),
    ("batch/Job", r#"{"spec": {"parallelism": 4, "template": TEMPLATE}, "status": {"startTime": "2026-01-01T00:05:00Z",
        "completionTime": "2026-01-01T00:06:30Z", "conditions": [{"type": "Complete", "status": "True"}]}}"#,
        r#"["n", "Complete", "0/1 of 4", "90s", "10m", "a,b", "i/a:1,i/b", "<none>"]"#),
    ("batch/Job", r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:05:00Z"}, "status": {"conditions": [{"type": "Suspended", "status": "True"}]}}"#,
        r#"["n", "Terminating", "0/1", "", "10m", "", "", "<none>"]"#),
    ("coordination.k8s.io/Lease", r#"{"spec": {"holderIdentity": "me"}}"#, r#"["n", "me", "10m"]"#),
    ("networking.k8s.io/NetworkPolicy", r#"{"spec": {"podSelector": {}}}"#, r#"["n", "<none>", "10m"]"#),
    ("policy/PodDisruptionBudget", r#"{"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}"#, r#"["n", "50%", "N/A", 2, "10m"]"#),
    ("rbac.authorization.k8s.io/ClusterRoleBinding", r#"{"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
        {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "x"}]}"#,
        r#"["n", "ClusterRole/r", "10m", "u, v", "g", "x/s"]"#),
    ("rbac.authorization.k8s.io/Role", "{}", r#"["n", "2026-01-01T00:00:00Z"]"#),
    ("scheduling.k8s.io/PriorityClass", r#"{"value": 5, "preemptionPolicy": "Never"}"#, r#"["n", 5, false, "10m", "Never"]"#),
];
const TEMPLATE: &str = r#"{"spec": {"containers": [{"name": "a", "image": "i/a:1"}, {"name": "b", "image": "i/b"}], "nodeSelector": {"disk": "ssd"}}}"#;

fn cells(group: &str, kind: &str, object: &str) -> Vec<Value> {
    let mut object: Value = serde_json::from_str(&object.replace("TEMPLATE", TEMPLATE)).expect("JSON");
    object["metadata"]["name"] = json!("n");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    Printer::of(group, kind).cells(&object, "2026-01-01T00:10:00Z".parse().expect("a time"))
}

#[test]
fn cells_match_api_server() {
    for (kind, object, expected) in CASES {
        let (group, name) = kind.split_once('/').expect("group/kind");
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        assert_eq!(json!(cells(group, name, object)), expected, "{kind}");
    }
}

/// The status of a pod with the containers a and b, then its cells Ready, Status and Restarts.
#[rustfmt::skip]
const PODS: &[(&str, [&str; 3])] = &[
    (r#"{"phase": "Failed", "reason": "Evicted"}"#, ["0/2", "Evicted", "0"]),
    (r#"{"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}"#, ["0/2", "SchedulingGated", "0"]),
    (r#"{"phase": "Running", "containerStatuses": [RUNNING, {"restartCount": 3, "ready": true, "state": {"running": {}}, "lastState": ENDED}]}"#,
        ["2/2", "Running", "3 (5m ago)"]),
    (r#"{"phase": "Running", "containerStatuses": [RUNNING, {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}"#, ["1/2", "CrashLoopBackOff", "0"]),
    (r#"{"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}"#, ["0/2", "ExitCode:3", "0"]),
    (r#"{"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 0, "signal": 9}}}]}"#, ["0/2", "Signal:9", "0"]),
    (r#"{"phase": "Running", "containerStatuses": [{"state": ENDED}, RUNNING]}"#, ["1/2", "NotReady", "0"]),
    (r#"{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"state": ENDED}, RUNNING]}"#, ["1/2", "Running", "0"]),
    (r#"{"phase": "Running", "containerStatuses": [{"state": ENDED}, {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}"#, ["0/2", "Error", "0"]),
    (r#"{"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]}"#, ["0/2", "Init:0/1", "0"]),
    (r#"{"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 2, "reason": "Error"}}, "lastState": ENDED}]}"#,
        ["0/2", "Init:Error", "4 (5m ago)"]),
];

#[test]
fn pod_status_summarizes_containers() {
    for (status, expected) in PODS {
        let ended =
            r#"{"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:05:00Z"}}"#;
        let status = status
            .replace("RUNNING", r#"{"ready": true, "state": {"running": {}}}"#)
            .replace("ENDED", ended);
        let spec = r#"{"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}"#;
        let cells = cells("", "Pod", &format!(r#"{{"spec": {spec}, "status": {status}}}"#));
        assert_eq!(cells.get(1..4), Some(&expected.map(Value::from)[..]), "{status}");
    }
}

#[test]
fn sidecars_count_as_containers() {
    let pod = r#"{"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]}, "status": {"phase": "Running",
        "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}}],
        "containerStatuses": [{"name": "a", "ready": true, "restartCount": 1, "state": {"running": {}}}]}}"#;
    let cells = cells("", "Pod", pod);
    assert_eq!(
        cells.get(1..4),
        Some(&["2/2", "Running", "3"].map(Value::from)[..])
    );
}
