//! Wrong references: they affect the object that has them, and no other.

use steersman_manager::client::Propagation;

use super::*;

#[test]
fn wrong_reference_does_not_affect_other_dependents() {
    let set = object(&SET, "set");
    let good = object(&POD, "good").refers(&[set.reference()]);
    let bad = [
        object(&POD, "bad").within("b").refers(&[set.reference()]),
        object(&POD, "bad").refers(&[set.clone().named("other").reference()]),
        object(&POD, "bad").refers(&[Object {
            kind: kind(&WIDGET),
            ..set.clone()
        }
        .reference()]),
    ];
    for bad in bad {
        let meant = Identity::from_reference(
            &kinds(&ALL, &WATCHED),
            &bad.meta.owner_references[0],
            &bad.meta.namespace,
        );
        let meant = meant.expect("a scope that fits");
        // The first one that is observed.
        for order in [[&bad, &set, &good], [&set, &good, &bad], [&good, &bad, &set]] {
            let mut case = Fixture::with(&order);
            let effects = case.graph.absent(&meant, Proof::NotFound);
            assert_eq!(effects, items(&[bad.item()]));
            assert_eq!(case.operation(&bad), Operation::Delete(Propagation::Background));
            assert_eq!(case.evaluate(&good), Decision::Nothing, "{order:?}");
            assert_eq!(case.evaluate(&set), Decision::Nothing);
            let _ = case.delete(&bad);
            assert_eq!(case.delete(&set), items(&[good.item()]));
        }
    }
}

