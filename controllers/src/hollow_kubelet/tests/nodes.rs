//! Steps for nodes, and the check for other nodes.

use super::*;

#[test]
fn foreign_node_prevents_the_start_and_is_named() {
    assert_eq!(Nodes::of([]).all_hollow(), Ok(()));
    assert_eq!(Nodes::of([&hollow("a"), &hollow("b")]).all_hollow(), Ok(()));
    let refusal = Nodes::of([&hollow("a"), &foreign("z"), &foreign("c")])
        .all_hollow()
        .expect_err("two foreign nodes");
    let text = refusal.to_string();
    for part in ["node c ", "--controllers", "sandbox.steersman.dev/hollow=true"] {
        assert!(text.contains(part), "{text}");
    }
    let unlabelled = node(json!({"metadata": {"name": "plain", "labels": null}}));
    assert!(Nodes::of([&unlabelled]).all_hollow().is_err());
}

#[test]
fn node_steps_match_the_table() {
    let options = Options {
        nodes: 2,
        ..Options::default()
    };
    let plan = |name: &str, present: Option<&Node>, cluster_nodes: &Nodes| {
        plan::node(name, present, cluster_nodes, &options, now())
    };
    let none = Nodes::default();
    let NodeStep::Create(created) = plan("hollow-1", None, &none) else {
        panic!("not created")
    };
    assert_eq!(created["metadata"]["labels"][LABEL], "true");
    assert_eq!(
        plan("hollow-1", None, &Nodes::of([&foreign("x")])),
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
