//! Several owners, and how an object is deleted.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn one_owner_that_lives_keeps_the_object_and_the_others_are_struck_off() {
    let (dead, alive) = (thing(&SET, "dead"), thing(&SET, "alive"));
    let waiting = thing(&SET, "waiting").deleting(&[FOREGROUND]);
    let pod = thing(&POD, "pod").refers(&[dead.reference(), alive.reference(), waiting.blocking()]);
    let mut scene = Scene::with(&[&dead, &alive, &waiting, &pod]);
    let _ = scene.lose(&dead);
    assert_eq!(scene.judge(&pod), ask(&waiting));
    scene.answer(&waiting, Live::Waiting);
    let act = scene.act(&pod);
    let uids = vec![dead.meta.uid.clone(), waiting.meta.uid.clone()];
    let remaining = [alive.reference()].into();
    assert_eq!(act.deed, Deed::RemoveOwners { uids, remaining });
    assert_eq!(act.because.len(), 2);
}

#[test]
fn who_is_being_deleted_otherwise_holds_its_dependents() {
    for finalizers in [&["example.com/hold"][..], &[ORPHAN], &[]] {
        let set = thing(&SET, "set").deleting(finalizers);
        let pod = thing(&POD, "pod").refers(&[set.reference()]);
        assert_eq!(Scene::with(&[&set, &pod]).judge(&pod), Judgement::Nothing);
    }
}

#[test]
fn a_right_and_a_wrong_reference_to_one_owner_stay_together() {
    let set = thing(&SET, "set");
    let wrong = set.clone().named("wrong");
    let dead = thing(&SET, "dead");
    let pod = thing(&POD, "pod").refers(&[wrong.reference(), set.reference()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.graph.absent(&wrong.identity(), Proof::NotFound);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    let pod = pod
        .refers(&[wrong.reference(), set.reference(), dead.reference()])
        .at(2);
    let _ = scene.see(&pod);
    let _ = scene.graph.absent(&dead.identity(), Proof::NotFound);
    let Deed::RemoveOwners { uids, remaining } = scene.deed(&pod) else {
        panic!("it is held")
    };
    assert_eq!((uids, remaining.len()), (vec![dead.meta.uid], 2));
}

#[test]
fn the_policy_is_the_one_that_the_object_asks_for() {
    let set = thing(&SET, "set");
    for (finalizer, policy) in [
        (ORPHAN, Propagation::Orphan),
        (FOREGROUND, Propagation::Foreground),
        ("example.com/hold", Propagation::Background),
    ] {
        let pod = thing(&POD, "pod")
            .refers(&[set.reference()])
            .finalizers(&[finalizer]);
        let mut scene = Scene::with(&[&set, &pod]);
        let _ = scene.lose(&set);
        assert_eq!(scene.deed(&pod), Deed::Delete(policy));
    }
}

#[test]
fn who_is_waited_for_and_has_dependents_waits_for_them_too() {
    let top = thing(&SET, "top").deleting(&[FOREGROUND]);
    let middle = thing(&SET, "middle").refers(&[top.blocking()]);
    let leaf = thing(&POD, "leaf").refers(&[middle.blocking()]);
    let mut scene = Scene::with(&[&top, &middle, &leaf]);
    scene.answer(&top, Live::Waiting);
    assert_eq!(scene.deed(&middle), Deed::Delete(Propagation::Foreground));
    // Its dependent is on its way out already: that is no circle, and no reason to let the owner go first.
    let _ = scene.see(&leaf.clone().deleting(&[FOREGROUND]).at(2));
    assert_eq!(scene.deed(&middle), Deed::Delete(Propagation::Foreground));
    let middle = middle.finalizers(&[ORPHAN]).at(3);
    let _ = scene.see(&middle);
    assert_eq!(scene.deed(&middle), Deed::Delete(Propagation::Orphan));
}

#[test]
fn all_that_has_to_be_asked_is_asked_at_once_and_once() {
    let (one, two) = (thing(&SET, "one"), thing(&SET, "two"));
    let pod = thing(&POD, "pod").refers(&[one.reference(), two.reference(), one.blocking()]);
    let scene = Scene::with(&[&pod]);
    let Judgement::Ask(questions) = scene.judge(&pod) else {
        panic!("nothing is known")
    };
    let asked: Vec<Identity> = questions.into_iter().map(|it| it.identity).collect();
    assert_eq!(asked, [one.identity(), two.identity()]);
}

#[test]
fn without_owners_or_on_its_way_out_there_is_nothing_to_do() {
    let set = thing(&SET, "set");
    let free = thing(&POD, "free");
    let leaving = thing(&POD, "leaving")
        .refers(&[set.reference()])
        .deleting(&["example.com/hold"]);
    let mut scene = Scene::with(&[&set, &free, &leaving]);
    let _ = scene.lose(&set);
    for thing in [&free, &leaving, &set] {
        assert_eq!(scene.judge(thing), Judgement::Nothing);
    }
}

#[test]
fn a_state_without_a_version_is_not_acted_on() {
    let set = thing(&SET, "set");
    let mut pod = thing(&POD, "pod").refers(&[set.reference()]);
    pod.meta.resource_version = Version::none();
    let mut waiting = thing(&SET, "waiting").deleting(&[FOREGROUND]);
    waiting.meta.resource_version = Version::none();
    let mut scene = Scene::with(&[&set, &pod, &waiting]);
    let _ = scene.lose(&set);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    assert_eq!(scene.judge(&waiting), Judgement::Nothing);
    let _ = scene.see(&pod.at(3));
    assert_eq!(scene.act(&thing(&POD, "pod")).version, "3".into());
}

#[test]
fn with_a_solid_owner_those_that_no_cache_shows_are_not_waited_for() {
    let (alive, dead, unseen) = (thing(&SET, "alive"), thing(&SET, "dead"), thing(&SET, "unseen"));
    let pod = thing(&POD, "pod").refers(&[alive.reference(), dead.reference(), unseen.reference()]);
    let mut scene = Scene::with(&[&alive, &dead, &pod]);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    let _ = scene.lose(&dead);
    let Deed::RemoveOwners { uids, .. } = scene.deed(&pod) else {
        panic!("it has a solid owner")
    };
    assert_eq!(uids, [dead.meta.uid]);
    let effects = scene.graph.absent(&unseen.identity(), Proof::NotFound);
    assert_eq!(effects, look(&[pod.object()]));
}