#[test]
fn virtual_owner_with_the_uid_of_a_node_is_polled_after_its_deletion() {
    let set = object(&SET, "set");
    let renamed = set.clone().named("other");
    let pod = object(&POD, "pod").refers(&[renamed.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    case.answer(&renamed, LiveState::Solid);
    let decision = |case: &Fixture| case.graph.evaluate(&renamed.owner_item(), case.now);
    assert_eq!(decision(&case), Decision::Nothing, "its deletion is observed");
    assert_eq!(case.delete(&set), items(&[renamed.owner_item()]));
    assert_eq!(decision(&case), Decision::Poll);
}

#[test]
fn item_counts_against_the_namespace_of_the_object_or_a_dependent() {
    let (set, node) = (object(&SET, "set"), object(&NODE, "node"));
    let pod = object(&POD, "pod").refers(&[node.reference()]);
    let case = Fixture::with(&[&pod]);
    for (item, namespace) in [
        (pod.item(), Some("a")),
        (node.owner_item(), Some("a")),
        (set.within("b").owner_item(), Some("b")),
        (object(&POD, "unknown").item(), None),
        (object(&NODE, "unknown").owner_item(), None),
    ] {
        assert_eq!(case.graph.namespace(&item).as_deref(), namespace, "{item:?}");
    }
}

#[test]
fn reference_into_another_namespace_is_reported_once() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").within("b").refers(&[set.reference()]);
    let reported = vec![InvalidNamespace {
        kind: pod.kind.clone(),
        key: pod.meta.key(),
        uid: pod.meta.uid.clone(),
        reference: set.reference(),
    }];
    let mut case = Fixture::with(&[&set]);
    let effects = case.observe(&pod);
    assert_eq!(effects.invalid_namespace, reported);
    assert_eq!(effects.attempt_to_delete, [set.clone().within("b").owner_item()]);
    assert_eq!(case.observe(&pod.clone().at(2)), Effects::default());
    assert_eq!(case.observe(&set.clone().at(2)), Effects::default());

    let mut case = Fixture::with(&[&pod]);
    assert_eq!(
        case.observe(&set).invalid_namespace,
        reported,
        "when the owner is first shown"
    );
}

#[test]
fn reference_matches_an_owner_of_the_right_scope_only() {
    let node = object(&NODE, "node");
    let set = object(&SET, "set");
    // The dependent, its owner, and whether the reference matches it.
    for (dependent, owner, matches) in [
        (object(&POD, "child"), &set, true),
        (object(&POD, "child").within("b"), &set, false),
        (object(&POD, "child"), &node, true),
        (object(&NODE, "child"), &node, true),
    ] {
        let dependent = dependent.refers(&[owner.reference()]);
        let mut case = Fixture::with(&[owner, &dependent]);
        assert_eq!(
            case.evaluate(&dependent) == Decision::Nothing,
            matches,
            "{dependent:?}"
        );
        let looked = case.delete(owner).attempt_to_delete;
        assert_eq!(looked == [dependent.item()], matches, "{dependent:?}");
    }
}

#[test]
fn cluster_scoped_object_with_a_namespaced_owner_is_kept() {
    let set = object(&SET, "set");
    let dead = object(&NODE, "dead");
    let child = object(&NODE, "child").refers(&[set.blocking(), dead.reference()]);
    let mut case = Fixture::with(&[&dead]);
    assert_eq!(case.observe(&child), Effects::default(), "cannot be read");
    assert_eq!(case.observe(&set).invalid_namespace.len(), 1);
    let _ = case.delete(&dead);
    assert_eq!(case.evaluate(&child), Decision::Nothing);
    assert_eq!(case.delete(&set), Effects::default());
    assert_eq!(case.evaluate(&child), Decision::Nothing);
    // Without that reference the object is evaluated as usual.
    let child = child.refers(&[dead.reference()]).at(2);
    assert_eq!(case.observe(&child), items(&[child.item()]));
    assert_eq!(case.operation(&child), Operation::Delete(Propagation::Background));
}

/// A CRD gains a version: references in the old one keep blocking, and keep their objects.
#[test]
fn reference_in_another_served_version_is_to_the_same_object() {
    let widget = object(&WIDGET, "w");
    let old = Object {
        kind: kind(&OLD_WIDGET),
        ..widget.clone()
    };
    let pod = object(&POD, "pod").refers(&[old.blocking()]);
    for order in [[&widget, &pod], [&pod, &widget]] {
        let mut case = Fixture::with(&order);
        assert_eq!(case.evaluate(&pod), Decision::Nothing);
        let deleted = widget.clone().deleting(&[FOREGROUND]).at(2);
        assert_eq!(case.observe(&deleted), items(&[pod.item(), widget.item()]));
        assert_eq!(case.evaluate(&deleted), Decision::Nothing, "it blocks");
        assert_eq!(case.delete(&pod), items(&[widget.item()]));
        assert!(matches!(
            case.operation(&deleted),
            Operation::RemoveFinalizer { .. }
        ));
        let _ = case.observe(&pod);
        assert_eq!(case.delete(&deleted), items(&[pod.item()]), "no lookup");
        assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    }
    // A virtual owner is read in the watched version, once for both references.
    let mut case = Fixture::synced();
    assert_eq!(case.observe(&pod), items(&[widget.owner_item()]));
    let other = object(&POD, "other").refers(&[widget.reference()]);
    assert_eq!(case.observe(&other), Effects::default());
    assert_eq!(case.evaluate(&pod), read(&widget));
}

#[test]
fn reference_follows_the_served_versions() {
    let widget = object(&WIDGET, "w").deleting(&[FOREGROUND]);
    let old = Object {
        kind: kind(&OLD_WIDGET),
        ..widget.clone()
    };
    let pod = object(&POD, "pod").refers(&[old.blocking()]);
    let mut case = Fixture::with(&[&widget, &pod]);
    assert_eq!(case.evaluate(&widget), Decision::Nothing);
    // The old version is no longer served: the reference cannot be resolved.
    let without = kinds(&WATCHED, &WATCHED);
    assert_eq!(
        case.graph.set_kinds(without, case.now),
        items(&[widget.item(), old.owner_item()])
    );
    assert_eq!(case.evaluate(&pod), Decision::Unresolvable(old.identity()));
    assert!(matches!(
        case.operation(&widget),
        Operation::RemoveFinalizer { .. }
    ));
    // The version is served again.
    let effects = case.graph.set_kinds(kinds(&ALL, &WATCHED), case.now);
    assert_eq!(effects, items(&[pod.item()]));
    assert_eq!(case.evaluate(&widget), Decision::Nothing);
}

#[test]
fn absence_in_another_namespace_does_not_remove_the_node() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let elsewhere = set.clone().within("b").identity();
    assert_eq!(case.graph.absent(&elsewhere, Proof::NotFound), Effects::default());
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    assert!(case.graph.nodes(None).any(|it| it.identity == set.identity()));
}

#[test]
fn only_a_correct_reference_blocks() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let wrong = [
        set.clone().named("other").blocking(),
        set.reference(),
        Object {
            kind: kind(&WIDGET),
            ..set.clone()
        }
        .blocking(),
        Object {
            kind: kind(&Resource::namespaced("apps", "v1", "others", "Other")),
            ..set.clone()
        }
        .blocking(),
        Object {
            kind: kind(&Resource::namespaced("apps", "v2", "replicasets", "ReplicaSet")),
            ..set.clone()
        }
        .blocking(),
    ];
    let child = object(&POD, "pod");
    let mut children: Vec<Object> = wrong
        .iter()
        .map(|it| child.clone().refers(std::slice::from_ref(it)))
        .collect();
    children.push(child.clone().within("b").refers(&[set.blocking()]));
    for child in &children {
        for order in [[&set, child], [child, &set]] {
            let case = Fixture::with(&order);
            assert!(
                matches!(case.operation(&set), Operation::RemoveFinalizer { .. }),
                "{child:?}"
            );
        }
    }
    let right = child.refers(&[set.blocking()]);
    for order in [[&set, &right], [&right, &set]] {
        assert_eq!(Fixture::with(&order).evaluate(&set), Decision::Nothing);
    }
}
