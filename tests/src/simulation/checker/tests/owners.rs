use std::collections::BTreeSet;

use super::*;

const OWNER: (&str, &str) = (MAPS, "default/owner");
const X: (&str, &str) = (MAPS, "default/x");

/// An owner and its dependent `x`.
fn pair() -> Story {
    let mut story = Story::new();
    story.user(OWNER, &object("owner", &[]));
    story.user(X, &object("x", &[blocking(to_map("owner"))]));
    story.deliver(0, MAPS);
    story
}

fn widgets(versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|it| json!({"name": it, "served": true}))
        .collect();
    let mut definition = object("widgets", &[]);
    definition["spec"] = json!({"group": "example.com", "scope": "Namespaced", "versions": versions,
                                "names": {"plural": "widgets", "kind": "Widget"}});
    definition
}

#[test]
fn deletion_of_an_object_with_a_live_owner_violates_s1() {
    let mut story = pair();
    story.delete(GC, X);
    assert_eq!(story.found(), ["S1"]);
}

#[test]
fn deletion_after_the_owner_is_allowed() {
    let mut story = pair();
    story.user_removes(OWNER);
    story.delete(GC, X);
    assert!(story.found().is_empty());
}

#[test]
fn deletion_by_the_user_is_allowed() {
    let mut story = pair();
    story.user_removes(X);
    assert!(story.found().is_empty());
}

#[test]
fn finalizer_removal_does_not_count_as_deletion() {
    let mut story = pair();
    story.user(X, &terminating(object("x", &[to_map("owner")]), &["orphan"]));
    story.write(GC, "patch", X, None);
    assert!(story.found().is_empty());
}

#[test]
fn deletion_that_waits_for_a_finalizer_violates_s1() {
    let mut story = pair();
    let deleted = terminating(object("x", &[to_map("owner")]), &["example.com/wait"]);
    story.write(GC, "delete", X, Some(&deleted));
    assert_eq!(story.found(), ["S1"]);
}

#[test]
fn owner_with_another_identity_does_not_keep_the_object() {
    for reference in [
        reference("v1", "Secret", "owner"),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "uid-owner"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "uid-before"}),
    ] {
        let mut story = pair();
        story.user(X, &object("x", &[reference]));
        story.delete(GC, X);
        assert!(story.found().is_empty());
    }
}

#[test]
fn owner_in_another_namespace_does_not_keep_the_object() {
    let mut story = pair();
    let other = (MAPS, "elsewhere/y");
    story.user(other, &object("y", &[to_map("owner")]));
    story.delete(GC, other);
    assert!(story.found().is_empty());
}

#[test]
fn owner_in_foreground_deletion_does_not_keep_the_object() {
    let mut story = pair();
    story.user(OWNER, &terminating(object("owner", &[]), &["foregroundDeletion"]));
    story.delete(GC, X);
    assert!(story.found().is_empty());
}

#[test]
fn terminating_owner_without_foreground_deletion_keeps_the_object() {
    let mut story = pair();
    story.user(OWNER, &terminating(object("owner", &[]), &["example.com/wait"]));
    story.delete(GC, X);
    assert_eq!(story.found(), ["S1"]);
}

/// The owner changes from foreground to another deletion, `seconds` after the collector has read it.
fn changed_policy(seconds: f64, reads: bool) -> Story {
    let mut story = pair();
    story.user(OWNER, &terminating(object("owner", &[]), &["foregroundDeletion"]));
    if reads {
        story.get(GC, OWNER);
    }
    story.user(OWNER, &terminating(object("owner", &[]), &["example.com/wait"]));
    story.wait(seconds);
    story
}

#[test]
fn recent_read_of_a_foreground_deletion_allows_the_deletion() {
    let mut story = changed_policy(0.9, true);
    story.delete(GC, X);
    assert!(story.found().is_empty());
}

#[test]
fn old_or_missing_read_of_a_foreground_deletion_violates_s1() {
    for (seconds, reads) in [(1.1, true), (0.0, false)] {
        let mut story = changed_policy(seconds, reads);
        story.delete(GC, X);
        assert_eq!(story.found(), ["S1"], "{seconds} {reads}");
    }
}

#[test]
fn read_of_another_process_does_not_allow_the_deletion() {
    let mut story = changed_policy(0.0, true);
    story.start(1);
    story.delete((1, GC.1), X);
    assert_eq!(story.found(), ["S1"]);
}

