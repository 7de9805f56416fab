use super::*;

use steersman_manager::object::OwnerRef;

use crate::garbage_collector::graph::{Identity, NodeInfo};

fn identity(uid: &str, api_version: &str, kind: &str, name: &str) -> Identity {
    Identity {
        uid: uid.into(),
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: "ns".into(),
        name: name.into(),
    }
}

fn owner(uid: &str) -> OwnerRef {
    OwnerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: uid.into(),
        ..OwnerRef::default()
    }
}

fn shown(identity: Identity, owners: &[OwnerRef]) -> NodeInfo<'_> {
    NodeInfo {
        identity,
        owners,
        deleting: false,
        foreground: false,
        observed: true,
        dependents: 0,
    }
}

fn text<'a>(nodes: impl IntoIterator<Item = NodeInfo<'a>>) -> String {
    let mut drawing = Drawing::default();
    nodes.into_iter().for_each(|node| drawing.add(node));
    drawing.text()
}

fn pod<'a>(uid: &str, owners: &'a [OwnerRef]) -> NodeInfo<'a> {
    shown(identity(uid, "v1", "Pod", "web-0"), owners)
}

#[test]
fn dependent_points_to_its_owner_and_objects_without_either_are_left_out() {
    let owners = [owner("b")];
    let set = NodeInfo {
        deleting: true,
        foreground: true,
        dependents: 1,
        ..shown(identity("b", "apps/v1", "ReplicaSet", "we\"b"), &[])
    };
    let text = text([pod("a", &owners), set, pod("z", &[])]);
    let expected = r#"strict digraph full {
  // Node definitions.
  "a" [
    label="uid=a\nnamespace=ns\nPod.v1/web-0\n"
    group=""
    version="v1"
    kind="Pod"
    namespace="ns"
    name="web-0"
    uid="a"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="false"
  ];
  "b" [
    label="uid=b\nnamespace=ns\nReplicaSet.v1.apps/we\"b\nbeingDeleted,deletingDependents\n"
    group="apps"
    version="v1"
    kind="ReplicaSet"
    namespace="ns"
    name="we\"b"
    uid="b"
    missing="false"
    beingDeleted="true"
    deletingDependents="true"
    virtual="false"
  ];

  // Edge definitions.
  "a" -> "b";
}
"#;
    assert_eq!(text, expected);
}

#[test]
fn owner_that_only_references_name_is_missing() {
    let owners = [owner("b")];
    let missing = text([pod("a", &owners)]);
    assert!(
        missing.contains("missingFromGraph") && !missing.contains("virtual=\"true\""),
        "{missing}"
    );
    let virtual_owners = || NodeInfo {
        observed: false,
        dependents: 1,
        ..shown(identity("b", "apps/v1", "ReplicaSet", "web"), &[])
    };
    for nodes in [
        [pod("a", &owners), virtual_owners()],
        [virtual_owners(), pod("a", &owners)],
    ] {
        let text = text(nodes);
        assert!(
            !text.contains("missingFromGraph") && text.contains("virtual=\"true\""),
            "{text}"
        );
    }
}

#[test]
fn text_is_bounded_and_counts_the_objects_that_are_not_shown() {
    let names: Vec<String> = (0..30_000).map(|at| format!("{at:05}")).collect();
    let owners = [owner("zz")];
    let text = text(names.iter().map(|name| pod(name, &owners)));
    // The owner, and a vertex and an edge of each.
    assert_eq!(text.matches(" -> ").count(), 10_000);
    assert!(
        text.contains("// 20000 more objects are not shown"),
        "{}",
        &text[..200]
    );
}

#[test]
fn request_selects_objects_by_uid() {
    let request = Request::builder()
        .uri("/?uid=a&uid=b%20c&other=d")
        .body(Bytes::new());
    assert_eq!(selected(&request.expect("a request")), ["a".into(), "b c".into()]);
}
