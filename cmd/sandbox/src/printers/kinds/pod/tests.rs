//! Expected words are those of a real 1.36 server.

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// A pod of two containers with a status and further fields of the spec.
fn pod(status: &Value, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        "status": status,
    });
    if let (Some(all), Value::Object(more)) = (pod["spec"].as_object_mut(), spec) {
        all.extend(more);
    }
    pod
}

fn status(name: &str, state: &Value) -> Value {
    json!({"name": name, "state": state})
}

fn running(name: &str, ready: bool) -> Value {
    json!({"name": name, "ready": ready, "started": true, "state": {"running": {}}})
}

/// The same, restarted a number of times, the last time a number of minutes ago.
fn restarted(mut status: Value, count: i64, minutes: i64) -> Value {
    status["restartCount"] = json!(count);
    status["lastState"] =
        json!({"terminated": {"finishedAt": format!("2026-01-01T00:{:02}:00Z", 10 - minutes)}});
    status
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason}})
}

fn ended(code: i64, reason: &str, signal: i64) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "signal": signal}})
}

/// The cells Ready, Status and Restarts.
fn shown(pod: &Value) -> [String; 3] {
    let cells = cells(pod, now());
    [1, 2, 3].map(|index| cells[index].as_str().unwrap().to_owned())
}

#[test]
fn containers() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    for (what, status, expected) in [
        ("pending", json!({"phase": "Pending"}), ["0/2", "Pending", "0"]),
        (
            "evicted",
            json!({"phase": "Failed", "reason": "Evicted"}),
            ["0/2", "Evicted", "0"],
        ),
        (
            "gated",
            json!({
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            }),
            ["0/2", "SchedulingGated", "0"],
        ),
        (
            "running, one container restarted",
            json!({
                "phase": "Running",
                "containerStatuses": [running("a", true), restarted(running("b", true), 3, 5)],
            }),
            ["2/2", "Running", "3 (5m ago)"],
        ),
        (
            "restarted, but nobody knows when",
            json!({
                "phase": "Running",
                "containerStatuses": [{"name": "a", "restartCount": 5, "ready": true, "state": {"running": {}}}],
            }),
            ["1/2", "Running", "5"],
        ),
        (
            "crashing",
            json!({
                "phase": "Running",
                "containerStatuses": [
                    running("a", true),
                    restarted(status("b", &waiting("CrashLoopBackOff")), 7, 2),
                ],
            }),
            ["1/2", "CrashLoopBackOff", "7 (2m ago)"],
        ),
        (
            "the first container has the last word",
            json!({
                "phase": "Pending",
                "containerStatuses": [
                    status("a", &waiting("ContainerCreating")),
                    status("b", &waiting("ImagePullBackOff")),
                ],
            }),
            ["0/2", "ContainerCreating", "0"],
        ),
        (
            "completed",
            json!({
                "phase": "Succeeded",
                "containerStatuses": [
                    status("a", &ended(0, "Completed", 0)),
                    status("b", &ended(0, "Completed", 0)),
                ],
            }),
            ["0/2", "Completed", "0"],
        ),
        (
            "ended without a reason",
            json!({"phase": "Failed", "containerStatuses": [status("a", &ended(3, "", 0))]}),
            ["0/2", "ExitCode:3", "0"],
        ),
        (
            "ended by a signal",
            json!({"phase": "Failed", "containerStatuses": [status("a", &ended(0, "", 9))]}),
            ["0/2", "Signal:9", "0"],
        ),
        (
            "one completed, the pod still ready",
            json!({
                "phase": "Running",
                "conditions": ready,
                "containerStatuses": [status("a", &ended(0, "Completed", 0)), running("b", true)],
            }),
            ["1/2", "Running", "0"],
        ),
        (
            "one completed, the pod not ready",
            json!({
                "phase": "Running",
                "containerStatuses": [status("a", &ended(0, "Completed", 0)), running("b", true)],
            }),
            ["1/2", "NotReady", "0"],
        ),
        (
            "one completed, the other failed",
            json!({
                "phase": "Running",
                "containerStatuses": [
                    status("a", &ended(0, "Completed", 0)),
                    status("b", &ended(1, "Error", 0)),
                ],
            }),
            ["0/2", "Error", "0"],
        ),
    ] {
        assert_eq!(shown(&pod(&status, json!({}))), expected, "{what}");
    }
}

