//! References that are wrong: they harm the object that has them, and no other.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn a_bad_child_does_not_harm_the_good_ones() {
    let set = thing(&SET, "set");
    let good = thing(&POD, "good").refers(&[set.reference()]);
    let bad = [
        thing(&POD, "bad").within("b").refers(&[set.reference()]),
        thing(&POD, "bad").refers(&[set.clone().named("other").reference()]),
        thing(&POD, "bad").refers(&[Thing {
            kind: kind(&WIDGET),
            ..set.clone()
        }
        .reference()]),
    ];
    for bad in bad {
        let meant = Identity::meant(
            &kinds(&ALL, &WATCHED),
            &bad.meta.owner_references[0],
            &bad.meta.namespace,
        );
        let meant = meant.expect("a scope that fits");
        // Whoever is told first.
        for order in [[&bad, &set, &good], [&set, &good, &bad], [&good, &bad, &set]] {
            let mut scene = Scene::with(&order);
            let effects = scene.graph.absent(&meant, Proof::NotFound);
            assert_eq!(effects, look(&[bad.object()]));
            assert_eq!(scene.deed(&bad), Deed::Delete(Propagation::Background));
            assert_eq!(scene.judge(&good), Judgement::Nothing, "{order:?}");
            assert_eq!(scene.judge(&set), Judgement::Nothing);
            let _ = scene.lose(&bad);
            assert_eq!(scene.lose(&set), look(&[good.object()]));
        }
    }
}

#[test]
fn a_reference_into_another_namespace_is_told_once() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").within("b").refers(&[set.reference()]);
    let told = vec![Misplaced {
        kind: pod.kind.clone(),
        key: pod.meta.key(),
        uid: pod.meta.uid.clone(),
        reference: set.reference(),
    }];
    let mut scene = Scene::with(&[&set]);
    let effects = scene.see(&pod);
    assert_eq!(effects.misplaced, told);
    assert_eq!(effects.look, [set.clone().within("b").owner()]);
    assert_eq!(scene.see(&pod.clone().at(2)), Effects::default());
    assert_eq!(scene.see(&set.clone().at(2)), Effects::default());

    let mut scene = Scene::with(&[&pod]);
    assert_eq!(scene.see(&set).misplaced, told, "when the owner is first shown");
}

#[test]
fn scopes() {
    let node = thing(&NODE, "node");
    let set = thing(&SET, "set");
    // The dependent, its owner, and whether the reference is to it.
    for (dependent, owner, matches) in [
        (thing(&POD, "child"), &set, true),
        (thing(&POD, "child").within("b"), &set, false),
        (thing(&POD, "child"), &node, true),
        (thing(&NODE, "child"), &node, true),
    ] {
        let dependent = dependent.refers(&[owner.reference()]);
        let mut scene = Scene::with(&[owner, &dependent]);
        assert_eq!(
            scene.judge(&dependent) == Judgement::Nothing,
            matches,
            "{dependent:?}"
        );
        let looked = scene.lose(owner).look;
        assert_eq!(looked == [dependent.object()], matches, "{dependent:?}");
    }
}

#[test]
fn a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone() {
    let set = thing(&SET, "set");
    let dead = thing(&NODE, "dead");
    let child = thing(&NODE, "child").refers(&[set.blocking(), dead.reference()]);
    let mut scene = Scene::with(&[&dead]);
    assert_eq!(scene.see(&child), Effects::default(), "nobody can be asked for");
    assert_eq!(scene.see(&set).misplaced.len(), 1);
    let _ = scene.lose(&dead);
    assert_eq!(scene.judge(&child), Judgement::Nothing);
    assert_eq!(scene.lose(&set), Effects::default());
    assert_eq!(scene.judge(&child), Judgement::Nothing);
    // Without that reference it is like any other.
    let child = child.refers(&[dead.reference()]).at(2);
    assert_eq!(scene.see(&child), look(&[child.object()]));
    assert_eq!(scene.deed(&child), Deed::Delete(Propagation::Background));
}

