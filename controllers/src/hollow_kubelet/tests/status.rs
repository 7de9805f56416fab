//! The status of started pods.

use super::*;

#[test]
fn started_pod_is_running_and_ready() {
    let pod = pod(&json!({}));
    let PodStep::Status(patch) = planned(&pod) else {
        panic!("no status")
    };
    assert_eq!(patch["metadata"], json!({"uid": "u", "resourceVersion": "300"}));
    let status = &patch["status"];
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["startTime"], ago(0));
    assert_eq!(status["hostIP"], "10.0.0.9");
    assert_eq!(status["podIP"], "10.1.1.47");
    assert_eq!(status["podIPs"], json!([{"ip": "10.1.1.47"}]));
    assert_eq!(
        conditions(status),
        [
            "PodScheduled: True (-)",
            "Initialized: True (-)",
            "ContainersReady: True (-)",
            "Ready: True (-)"
        ]
    );
    assert!(
        status["conditions"]
            .as_array()
            .expect("some")
            .iter()
            .all(|it| it["lastTransitionTime"] == ago(0))
    );
    assert_eq!(containers(status, "containerStatuses"), ["main: running, ready"]);
    assert_eq!(
        status["containerStatuses"][0]["state"]["running"]["startedAt"],
        ago(0)
    );
    assert_eq!(status.get("initContainerStatuses"), None);
}

#[test]
fn container_states_match_the_table() {
    let c = |name: &str, image: &str| json!({"name": name, "image": image});
    let sidecar = |name: &str, image: &str| json!({"name": name, "image": image, "restartPolicy": "Always"});
    let (ready, pulling) = (": running, ready", ": waiting ImagePullBackOff");
    let (done, later) = (": terminated Completed, ready", ": waiting PodInitializing");
    let table = [
        (
            json!([]),
            json!([c("a", "x"), c("b", "localhost:404/y")]),
            "Running",
            vec![],
            vec![("a", ready), ("b", ready)],
        ),
        (
            json!([]),
            json!([c("a", "x:404")]),
            "Pending",
            vec![],
            vec![("a", pulling)],
        ),
        (
            json!([]),
            json!([c("a", "x"), c("b", "localhost:5000/y:nonexistent")]),
            "Pending",
            vec![],
            vec![("a", ready), ("b", pulling)],
        ),
        (
            json!([c("i", "x"), sidecar("s", "x")]),
            json!([c("a", "x")]),
            "Running",
            vec![("i", done), ("s", ready)],
            vec![("a", ready)],
        ),
        (
            json!([c("i", "x"), c("j", "x:404"), sidecar("s", "x"), c("k", "x:404")]),
            json!([c("a", "x"), c("b", "x:404")]),
            "Pending",
            vec![("i", done), ("j", pulling), ("s", later), ("k", later)],
            vec![("a", later), ("b", later)],
        ),
        (
            json!([c("i", "x")]),
            json!([c("a", "x:404")]),
            "Pending",
            vec![("i", done)],
            vec![("a", pulling)],
        ),
        (json!(null), json!(null), "Running", vec![], vec![]),
    ];
    let write = |list: &[(&str, &str)]| -> Vec<String> {
        list.iter()
            .map(|(name, state)| format!("{name}{state}"))
            .collect()
    };
    for (inits, mains, phase, init_states, states) in table {
        let pod = pod(&json!({"spec": {"initContainers": inits, "containers": mains}}));
        let status = status(&pod);
        assert_eq!(status["phase"], phase, "{pod:?}");
        assert_eq!(containers(&status, "initContainerStatuses"), write(&init_states));
        assert_eq!(containers(&status, "containerStatuses"), write(&states));
        let is = |held: bool, reason: &str| {
            if held {
                "True (-)".to_owned()
            } else {
                format!("False ({reason})")
            }
        };
        let initialized = !init_states.iter().any(|it| it.1.contains("waiting"));
        let all = states.iter().all(|it| it.1 == ready);
        assert_eq!(
            conditions(&status),
            [
                "PodScheduled: True (-)".to_owned(),
                format!("Initialized: {}", is(initialized, "ContainersNotInitialized")),
                format!("ContainersReady: {}", is(all, "ContainersNotReady")),
                format!("Ready: {}", is(all, "ContainersNotReady")),
            ]
        );
    }
}