#[test]
fn init_containers() {
    let spec = json!({"initContainers": [{"name": "i"}, {"name": "j"}]});
    let main = json!([
        status("a", &waiting("PodInitializing")),
        status("b", &waiting("PodInitializing"))
    ]);
    for (what, init, expected) in [
        (
            "first at work",
            json!([running("i", false)]),
            ["0/2", "Init:0/2", "0"],
        ),
        (
            "second at work",
            json!([
                status("i", &ended(0, "Completed", 0)),
                status("j", &waiting("PodInitializing"))
            ]),
            ["0/2", "Init:1/2", "0"],
        ),
        (
            "failed",
            json!([restarted(status("i", &ended(2, "Error", 0)), 4, 1)]),
            ["0/2", "Init:Error", "4 (60s ago)"],
        ),
        (
            "failed with a code",
            json!([status("i", &ended(2, "", 0))]),
            ["0/2", "Init:ExitCode:2", "0"],
        ),
        (
            "failed by a signal",
            json!([status("i", &ended(2, "", 15))]),
            ["0/2", "Init:Signal:15", "0"],
        ),
        (
            "crashing",
            json!([restarted(status("i", &waiting("CrashLoopBackOff")), 2, 3)]),
            ["0/2", "Init:CrashLoopBackOff", "2 (3m ago)"],
        ),
    ] {
        let status = json!({"phase": "Pending", "initContainerStatuses": init, "containerStatuses": main});
        assert_eq!(shown(&pod(&status, spec.clone())), expected, "{what}");
    }
}

#[test]
fn sidecars_count_as_containers_and_so_do_their_restarts() {
    let spec = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]});
    let running_all = json!({
        "phase": "Running",
        "conditions": [{"type": "Initialized", "status": "True"}],
        "initContainerStatuses": [
            restarted(running("s", true), 2, 3),
            restarted(status("i", &ended(0, "Completed", 0)), 5, 1),
        ],
        "containerStatuses": [restarted(running("a", true), 1, 8), running("b", false)],
    });
    assert_eq!(
        shown(&pod(&running_all, spec.clone())),
        ["2/3", "Running", "3 (3m ago)"]
    );

    let mut starting = restarted(running("s", false), 1, 2);
    starting["started"] = json!(false);
    let starting = json!({"phase": "Pending", "initContainerStatuses": [starting]});
    assert_eq!(
        shown(&pod(&starting, spec.clone())),
        ["0/3", "Init:0/2", "1 (2m ago)"]
    );

    // Initialized, and the sidecar down again: its trouble shows, and all restarts count.
    let down = json!({
        "phase": "Running",
        "conditions": [{"type": "Initialized", "status": "True"}],
        "initContainerStatuses": [restarted(status("s", &waiting("CrashLoopBackOff")), 4, 2)],
        "containerStatuses": [restarted(running("a", true), 1, 8), running("b", true)],
    });
    assert_eq!(
        shown(&pod(&down, spec)),
        ["2/3", "Init:CrashLoopBackOff", "5 (2m ago)"]
    );
}

#[test]
fn deletion_hides_all_but_the_end() {
    for (status, expected) in [
        (json!({"phase": "Running"}), "Terminating"),
        (json!({"phase": "Running", "reason": "NodeLost"}), "Unknown"),
        (json!({"phase": "Succeeded"}), "Succeeded"),
    ] {
        let mut pod = pod(&status, json!({}));
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:09:00Z");
        assert_eq!(shown(&pod)[1], expected);
    }
}

#[test]
fn wide_columns() {
    let status = json!({
        "podIPs": [{"ip": "10.1.2.3"}],
        "nominatedNodeName": "n9",
        "conditions": [{"type": "x/a", "status": "True"}, {"type": "x/b", "status": "False"}],
    });
    let gates = json!([{"conditionType": "x/a"}, {"conditionType": "x/b"}, {"conditionType": "x/c"}]);
    let pod = pod(&status, json!({"nodeName": "n1", "readinessGates": gates}));
    assert_eq!(
        cells(&pod, now())[4..],
        ["10m", "10.1.2.3", "n1", "n9", "1/3"].map(Value::from)
    );
}

#[test]
fn rows_of_finished_pods_are_marked() {
    let reason =
        |phase: &str| conditions(&json!({"status": {"phase": phase}})).map(|all| all[0]["reason"].clone());
    assert_eq!(reason("Succeeded"), Some(json!("Succeeded")));
    assert_eq!(reason("Failed"), Some(json!("Failed")));
    assert_eq!(reason("Running"), None);
}