/// A CRD gains a version: references in the old one keep blocking and holding.
#[test]
fn reference_in_another_served_version_is_to_the_same_object() {
    let widget = thing(&WIDGET, "w");
    let old = Thing {
        kind: kind(&OLD_WIDGET),
        ..widget.clone()
    };
    let pod = thing(&POD, "pod").refers(&[old.blocking()]);
    for order in [[&widget, &pod], [&pod, &widget]] {
        let mut scene = Scene::with(&order);
        assert_eq!(scene.judge(&pod), Judgement::Nothing);
        let deleted = widget.clone().deleting(&[FOREGROUND]).at(2);
        assert_eq!(scene.see(&deleted), look(&[pod.object(), widget.object()]));
        assert_eq!(scene.judge(&deleted), Judgement::Nothing, "it blocks");
        assert_eq!(scene.lose(&pod), look(&[widget.object()]));
        assert!(matches!(scene.deed(&deleted), Deed::RemoveFinalizer { .. }));
        let _ = scene.see(&pod);
        assert_eq!(scene.lose(&deleted), look(&[pod.object()]), "no question");
        assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
    }
    // An owner that no cache has shown is asked for in the watched version, once for both.
    let mut scene = Scene::settled();
    assert_eq!(scene.see(&pod), look(&[widget.owner()]));
    let other = thing(&POD, "other").refers(&[widget.reference()]);
    assert_eq!(scene.see(&other), Effects::default());
    assert_eq!(scene.judge(&pod), ask(&widget));
}

#[test]
fn reference_follows_the_versions_that_are_served() {
    let widget = thing(&WIDGET, "w").deleting(&[FOREGROUND]);
    let old = Thing {
        kind: kind(&OLD_WIDGET),
        ..widget.clone()
    };
    let pod = thing(&POD, "pod").refers(&[old.blocking()]);
    let mut scene = Scene::with(&[&widget, &pod]);
    assert_eq!(scene.judge(&widget), Judgement::Nothing);
    // The old version is no longer served: the reference cannot be resolved.
    let without = kinds(&WATCHED, &WATCHED);
    assert_eq!(
        scene.graph.serve(without, scene.now),
        look(&[widget.object(), old.owner()])
    );
    assert_eq!(scene.judge(&pod), Judgement::Unresolvable(old.identity()));
    assert!(matches!(scene.deed(&widget), Deed::RemoveFinalizer { .. }));
    // It is served again.
    let effects = scene.graph.serve(kinds(&ALL, &WATCHED), scene.now);
    assert_eq!(effects, look(&[pod.object()]));
    assert_eq!(scene.judge(&widget), Judgement::Nothing);
}

#[test]
fn an_absence_elsewhere_does_not_remove_who_is_known() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let elsewhere = set.clone().within("b").identity();
    assert_eq!(
        scene.graph.absent(&elsewhere, Proof::NotFound),
        Effects::default()
    );
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    assert!(scene.graph.nodes(None).any(|it| it.identity == set.identity()));
}

#[test]
fn only_a_reference_that_is_right_blocks() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let wrong = [
        set.clone().named("other").blocking(),
        set.reference(),
        Thing {
            kind: kind(&WIDGET),
            ..set.clone()
        }
        .blocking(),
        Thing {
            kind: kind(&Resource::namespaced("apps", "v1", "others", "Other")),
            ..set.clone()
        }
        .blocking(),
        Thing {
            kind: kind(&Resource::namespaced("apps", "v2", "replicasets", "ReplicaSet")),
            ..set.clone()
        }
        .blocking(),
    ];
    let child = thing(&POD, "pod");
    let mut children: Vec<Thing> = wrong
        .iter()
        .map(|it| child.clone().refers(std::slice::from_ref(it)))
        .collect();
    children.push(child.clone().within("b").refers(&[set.blocking()]));
    for child in &children {
        for order in [[&set, child], [child, &set]] {
            let scene = Scene::with(&order);
            assert!(
                matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }),
                "{child:?}"
            );
        }
    }
    let right = child.refers(&[set.blocking()]);
    for order in [[&set, &right], [&right, &set]] {
        assert_eq!(Scene::with(&order).judge(&set), Judgement::Nothing);
    }
}
