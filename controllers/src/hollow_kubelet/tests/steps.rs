//! Steps for pods.

use super::*;

#[test]
fn pod_steps_match_the_table() {
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
    let cluster_nodes = Nodes::of([&foreign("theirs"), &hollow("ours")]);
    for (what, more, expected) in table {
        assert_eq!(
            plan::pod(&pod(&more), &cluster_nodes, |_| false, &sandbox, now()),
            expected,
            "{what}"
        );
    }
}

#[test]
fn pod_is_bound_only_if_all_nodes_are_hollow_or_in_the_sandbox() {
    let unbound = pod(&json!({"spec": {"nodeName": ""}}));
    let cordoned =
        node(json!({"metadata": {"name": "a", "labels": {LABEL: "true"}}, "spec": {"unschedulable": true}}));
    let going =
        node(json!({"metadata": {"name": "b", "labels": {LABEL: "true"}, "deletionTimestamp": ago(1)}}));
    let (ours, theirs) = (hollow("ours"), foreign("theirs"));
    let bind = PodStep::Bind("ours".into());
    let table = [
        (vec![], PodStep::Wait(NO_NODE_RETRY), PodStep::Wait(NO_NODE_RETRY)),
        (vec![&ours], bind.clone(), bind.clone()),
        (vec![&cordoned, &ours, &going], bind.clone(), bind.clone()),
        (
            vec![&cordoned, &going],
            PodStep::Wait(NO_NODE_RETRY),
            PodStep::Wait(NO_NODE_RETRY),
        ),
        (vec![&ours, &theirs], PodStep::Wait(NO_NODE_RETRY), bind),
        (
            vec![&theirs],
            PodStep::Wait(NO_NODE_RETRY),
            PodStep::Wait(NO_NODE_RETRY),
        ),
    ];
    for (nodes, outside, inside) in table {
        let cluster_nodes = Nodes::of(nodes);
        for (sandbox, expected) in [(false, outside), (true, inside)] {
            let options = Options { sandbox, ..at_once() };
            assert_eq!(
                plan::pod(&unbound, &cluster_nodes, |_| false, &options, now()),
                expected,
                "{cluster_nodes:?} {sandbox}"
            );
        }
    }
}

#[test]
fn pods_are_spread_and_placed_deterministically() {
    let nodes: Vec<Node> = (0..4).map(|i| hollow(&format!("n{i}"))).collect();
    let cluster_nodes = Nodes::of(&nodes);
    let mut counts = std::collections::BTreeMap::new();
    for i in 0..400 {
        let unbound = pod(&json!({"metadata": {"uid": format!("uid-{i}")}, "spec": {"nodeName": ""}}));
        let step = plan::pod(&unbound, &cluster_nodes, |_| false, &at_once(), now());
        let PodStep::Bind(node) = &step else {
            panic!("{step:?}")
        };
        *counts.entry(node.clone()).or_insert(0) += 1;
        assert_eq!(
            plan::pod(&unbound, &cluster_nodes, |_| false, &at_once(), now()),
            step
        );
    }
    assert!(
        counts.len() == 4 && counts.values().all(|it| (60..140).contains(it)),
        "{counts:?}"
    );
}

#[test]
fn ready_delay_counts_from_the_binding_and_never_ends_early() {
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
            "without a timestamp",
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
        let waits = match plan::pod(&pod(&more), &cluster_nodes(), |_| false, &options, now()) {
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