#[test]
fn removal_of_a_reference_to_a_live_owner_violates_s1() {
    let mut story = pair();
    story.write(GC, "patch", X, Some(&object("x", &[])));
    assert_eq!(story.found(), ["S1"]);
}

#[test]
fn removal_of_a_reference_to_an_absent_or_orphaning_owner_is_allowed() {
    let mut story = pair();
    story.user(X, &object("x", &[to_map("owner"), to_map("absent")]));
    story.write(GC, "patch", X, Some(&object("x", &[to_map("owner")])));
    story.user(OWNER, &terminating(object("owner", &[]), &["orphan"]));
    story.write(GC, "patch", X, Some(&object("x", &[])));
    assert!(story.found().is_empty());
}

#[test]
fn owner_of_a_kind_that_is_not_served_is_not_absent() {
    let mut story = pair();
    story.user(
        X,
        &object("x", &[reference("extensions/v1beta1", "Deployment", "web")]),
    );
    story.delete(GC, X);
    assert_eq!(story.found(), ["S2"]);
}

#[test]
fn owner_of_a_removed_kind_that_was_removed_is_absent() {
    let mut story = pair();
    let (definition, widget) = ((DEFINITIONS, "widgets"), ("widgets.example.com", "default/w"));
    story.user(definition, &widgets(&["v1"]));
    story.user(widget, &object("w", &[]));
    story.user(X, &object("x", &[reference("example.com/v1", "Widget", "w")]));
    story.user_removes(widget);
    story.user_removes(definition);
    story.delete(GC, X);
    assert!(story.found().is_empty());
}

#[test]
fn owner_that_exists_in_another_version_is_not_absent() {
    let mut story = pair();
    let (definition, widget) = ((DEFINITIONS, "widgets"), ("widgets.example.com", "default/w"));
    story.user(definition, &widgets(&["v1", "v2"]));
    story.user(widget, &object("w", &[]));
    story.user(X, &object("x", &[reference("example.com/v1", "Widget", "w")]));
    story.user(definition, &widgets(&["v2"]));
    story.delete(GC, X);
    assert_eq!(story.found(), ["S2"]);
}

#[test]
fn namespaced_owner_of_a_cluster_scoped_object_is_not_absent() {
    for (owner, expected) in [
        (to_map("absent"), vec!["S2"]),
        (reference("v1", "Node", "absent"), vec![]),
    ] {
        let mut story = Story::new();
        let path = ("clusterroles.rbac.authorization.k8s.io", "x");
        story.user(path, &object("x", &[owner]));
        story.delete(GC, path);
        assert_eq!(story.found(), expected);
    }
}

/// Deletes the dependent `seconds` after its owner, while pods fail.
fn delayed(seconds: f64) -> Vec<&'static str> {
    let mut story = Story::with(Rules {
        isolation: Some(super::super::Isolation {
            broken: BTreeSet::from([PODS.to_owned()]),
            within: Duration::from_secs(1),
        }),
        ..rules()
    });
    story.user(OWNER, &object("owner", &[]));
    story.user(X, &object("x", &[to_map("owner")]));
    story.user((PODS, "default/p"), &object("p", &[to_map("owner")]));
    story.user_removes(OWNER);
    story.wait(seconds);
    story.delete(GC, X);
    story.wait(60.0);
    story.delete(GC, (PODS, "default/p"));
    story.found()
}

#[test]
fn delay_by_another_resource_violates_l3() {
    assert_eq!(delayed(1.5), ["L3"]);
    assert!(delayed(0.5).is_empty());
}

/// The collector removes the finalizer of the owner.
fn finish(story: &mut Story) -> Vec<&'static str> {
    story.user(OWNER, &terminating(object("owner", &[]), &["foregroundDeletion"]));
    story.write(GC, "patch", OWNER, None);
    story.found()
}

#[test]
fn foreground_deletion_before_a_known_dependent_violates_s4() {
    assert_eq!(finish(&mut pair()), ["S4"]);
}

#[test]
fn foreground_deletion_before_an_unknown_dependent_is_allowed() {
    let mut story = Story::new();
    story.user(OWNER, &object("owner", &[]));
    story.deliver(0, MAPS);
    story.user(X, &object("x", &[blocking(to_map("owner"))]));
    assert!(finish(&mut story).is_empty());
}

