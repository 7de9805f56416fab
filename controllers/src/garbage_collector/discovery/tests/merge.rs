//! From documents and definitions to kinds, by table.

use std::sync::Arc;

use coxswain_manager::env::Clock;
use coxswain_manager::object::Text;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::definition::{Definition, Definitions, defined};
use super::super::former::Former;
use super::super::merge::merge;
use super::{Documents, documents};

/// The kinds that are collected, in short.
fn collected(documents: &Documents, definitions: Option<&Definitions>) -> Vec<String> {
    let kinds = merge(documents, definitions).kinds();
    let brief = kinds.collected().iter().map(|it| {
        let custom = if it.custom { " custom" } else { "" };
        format!("{} {}{custom}", it.api_version, it.resource.plural)
    });
    brief.collect()
}

fn resolves(documents: &Documents, definitions: Option<&Definitions>, api_version: &str, kind: &str) -> bool {
    let kinds = merge(documents, definitions).kinds();
    kinds
        .resolve(&Text::from(api_version), &Text::from(kind))
        .is_some()
}

fn definition(name: &str, versions: &[&str], established: &str) -> Value {
    let (plural, group) = name.split_once('.').expect("plural.group");
    let names = json!({"plural": plural, "kind": "Thing", "unknown": 1});
    // With a minus it is not served.
    let versions: Vec<_> = versions
        .iter()
        .map(|it| json!({"name": it.trim_start_matches('-'), "served": !it.starts_with('-'), "schema": {}}))
        .collect();
    json!({"metadata": {"name": name, "uid": name}, "spec": {
        "group": group, "names": names, "scope": "Cluster", "versions": versions,
    }, "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": established}]}})
}

fn definitions(all: &[Value]) -> Definitions {
    let decode = |it: &Value| Arc::new(serde_json::from_value::<Definition>(it.clone()).expect("a CRD"));
    defined(&all.iter().map(decode).collect::<Vec<_>>())
}

