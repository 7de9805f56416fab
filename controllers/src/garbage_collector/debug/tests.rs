use super::*;

use coxswain_manager::object::OwnerRef;
use http_body_util::BodyExt as _;

use crate::garbage_collector::graph::{Identity, NodeView};

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

fn shown(identity: Identity, owners: &[OwnerRef]) -> NodeView<'_> {
    NodeView {
        identity,
        owners,
        deleting: false,
        foreground: false,
        seen: true,
    }
}

fn picture<'a>(nodes: impl IntoIterator<Item = NodeView<'a>>) -> Picture {
    let mut picture = Picture::default();
    nodes.into_iter().for_each(|node| picture.add(&node));
    picture.finish()
}

fn pod<'a>(uid: &str, owners: &'a [OwnerRef]) -> NodeView<'a> {
    shown(identity(uid, "v1", "Pod", "web-0"), owners)
}

#[test]
fn a_dependent_points_to_its_owner_and_who_has_neither_is_left_out() {
    let owners = [owner("b")];
    let set = NodeView {
        deleting: true,
        foreground: true,
        ..shown(identity("b", "apps/v1", "ReplicaSet", "we\"b"), &[])
    };
    let drawn = picture([pod("a", &owners), set, pod("z", &[])]);
    let text = dot::dot(&drawn);
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
fn an_owner_that_nobody_has_seen_is_missing() {
    let owners = [owner("b")];
    let drawn = picture([pod("a", &owners)]);
    assert!(drawn.vertices["b"].missing);
    let unseen = NodeView {
        seen: false,
        ..shown(identity("b", "apps/v1", "ReplicaSet", "web"), &[])
    };
    let drawn = picture([pod("a", &owners), unseen]);
    assert!(drawn.vertices["b"].unseen && !drawn.vertices["b"].missing);
}

#[test]
fn of_several_that_claim_one_uid_the_one_that_was_seen_is_drawn() {
    let owners = [owner("b")];
    let claimed = || NodeView {
        seen: false,
        ..shown(identity("b", "v1", "Wrong", "web"), &[])
    };
    let real = || shown(identity("b", "apps/v1", "ReplicaSet", "web"), &[]);
    for nodes in [[claimed(), real()], [real(), claimed()]] {
        let picture = self::picture(nodes.into_iter().chain([pod("a", &owners)]));
        assert_eq!(picture.vertices["b"].kind, "ReplicaSet");
    }
}

#[test]
fn circles_and_long_chains_are_drawn_each_box_once() {
    let chain: Vec<[OwnerRef; 1]> = (0..50)
        .map(|at| [owner(&format!("{:02}", (at + 1) % 50))])
        .collect();
    let names: Vec<String> = (0..50).map(|at| format!("{at:02}")).collect();
    let nodes = names.iter().zip(&chain).map(|(name, owners)| pod(name, owners));
    let text = svg::svg(&picture(nodes), 0);
    assert_eq!(text.matches("<rect").count(), 50);
    assert_eq!(text.matches("<line").count(), 50);
}

#[test]
fn nothing_in_a_name_is_markup() {
    let owners = [owner("</svg><script>")];
    let evil = shown(
        identity("a", "v1", "<b>&\u{0}\"", "\"><script>x</script>"),
        &owners,
    );
    let text = svg::svg(&picture([evil]), 3);
    assert!(!text.contains("<script>") && !text.contains('\u{0}'), "{text}");
    assert_eq!(text.matches("</svg>").count(), 1);
    assert!(text.contains("and 3 more"));
}

#[test]
fn too_many_are_cut_and_no_line_leads_nowhere() {
    let owners = [owner("zz")];
    let names: Vec<String> = (0..10).map(|at| format!("{at:02}")).collect();
    let (picture, left_out) = self::picture(names.iter().map(|name| pod(name, &owners))).cut(4);
    assert_eq!((picture.vertices.len(), left_out), (4, 7));
    assert!(picture.edges.is_empty());
}

#[tokio::test]
async fn the_form_is_what_is_accepted() {
    for (accept, expected, begins) in [
        ("image/svg+xml", SVG, "<svg"),
        ("text/html, image/svg+xml;q=0.9", SVG, "<svg"),
        ("*/*", DOT, "strict digraph full {"),
    ] {
        let request = Request::builder()
            .uri("/?uid=a&uid=b%20c&other=d")
            .header(ACCEPT, accept)
            .body(())
            .expect("a request");
        assert_eq!(asked(&request), ["a".into(), "b c".into()]);
        let answer = draw(&request, Picture::default());
        assert_eq!(answer.headers()[CONTENT_TYPE], expected, "{accept}");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        assert!(body.starts_with(begins.as_bytes()), "{accept}");
    }
}