#[test]
fn foreground_deletion_after_the_blocking_dependents_is_allowed() {
    let mut story = pair();
    story.user(X, &object("x", &[to_map("owner")]));
    story.deliver(0, MAPS);
    assert!(finish(&mut story).is_empty());
}

#[test]
fn finalizer_of_another_client_is_kept() {
    let mut story = pair();
    let owner = object("owner", &[]);
    story.user(
        OWNER,
        &terminating(owner.clone(), &["orphan", "example.com/wait"]),
    );
    story.write(
        GC,
        "patch",
        OWNER,
        Some(&terminating(owner.clone(), &["example.com/wait"])),
    );
    assert!(story.found().is_empty());
    story.write(GC, "patch", OWNER, Some(&terminating(owner, &[])));
    assert_eq!(story.found(), ["S4"]);
}

#[test]
fn finalizer_of_an_object_that_is_not_terminating_is_kept() {
    let mut story = Story::new();
    let mut owner = object("owner", &[]);
    owner["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    story.user(OWNER, &owner);
    story.write(GC, "patch", OWNER, Some(&object("owner", &[])));
    assert_eq!(story.found(), ["S4"]);
}

/// A new process removes the finalizer of an owner whose dependent is older, `seconds` after its start.
fn finish_in_a_new_term(seconds: f64) -> Vec<&'static str> {
    let mut story = pair();
    story.user(OWNER, &terminating(object("owner", &[]), &["foregroundDeletion"]));
    story.end(0, false);
    story.start(1);
    story.wait(seconds);
    story.write((1, GC.1), "patch", OWNER, None);
    story.found()
}

#[test]
fn foreground_deletion_before_an_older_dependent_in_a_new_term_violates_s4() {
    assert_eq!(finish_in_a_new_term(29.0), ["S4"]);
    // The collector does not wait longer for a kind that cannot be read.
    assert!(finish_in_a_new_term(31.0).is_empty());
}

#[test]
fn late_end_of_a_foreground_or_orphan_deletion_violates_l2() {
    for (finalizer, seconds, expected) in [
        ("foregroundDeletion", 2.0, vec!["L2"]),
        ("orphan", 2.0, vec!["L2"]),
        ("orphan", 0.5, vec![]),
    ] {
        let mut story = Story::with(Rules {
            isolation: Some(super::super::Isolation {
                broken: BTreeSet::new(),
                within: Duration::from_secs(1),
            }),
            ..rules()
        });
        story.user(OWNER, &terminating(object("owner", &[]), &[finalizer]));
        story.wait(seconds);
        story.write(GC, "patch", OWNER, None);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn delay_of_an_object_that_fails_is_allowed() {
    for (broken, expected) in [
        ("configmaps default/x", vec![]),
        ("configmaps default/y", vec!["L3"]),
    ] {
        let mut story = Story::with(Rules {
            isolation: Some(super::super::Isolation {
                broken: BTreeSet::from([broken.to_owned()]),
                within: Duration::from_secs(1),
            }),
            ..rules()
        });
        story.user(OWNER, &object("owner", &[]));
        story.user(X, &object("x", &[to_map("owner")]));
        story.user_removes(OWNER);
        story.wait(2.0);
        story.delete(GC, X);
        assert_eq!(story.found(), expected);
    }
}

/// The kind of an owner is removed with the owner; its dependent stays.
#[test]
fn dependent_of_a_removed_kind_violates_l2_without_faults() {
    for (collects_removed_kinds, faults, expected) in
        [(true, 0, vec!["L2"]), (true, 1, vec![]), (false, 0, vec![])]
    {
        let mut story = Story::with(Rules {
            collects_removed_kinds,
            ..rules()
        });
        for _ in 0..faults {
            story.fault("F20");
        }
        let widget = ("widgets.example.com", "default/w");
        story.user((DEFINITIONS, "widgets"), &widgets(&["v1"]));
        story.user(widget, &object("w", &[]));
        story.user(X, &object("x", &[reference("example.com/v1", "Widget", "w")]));
        story.user_removes(widget);
        story.user_removes((DEFINITIONS, "widgets"));
        assert_eq!(story.rest(), expected);
    }
}