#[test]
fn each_resource_is_collected_in_one_version() {
    type Row<'a> = (&'a [(&'a str, Option<&'a [&'a str]>)], &'a [&'a str]);
    let rows: [Row<'_>; 8] = [
        // The preferred version, else the first that is listed.
        (
            &[("a/v2", Some(&["xs X"])), ("a/v1", Some(&["xs X", "ys Y"]))],
            &["a/v1 ys", "a/v2 xs"],
        ),
        // What the preferred version cannot do is not collected in another one.
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
        // What is not known is not there.
        (&[("a/v2", None), ("a/v1", Some(&["xs X"]))], &["a/v1 xs"]),
        (&[("v1", None), ("a/v1", None)], &[]),
    ];
    for (versions, expected) in rows {
        assert_eq!(collected(&documents(versions), None), expected, "{versions:?}");
    }
}

#[test]
fn every_version_that_is_served_can_be_resolved() {
    let documents = documents(&[
        ("v1", Some(&["events Event", "!bindings Binding"])),
        ("a/v2", Some(&["xs X", "twice Same", "again Same"])),
        ("a/v1", Some(&["xs X"])),
    ]);
    for (api_version, kind) in [("a/v1", "X"), ("a/v2", "X"), ("v1", "Event"), ("v1", "Binding")] {
        assert!(
            resolves(&documents, None, api_version, kind),
            "{api_version} {kind}"
        );
    }
    for (api_version, kind) in [
        ("a/v3", "X"),
        ("v1", "X"),
        ("a/v2", "Same"),
        ("a", "X"),
        ("", "X"),
    ] {
        assert!(
            !resolves(&documents, None, api_version, kind),
            "{api_version} {kind}"
        );
    }
}

#[test]
fn a_crd_says_what_it_serves_whatever_the_documents_say() {
    let listed = documents(&[
        ("t.io/v9", Some(&["things Old", "others Other"])),
        ("t.io/v1", Some(&["things Thing"])),
    ]);
    let known = definitions(&[definition("things.t.io", &["v1beta1", "v1", "-v2", "v1"], "True")]);
    assert_eq!(
        collected(&listed, Some(&known)),
        ["t.io/v1 things custom", "t.io/v9 others"]
    );
    assert!(resolves(&listed, Some(&known), "t.io/v1beta1", "Thing"));
    assert!(!resolves(&listed, Some(&known), "t.io/v2", "Thing"), "not served");
    assert!(
        !resolves(&listed, Some(&known), "t.io/v9", "Old"),
        "the documents lag"
    );
    assert_eq!(
        collected(&listed, None),
        ["t.io/v9 others", "t.io/v9 things"],
        "without CRDs"
    );
}

#[test]
fn a_crd_that_is_not_established_serves_nothing() {
    let listed = documents(&[("t.io/v1", Some(&["things Thing"]))]);
    for odd in [
        definition("things.t.io", &["v1"], "False"),
        definition("things.t.io", &["-v1"], "True"),
        definition("things.t.io", &["../v1"], "True"),
    ] {
        let known = definitions(std::slice::from_ref(&odd));
        assert_eq!(collected(&listed, Some(&known)), Vec::<String>::new(), "{odd}");
    }
    for (pointer, value) in [
        ("/status/conditions", Value::Null),
        ("/status/acceptedNames", Value::Null),
        ("/status/acceptedNames/plural", json!("a/b")),
        ("/spec/scope", Value::Null),
        ("/spec/versions", Value::Null),
    ] {
        let mut odd = definition("things.t.io", &["v1"], "True");
        *odd.pointer_mut(pointer).expect("a field") = value;
        let known = definitions(std::slice::from_ref(&odd));
        assert_eq!(collected(&listed, Some(&known)), Vec::<String>::new(), "{odd}");
    }
}

#[test]
fn what_could_not_be_read_is_as_it_was() {
    let before = documents(&[
        ("v1", Some(&["pods Pod"])),
        ("a/v1", Some(&["xs X"])),
        ("b/v1", Some(&["ys Y"])),
    ]);
    // A version fails; another one is gone; a third one has changed.
    let mut now = documents(&[("v1", Some(&["nodes Node"])), ("a/v1", None)]);
    now.keep(&before);
    assert_eq!(collected(&now, None), ["v1 nodes", "a/v1 xs"]);
    // A root fails.
    let mut now = documents(&[("v1", Some(&["nodes Node"]))]);
    now.keep(&before);
    assert_eq!(collected(&now, None), ["v1 nodes", "a/v1 xs", "b/v1 ys"]);
    // Everything does.
    let mut now = Documents::default();
    now.keep(&before);
    assert_eq!(now, before);
    // What was never known stays unknown.
    let mut now = documents(&[("c/v1", None)]);
    now.keep(&before);
    assert_eq!(collected(&now, None), ["v1 pods"]);
}

#[tokio::test(start_paused = true)]
async fn documents_that_lag_do_not_bring_back_what_a_crd_defined() {
    let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
    let minute = std::time::Duration::from_mins(1);
    let listed = || documents(&[("t.io/v1", Some(&["things Thing", "others Other"]))]);
    let (known, nothing) = (
        definitions(&[definition("things.t.io", &["v1"], "True")]),
        Definitions::new(),
    );
    let (mut former, mut seen) = (Former::default(), listed());
    former.see(&known, &mut seen, clock.now());
    assert_eq!(seen, listed(), "it may be needed yet");
    former.see(&nothing, &mut seen, clock.now());
    assert_eq!(collected(&seen, Some(&nothing)), ["t.io/v1 others"]);
    // Asked for before the server can have noticed.
    clock.sleep(minute / 2).await;
    let mut seen = listed();
    former.correct(&mut seen, clock.now());
    assert_eq!(collected(&seen, Some(&nothing)), ["t.io/v1 others"]);
    // It is served by somebody else now.
    clock.sleep(minute).await;
    let mut seen = listed();
    former.correct(&mut seen, clock.now());
    assert_eq!(
        collected(&seen, Some(&nothing)),
        ["t.io/v1 others", "t.io/v1 things"]
    );
    // Or defined again.
    former.see(&known, &mut seen, clock.now());
    former.see(&nothing, &mut seen, clock.now());
    former.see(&known, &mut seen, clock.now());
    let mut seen = listed();
    former.correct(&mut seen, clock.now());
    assert_eq!(
        collected(&seen, Some(&known)),
        ["t.io/v1 others", "t.io/v1 things custom"]
    );
}
