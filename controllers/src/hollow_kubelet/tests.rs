//! What is planned, as tables.

use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{self, NO_NODE, NodeStep, PodStep};
use super::{FAIL, Fleet, LABEL, Node, Options, Pod};

const NOW: i64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).expect("a time")
}

fn ago(seconds: i64) -> String {
    coxswain_manager::time::rfc3339(Timestamp::from_second(NOW - seconds).expect("a time"))
}

fn at_once() -> Options {
    Options {
        delay: Duration::ZERO,
        ..Options::default()
    }
}

fn node(value: Value) -> Node {
    serde_json::from_value(value).expect("a node")
}

fn hollow(name: &str) -> Node {
    node(json!({
        "metadata": {"name": name, "uid": "n", "resourceVersion": "2", "labels": {LABEL: "true"}},
        "status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.0.0.9"}]},
    }))
}

fn foreign(name: &str) -> Node {
    node(json!({"metadata": {"name": name, "labels": {LABEL: "false"}}}))
}

fn fleet() -> Fleet {
    Fleet::of([&hollow("ours")])
}

/// A pod on `ours`, with `more` merged over it.
fn pod(more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "300",
            "creationTimestamp": ago(60)},
        "spec": {"nodeName": "ours", "containers": [{"name": "main", "image": "app:1"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, more);
    serde_json::from_value(pod).expect("a pod")
}

fn merge(into: &mut Value, more: &Value) {
    match (into.as_object_mut(), more) {
        (Some(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = more.clone(),
    }
}

fn planned(pod: &Pod) -> PodStep {
    plan::pod(pod, &fleet(), |_| false, &at_once(), now())
}

/// The status that is planned.
fn status(pod: &Pod) -> Value {
    match planned(pod) {
        PodStep::Status(patch) => patch["status"].clone(),
        other => panic!("no status but {other:?}"),
    }
}

/// `type: status (reason)` of the conditions.
fn conditions(status: &Value) -> Vec<String> {
    let list = status["conditions"].as_array().expect("conditions");
    let one = |it: &Value| {
        let text = |field: &str| it[field].as_str().unwrap_or("-").to_owned();
        format!("{}: {} ({})", text("type"), text("status"), text("reason"))
    };
    list.iter().map(one).collect()
}

/// `name: state` of the containers.
fn containers(status: &Value, field: &str) -> Vec<String> {
    let one = |it: &Value| {
        let (kind, state) = it["state"]
            .as_object()
            .and_then(|it| it.iter().next())
            .expect("a state");
        let reason = state["reason"]
            .as_str()
            .map(|it| format!(" {it}"))
            .unwrap_or_default();
        let ready = if it["ready"] == true { ", ready" } else { "" };
        format!("{}: {kind}{reason}{ready}", it["name"].as_str().expect("a name"))
    };
    status[field].as_array().into_iter().flatten().map(one).collect()
}

#[test]
fn what_is_done_about_a_pod_by_where_it_is_and_how() {
    let deleting = json!({"metadata": {"deletionTimestamp": ago(-30), "deletionGracePeriodSeconds": 30}});
    let held = json!({"metadata": {"deletionTimestamp": ago(1), "deletionGracePeriodSeconds": 0,
        "finalizers": ["theirs.dev/hold"]}});
    let bound_elsewhere = json!({"spec": {"nodeName": "theirs"}});
    let bound_nowhere = json!({"spec": {"nodeName": "gone"}});
    let unbound = json!({"spec": {"nodeName": null}});
    let both = |a: &Value, b: &Value| {
        let mut a = a.clone();
        merge(&mut a, b);
        a
    };
    let bind = PodStep::Bind("ours".into());
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let table = [
        ("unbound", unbound.clone(), bind.clone()),
        (
            "unbound, without any status",
            both(&unbound, &json!({"status": null})),
            bind.clone(),
        ),
        (
            "unbound, without containers",
            both(&unbound, &json!({"spec": {"containers": null}})),
            bind.clone(),
        ),
        (
            "unbound, to fail",
            both(&unbound, &json!({"metadata": {"annotations": {FAIL: "true"}}})),
            bind,
        ),
        ("unbound, deleting", both(&unbound, &deleting), PodStep::Nothing),
        (
            "unbound, gated",
            both(&unbound, &json!({"spec": {"schedulingGates": [{"name": "g"}]}})),
            PodStep::Nothing,
        ),
        (
            "unbound, failed",
            both(&unbound, &phase("Failed")),
            PodStep::Nothing,
        ),
        ("bound, deleting", deleting.clone(), PodStep::Finish),
        (
            "bound, running, deleting",
            both(&deleting, &phase("Running")),
            PodStep::Finish,
        ),
        (
            "bound, failed, deleting",
            both(&deleting, &phase("Failed")),
            PodStep::Finish,
        ),
        (
            "bound, to fail, deleting",
            both(&deleting, &json!({"metadata": {"annotations": {FAIL: "true"}}})),
            PodStep::Finish,
        ),
        ("bound, held by finalizers only", held, PodStep::Nothing),
        ("bound, failed", phase("Failed"), PodStep::Nothing),
        ("bound, succeeded", phase("Succeeded"), PodStep::Nothing),
        ("elsewhere", bound_elsewhere.clone(), PodStep::Nothing),
        (
            "elsewhere, deleting",
            both(&bound_elsewhere, &deleting),
            PodStep::Nothing,
        ),
        (
            "elsewhere, to fail",
            both(
                &bound_elsewhere,
                &json!({"metadata": {"annotations": {FAIL: "true"}}}),
            ),
            PodStep::Nothing,
        ),
        ("on a node that is gone", bound_nowhere.clone(), PodStep::Nothing),
        (
            "on a node that is gone, deleting",
            both(&bound_nowhere, &deleting),
            PodStep::Nothing,
        ),
    ];
    let sandbox = Options {
        sandbox: true,
        ..at_once()
    };
    let fleet = Fleet::of([&foreign("theirs"), &hollow("ours")]);
    for (what, more, expected) in table {
        assert_eq!(
            plan::pod(&pod(&more), &fleet, |_| false, &sandbox, now()),
            expected,
            "{what}"
        );
    }
}

#[test]
fn a_pod_is_bound_only_where_all_nodes_are_hollow_or_in_the_sandbox() {
    let unbound = pod(&json!({"spec": {"nodeName": ""}}));
    let cordoned =
        node(json!({"metadata": {"name": "a", "labels": {LABEL: "true"}}, "spec": {"unschedulable": true}}));
    let going =
        node(json!({"metadata": {"name": "b", "labels": {LABEL: "true"}, "deletionTimestamp": ago(1)}}));
    let (ours, theirs) = (hollow("ours"), foreign("theirs"));
    let bind = PodStep::Bind("ours".into());
    let table = [
        (vec![], PodStep::Wait(NO_NODE), PodStep::Wait(NO_NODE)),
        (vec![&ours], bind.clone(), bind.clone()),
        (vec![&cordoned, &ours, &going], bind.clone(), bind.clone()),
        (
            vec![&cordoned, &going],
            PodStep::Wait(NO_NODE),
            PodStep::Wait(NO_NODE),
        ),
        (vec![&ours, &theirs], PodStep::Wait(NO_NODE), bind),
        (vec![&theirs], PodStep::Wait(NO_NODE), PodStep::Wait(NO_NODE)),
    ];
    for (nodes, outside, inside) in table {
        let fleet = Fleet::of(nodes);
        for (sandbox, expected) in [(false, outside), (true, inside)] {
            let options = Options { sandbox, ..at_once() };
            assert_eq!(
                plan::pod(&unbound, &fleet, |_| false, &options, now()),
                expected,
                "{fleet:?} {sandbox}"
            );
        }
    }
}

#[test]
fn pods_are_spread_and_each_always_goes_the_same_way() {
    let nodes: Vec<Node> = (0..4).map(|i| hollow(&format!("n{i}"))).collect();
    let fleet = Fleet::of(&nodes);
    let mut counts = std::collections::BTreeMap::new();
    for i in 0..400 {
        let unbound = pod(&json!({"metadata": {"uid": format!("uid-{i}")}, "spec": {"nodeName": ""}}));
        let step = plan::pod(&unbound, &fleet, |_| false, &at_once(), now());
        let PodStep::Bind(node) = &step else {
            panic!("{step:?}")
        };
        *counts.entry(node.clone()).or_insert(0) += 1;
        assert_eq!(plan::pod(&unbound, &fleet, |_| false, &at_once(), now()), step);
    }
    assert!(
        counts.len() == 4 && counts.values().all(|it| (60..140).contains(it)),
        "{counts:?}"
    );
}

#[test]
fn the_delay_counts_from_the_binding_and_never_ends_early() {
    let options = Options {
        delay: Duration::from_secs(5),
        ..Options::default()
    };
    let scheduled = |seconds| {
        json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": ago(500)},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(seconds)}]}})
    };
    let secs = |it| Some(Duration::from_secs(it));
    let table = [
        ("just bound", scheduled(0), secs(5)),
        ("bound within that second", scheduled(1), secs(5)),
        ("on its way", scheduled(4), secs(2)),
        ("nearly", scheduled(5), secs(1)),
        ("there", scheduled(6), None),
        ("long ago", scheduled(1000), None),
        (
            "bound in the future, by a clock that is ahead",
            scheduled(-100),
            secs(5),
        ),
        (
            "bound from the start",
            json!({"metadata": {"creationTimestamp": ago(3)}}),
            secs(3),
        ),
        (
            "nobody knows since when",
            json!({"metadata": {"creationTimestamp": null}}),
            None,
        ),
        (
            "started before",
            json!({"status": {"startTime": ago(0), "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(0)}]}}),
            None,
        ),
    ];
    for (what, more, expected) in table {
        let waits = match plan::pod(&pod(&more), &fleet(), |_| false, &options, now()) {
            PodStep::Wait(delay) => Some(delay),
            PodStep::Status(_) => None,
            other => panic!("{what}: {other:?}"),
        };
        assert_eq!(waits, expected, "{what}");
        assert!(
            matches!(planned(&pod(&more)), PodStep::Status(_)),
            "{what}: without a delay"
        );
    }
}

#[test]
fn a_started_pod_is_running_and_ready() {
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
fn images_and_init_containers_by_the_table() {
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
fn a_pod_that_is_to_fail_has_failed() {
    let fails = |value: &str| {
        json!({"metadata": {"annotations": {FAIL: value}},
        "spec": {"initContainers": [{"name": "i", "image": "x"}]}})
    };
    let failed = status(&pod(&fails("true")));
    assert_eq!(failed["phase"], "Failed");
    assert_eq!(
        containers(&failed, "containerStatuses"),
        ["main: terminated Error"]
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
fn a_gate_that_nobody_has_opened_keeps_a_pod_from_being_ready() {
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
fn addresses_are_not_shared_and_host_networks_have_their_hosts() {
    let free = plan::pod(
        &pod(&json!({})),
        &fleet(),
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
    let bare = Fleet::of([&node(
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
fn what_is_as_it_should_be_is_left_alone_and_what_changed_is_put_right() {
    let inits = json!({"spec": {"initContainers": [{"name": "i", "image": "x"}]}});
    let mut written = inits.clone();
    merge(&mut written, &json!({"status": status(&pod(&inits))}));
    let with = |more: &Value| {
        let mut all = written.clone();
        merge(&mut all, more);
        pod(&all)
    };
    let later = Timestamp::from_second(NOW + 100).expect("a time");
    let plan = |pod: &Pod| plan::pod(pod, &fleet(), |_| true, &at_once(), later);
    assert_eq!(plan(&with(&json!({}))), PodStep::Nothing);
    assert_eq!(
        plan(&with(&json!({"metadata": {"resourceVersion": "999"}}))),
        PodStep::Nothing
    );

    // Another image, one that is not there: the time of what changed is new, the rest is kept.
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

    // Somebody has said that it is not ready.
    let mut unready = written["status"]["conditions"].clone();
    unready[3]["status"] = json!("False");
    assert!(matches!(
        plan(&with(&json!({"status": {"conditions": unready}}))),
        PodStep::Status(_)
    ));
    // Its containers have restarted: that is not ours to undo.
    let mut restarted = written["status"]["containerStatuses"].clone();
    restarted[0]["restartCount"] = json!(3);
    assert_eq!(
        plan(&with(&json!({"status": {"containerStatuses": restarted}}))),
        PodStep::Nothing
    );
    // It is told to fail.
    let PodStep::Status(patch) = plan(&with(&json!({"metadata": {"annotations": {FAIL: "true"}}}))) else {
        panic!("no status")
    };
    let ended = &patch["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["startedAt"], &ended["finishedAt"]),
        (&json!(ago(0)), &json!(ago(-100)))
    );
}

#[test]
fn it_starts_only_where_every_node_is_hollow_and_names_the_one_that_is_not() {
    assert_eq!(Fleet::of([]).may_start(), Ok(()));
    assert_eq!(Fleet::of([&hollow("a"), &hollow("b")]).may_start(), Ok(()));
    let refusal = Fleet::of([&hollow("a"), &foreign("z"), &foreign("c")])
        .may_start()
        .expect_err("two foreign nodes");
    let text = refusal.to_string();
    for part in ["node c ", "--controllers", "sandbox.coxswain.dev/hollow=true"] {
        assert!(text.contains(part), "{text}");
    }
    let unlabelled = node(json!({"metadata": {"name": "plain", "labels": null}}));
    assert!(Fleet::of([&unlabelled]).may_start().is_err());
}

#[test]
fn what_is_done_about_a_node() {
    let options = Options {
        nodes: 2,
        ..Options::default()
    };
    let plan =
        |name: &str, present: Option<&Node>, fleet: &Fleet| plan::node(name, present, fleet, &options, now());
    let none = Fleet::default();
    let NodeStep::Create(created) = plan("hollow-1", None, &none) else {
        panic!("not created")
    };
    assert_eq!(created["metadata"]["labels"][LABEL], "true");
    assert_eq!(
        plan("hollow-1", None, &Fleet::of([&foreign("x")])),
        NodeStep::Nothing
    );
    for other in [
        "hollow-2",
        "hollow-01",
        "hollow-",
        "hollow-x",
        "other",
        "hollow-+1",
    ] {
        assert_eq!(plan(other, None, &none), NodeStep::Nothing, "{other}");
        assert_eq!(
            plan(other, Some(&hollow(other)), &none),
            NodeStep::Nothing,
            "{other}"
        );
    }
    assert_eq!(
        plan("hollow-1", Some(&foreign("hollow-1")), &none),
        NodeStep::Nothing
    );
    let going = node(
        json!({"metadata": {"name": "hollow-1", "labels": {LABEL: "true"}, "deletionTimestamp": ago(1)}}),
    );
    assert_eq!(plan("hollow-1", Some(&going), &none), NodeStep::Nothing);

    let NodeStep::Status(patch) = plan("hollow-1", Some(&hollow("hollow-1")), &none) else {
        panic!("no status")
    };
    assert_eq!(patch["metadata"], json!({"uid": "n", "resourceVersion": "2"}));
    assert_eq!(patch["status"]["addresses"][0]["address"], "10.0.0.2");
    let mut well = json!({"metadata": {"name": "hollow-1", "labels": {LABEL: "true"}}});
    merge(&mut well, &json!({"status": patch["status"]}));
    assert_eq!(
        plan("hollow-1", Some(&node(well.clone())), &none),
        NodeStep::Nothing
    );
    for (condition, wrong) in [(0, "True"), (3, "Unknown"), (3, "False")] {
        let mut sick = well.clone();
        sick["status"]["conditions"][condition]["status"] = json!(wrong);
        assert!(
            matches!(plan("hollow-1", Some(&node(sick)), &none), NodeStep::Status(_)),
            "{condition} {wrong}"
        );
    }
}
