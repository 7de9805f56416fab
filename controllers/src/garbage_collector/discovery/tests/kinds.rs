//! Kinds from documents, by table.

use steersman_manager::object::Text;

use super::{Documents, documents};

fn collected(documents: &Documents) -> Vec<String> {
    let kinds = documents.kinds();
    let brief = kinds.collected().iter();
    brief
        .map(|it| format!("{} {}", it.api_version, it.resource.plural))
        .collect()
}

fn resolves(documents: &Documents, api_version: &str, kind: &str) -> bool {
    let kinds = documents.kinds();
    kinds
        .resolve(&Text::from(api_version), &Text::from(kind))
        .is_some()
}

#[test]
fn each_resource_is_collected_in_one_version() {
    type Row<'a> = (&'a [(&'a str, Option<&'a [&'a str]>)], &'a [&'a str]);
    let rows: [Row<'_>; 8] = [
        // The preferred version, otherwise the first that is listed.
        (
            &[("a/v2", Some(&["xs X"])), ("a/v1", Some(&["xs X", "ys Y"]))],
            &["a/v1 ys", "a/v2 xs"],
        ),
        // A verb that the preferred version lacks is not taken from another one.
        (&[("a/v2", Some(&["!xs X"])), ("a/v1", Some(&["xs X"]))], &[]),
        (
            &[
                ("a/v2", Some(&[])),
                ("a/v1", Some(&["!xs X"])),
                ("a/v0", Some(&["xs X"])),
            ],
            &[],
        ),
        // Events expire.
        (&[("v1", Some(&["events Event", "pods Pod"]))], &["v1 pods"]),
        (
            &[
                ("events.k8s.io/v1", Some(&["events Event"])),
                ("a/v1", Some(&["events E"])),
            ],
            &["a/v1 events"],
        ),
        // Groups do not share resources.
        (
            &[("a/v1", Some(&["xs X"])), ("b/v1", Some(&["xs X"]))],
            &["a/v1 xs", "b/v1 xs"],
        ),
        // Unknown resources are not collected.
        (&[("a/v2", None), ("a/v1", Some(&["xs X"]))], &["a/v1 xs"]),
        (&[("v1", None), ("a/v1", None)], &[]),
    ];
    for (versions, expected) in rows {
        assert_eq!(collected(&documents(versions)), expected, "{versions:?}");
    }
}

#[test]
fn every_served_version_can_be_resolved() {
    let documents = documents(&[
        ("v1", Some(&["events Event", "!bindings Binding"])),
        ("a/v2", Some(&["xs X", "twice Same", "again Same"])),
        ("a/v1", Some(&["xs X"])),
    ]);
    for (api_version, kind) in [("a/v1", "X"), ("a/v2", "X"), ("v1", "Event"), ("v1", "Binding")] {
        assert!(resolves(&documents, api_version, kind), "{api_version} {kind}");
    }
    for (api_version, kind) in [
        ("a/v3", "X"),
        ("v1", "X"),
        ("a/v2", "Same"),
        ("a", "X"),
        ("", "X"),
    ] {
        assert!(!resolves(&documents, api_version, kind), "{api_version} {kind}");
    }
}

#[test]
fn unreadable_parts_keep_their_last_description() {
    let before = documents(&[
        ("v1", Some(&["pods Pod"])),
        ("a/v1", Some(&["xs X"])),
        ("b/v1", Some(&["ys Y"])),
    ]);
    // One version fails, another one is removed, a third one has changed.
    let mut now = documents(&[("v1", Some(&["nodes Node"])), ("a/v1", None)]);
    now.keep(&before);
    assert_eq!(collected(&now), ["v1 nodes", "a/v1 xs"]);
    // A root fails.
    let mut now = documents(&[("v1", Some(&["nodes Node"]))]);
    now.keep(&before);
    assert_eq!(collected(&now), ["v1 nodes", "a/v1 xs", "b/v1 ys"]);
    // Both roots fail.
    let mut now = Documents::default();
    now.keep(&before);
    assert_eq!(now, before);
    // A part that was never read stays unknown.
    let mut now = documents(&[("c/v1", None)]);
    now.keep(&before);
    assert_eq!(collected(&now), ["v1 pods"]);
}

#[test]
fn group_versions_without_a_description_are_reported() {
    let before = documents(&[
        ("v1", Some(&["pods Pod"])),
        ("a/v1", Some(&["xs X"])),
        ("b/v1", None),
    ]);
    let undescribed = |documents: &Documents| -> Vec<String> {
        let kinds = documents.kinds();
        kinds
            .undescribed()
            .iter()
            .map(|it| it.resource.to_string())
            .collect()
    };
    assert!(before.has_both_roots());
    assert_eq!(undescribed(&before), ["*.b"]);
    let mut now = documents(&[("v1", None), ("a/v1", None), ("b/v1", Some(&[])), ("c/v2", None)]);
    assert_eq!(undescribed(&now), ["*", "*.a", "*.c"]);
    now.keep(&before);
    assert_eq!(undescribed(&now), ["*.c"], "the last description counts");
    assert!(!documents(&[("v1", None)]).has_both_roots());
    assert!(!documents(&[("a/v1", None)]).has_both_roots());
}