#[test]
fn pod_with_fail_annotation_fails() {
    let fails = |value: &str| {
        json!({"metadata": {"annotations": {FAIL: value}},
        "spec": {"initContainers": [{"name": "i", "image": "x"},
                                    {"name": "s", "image": "x", "restartPolicy": "Always"}]}})
    };
    let failed = status(&pod(&fails("true")));
    assert_eq!(failed["phase"], "Failed");
    assert_eq!(
        containers(&failed, "containerStatuses"),
        ["main: terminated Error"]
    );
    assert_eq!(
        containers(&failed, "initContainerStatuses"),
        ["i: terminated Completed, ready", "s: terminated Error"]
    );
    assert_eq!(
        failed["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        1
    );
    assert_eq!(
        conditions(&failed),
        [
            "PodScheduled: True (-)",
            "Initialized: True (-)",
            "ContainersReady: False (PodFailed)",
            "Ready: False (PodFailed)"
        ]
    );
    for other in ["false", "", "True", "1"] {
        assert_eq!(status(&pod(&fails(other)))["phase"], "Running", "{other}");
    }
}

#[test]
fn unmet_readiness_gate_keeps_pod_unready() {
    let gate = |conditions: Value| json!({"spec": {"readinessGates": [{"conditionType": "lb"}]}, "status": {"conditions": conditions}});
    let shut = status(&pod(&gate(json!([{"type": "lb", "status": "False"}]))));
    assert_eq!(shut["phase"], "Running");
    assert_eq!(
        conditions(&shut)[2..],
        [
            "ContainersReady: True (-)",
            "Ready: False (ReadinessGatesNotReady)"
        ]
    );
    let open = status(&pod(&gate(json!([{"type": "lb", "status": "True"}]))));
    assert_eq!(conditions(&open)[3], "Ready: True (-)");
    assert_eq!(
        open["conditions"].as_array().map(Vec::len),
        Some(4),
        "the gate's condition is not ours to write"
    );
}

#[test]
fn pod_addresses_are_unique_and_host_network_uses_the_node_address() {
    let free = plan::pod(
        &pod(&json!({})),
        &cluster_nodes(),
        |it| it == Ipv4Addr::new(10, 1, 1, 47),
        &at_once(),
        now(),
    );
    let PodStep::Status(patch) = free else {
        panic!("no status")
    };
    assert_eq!(patch["status"]["podIP"], "10.1.1.48");
    let host = status(&pod(&json!({"spec": {"hostNetwork": true}})));
    assert_eq!(
        (&host["podIP"], &host["hostIP"]),
        (&json!("10.0.0.9"), &json!("10.0.0.9"))
    );
    let kept = status(&pod(
        &json!({"status": {"podIP": "10.7.7.7", "hostIP": "10.0.0.3"}}),
    ));
    assert_eq!(
        (&kept["podIP"], &kept["hostIP"]),
        (&json!("10.7.7.7"), &json!("10.0.0.3"))
    );
    let bare = Nodes::of([&node(
        json!({"metadata": {"name": "ours", "labels": {LABEL: "true"}}}),
    )]);
    let step = plan::pod(
        &pod(&json!({"spec": {"hostNetwork": true}})),
        &bare,
        |_| false,
        &at_once(),
        now(),
    );
    let PodStep::Status(patch) = step else {
        panic!("no status")
    };
    assert_eq!(patch["status"].get("podIP"), None, "there is no address to have");
}

#[test]
fn unchanged_status_is_not_written_and_drift_is_corrected() {
    let inits = json!({"spec": {"initContainers": [{"name": "i", "image": "x"}]}});
    let mut written = inits.clone();
    merge(&mut written, &json!({"status": status(&pod(&inits))}));
    let with = |more: &Value| {
        let mut all = written.clone();
        merge(&mut all, more);
        pod(&all)
    };
    let later = Timestamp::from_second(NOW + 100).expect("a time");
    let plan = |pod: &Pod| plan::pod(pod, &cluster_nodes(), |_| true, &at_once(), later);
    assert_eq!(plan(&with(&json!({}))), PodStep::Nothing);
    assert_eq!(
        plan(&with(&json!({"metadata": {"resourceVersion": "999"}}))),
        PodStep::Nothing
    );

    // A missing image: only changed conditions get a new transition time.
    let PodStep::Status(patch) = plan(&with(
        &json!({"spec": {"containers": [{"name": "main", "image": "app:404"}]}}),
    )) else {
        panic!("no status")
    };
    let status = &patch["status"];
    assert_eq!(
        containers(status, "containerStatuses"),
        ["main: waiting ImagePullBackOff"]
    );
    let times: Vec<&Value> = status["conditions"]
        .as_array()
        .expect("some")
        .iter()
        .map(|it| &it["lastTransitionTime"])
        .collect();
    assert_eq!(
        times,
        [
            &json!(ago(0)),
            &json!(ago(0)),
            &json!(ago(-100)),
            &json!(ago(-100))
        ]
    );
    assert_eq!(status["startTime"], ago(0));
    assert_eq!(
        status["initContainerStatuses"],
        written["status"]["initContainerStatuses"]
    );
    assert_eq!(status["podIP"], written["status"]["podIP"]);

    // Another client has set Ready to False.
    let mut unready = written["status"]["conditions"].clone();
    unready[3]["status"] = json!("False");
    assert!(matches!(
        plan(&with(&json!({"status": {"conditions": unready}}))),
        PodStep::Status(_)
    ));
    // Restart counts of other clients are kept.
    let mut restarted = written["status"]["containerStatuses"].clone();
    restarted[0]["restartCount"] = json!(3);
    assert_eq!(
        plan(&with(&json!({"status": {"containerStatuses": restarted}}))),
        PodStep::Nothing
    );
    // The pod is annotated to fail.
    let PodStep::Status(patch) = plan(&with(&json!({"metadata": {"annotations": {FAIL: "true"}}}))) else {
        panic!("no status")
    };
    let ended = &patch["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["startedAt"], &ended["finishedAt"]),
        (&json!(ago(0)), &json!(ago(-100)))
    );
}
