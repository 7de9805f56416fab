//! When an owner counts as gone.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn what_its_owner_leaves_behind_is_deleted() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]).at(7);
    let mut scene = Scene::with(&[&set, &pod]);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    assert_eq!(scene.lose(&set), look(&[pod.object()]));
    let act = scene.act(&pod);
    assert_eq!(act.deed, Deed::Delete(Propagation::Background));
    assert_eq!(
        (act.key, act.uid, act.version),
        (pod.meta.key(), pod.meta.uid.clone(), "7".into())
    );
    let verdict = Verdict::Absent(Proof::Watched);
    assert_eq!(
        act.because,
        [Reason {
            owner: set.identity(),
            verdict
        }]
    );
}

#[test]
fn an_owner_that_no_cache_shows_is_asked_for_once() {
    let set = thing(&SET, "set");
    let first = thing(&POD, "first").refers(&[set.reference()]);
    let second = thing(&POD, "second").refers(&[set.reference()]);
    let mut scene = Scene::settled();
    assert_eq!(scene.see(&first), look(&[set.owner()]));
    assert_eq!(scene.see(&second), Effects::default());
    assert_eq!(scene.graph.judge(&set.owner(), scene.now), ask(&set));
    assert_eq!(scene.judge(&first), ask(&set));
    scene.answer(&set, Live::Solid);
    assert_eq!(scene.graph.judge(&set.owner(), scene.now), Judgement::Poll);
    assert_eq!(scene.judge(&first), Judgement::Nothing);
    scene.pass(FRESH);
    assert_eq!(scene.judge(&first), Judgement::Nothing);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.judge(&first), ask(&set), "a second is over");
    let effects = scene.graph.absent(&set.identity(), Proof::NotFound);
    assert_eq!(effects, look(&[first.object(), second.object()]));
    assert_eq!(scene.deed(&second), Deed::Delete(Propagation::Background));
    assert_eq!(scene.graph.judge(&set.owner(), scene.now), Judgement::Nothing);
}

#[test]
fn an_owner_that_was_recreated_under_its_name_is_gone() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let again = set.clone().uid("other").at(5);
    // The new one was shown and the old one never: that is no proof.
    let mut scene = Scene::with(&[&again, &pod]);
    assert_eq!(scene.judge(&pod), ask(&set));
    let proof = Proof::OtherUid(again.meta.uid.clone());
    let effects = scene.graph.absent(&set.identity(), proof.clone());
    assert_eq!(effects, look(&[pod.object()]));
    let act = scene.act(&pod);
    assert_eq!(act.deed, Deed::Delete(Propagation::Background));
    assert_eq!(act.because[0].verdict, Verdict::Absent(proof));
    assert_eq!(scene.graph.judge(&again.object(), scene.now), Judgement::Nothing);
}

#[test]
fn dependent_created_after_its_owner_is_gone_costs_one_question() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set]);
    assert_eq!(scene.lose(&set), Effects::default());
    assert_eq!(scene.see(&pod), look(&[set.owner()]));
    assert_eq!(scene.judge(&pod), ask(&set));
    let effects = scene.graph.absent(&set.identity(), Proof::NotFound);
    assert_eq!(effects, look(&[pod.object()]));
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
}

/// Each differs from the one that is gone in one coordinate.
#[test]
fn a_tombstone_is_of_one_identity_only() {
    let gone = thing(&WIDGET, "w");
    let others = [
        gone.clone().uid("other"),
        gone.clone().named("other"),
        gone.clone().within("b"),
        Thing {
            kind: kind(&SET),
            ..gone.clone()
        },
    ];
    for other in others {
        let mut scene = Scene::with(&[&gone]);
        let _ = scene.lose(&gone);
        let pod = thing(&POD, "pod")
            .within(&other.meta.namespace)
            .refers(&[other.reference()]);
        assert_eq!(scene.see(&pod), look(&[other.owner()]));
        assert_eq!(scene.judge(&pod), ask(&other));
    }
}

/// A store that was restored with a higher revision shows the owner and its dependents again: a tombstone that outlived
/// them would delete the dependents of a living owner.
#[test]
fn tombstone_is_dropped_with_its_last_dependent() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.lose(&set);
    assert_eq!(
        scene.graph.tombstones.proof(&set.identity()),
        Some(&Proof::Watched)
    );
    let _ = scene.lose(&pod);
    assert_eq!(scene.graph.tombstones.held().count(), 0);
    // Restored: the dependent is shown before its owner.
    assert_eq!(scene.see(&pod.clone().at(9)), look(&[set.owner()]));
    assert_eq!(scene.judge(&pod), ask(&set));
    let _ = scene.see(&set.at(9));
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
}

#[test]
fn an_answer_that_was_overtaken_is_not_heard() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.lose(&set);
    scene.answer(&set, Live::Solid);
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
    assert_eq!(scene.graph.answers.len(), 0);
}

#[test]
fn answers_do_not_pile_up() {
    let mut scene = Scene::settled();
    for n in 0..100 {
        scene.answer(&thing(&SET, &format!("set-{n}")), Live::Solid);
        scene.pass(FRESH / 4);
    }
    assert!(scene.graph.answers.len() <= 5);
}

#[test]
fn an_owner_of_a_kind_or_version_that_nobody_serves_is_never_gone() {
    for unserved in [
        Resource::namespaced("example.com", "v1", "gadgets", "Gadget"),
        Resource::namespaced("apps", "v1beta9", "replicasets", "ReplicaSet"),
        Resource::namespaced("", "v1", "replicasets", "ReplicaSet"),
    ] {
        let owner = thing(&unserved, "owner");
        let dead = thing(&SET, "dead");
        let pod = thing(&POD, "pod").refers(&[dead.reference(), owner.reference()]);
        let mut scene = Scene::with(&[&dead, &pod]);
        let _ = scene.lose(&dead);
        let unresolvable = || Judgement::Unresolvable(owner.identity());
        assert_eq!(scene.judge(&pod), unresolvable());
        assert_eq!(scene.graph.judge(&owner.owner(), scene.now), unresolvable());
    }
}

#[test]
fn a_reference_without_uid_or_name_is_never_resolved() {
    let set = thing(&SET, "set");
    for broken in [set.clone().uid(""), set.clone().named("")] {
        let pod = thing(&POD, "pod").refers(&[broken.reference()]);
        let mut scene = Scene::with(&[&pod]);
        assert_eq!(scene.judge(&pod), Judgement::Unresolvable(broken.identity()));
        let _ = scene.graph.absent(&broken.identity(), Proof::NotFound);
        assert_eq!(scene.judge(&pod), Judgement::Unresolvable(broken.identity()));
    }
    let mut scene = Scene::settled();
    let nobody = thing(&POD, "pod").uid("").refers(&[set.reference()]);
    assert_eq!(scene.see(&nobody), Effects::default());
    assert_eq!(scene.graph.nodes(None).count(), 0);
}

#[test]
fn an_object_that_the_api_server_no_longer_has_leaves() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let set = set.deleting(&[FOREGROUND]);
    let mut scene = Scene::with(&[&set, &pod]);
    let effects = scene.graph.absent(&pod.identity(), Proof::NotFound);
    assert_eq!(effects, look(&[set.object()]));
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
}
