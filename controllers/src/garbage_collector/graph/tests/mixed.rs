//! Objects with several owners, and propagation policies.

use steersman_manager::client::Propagation;

use super::*;

#[test]
fn one_solid_owner_keeps_the_object_and_absent_owners_are_removed() {
    let (dead, alive) = (object(&SET, "dead"), object(&SET, "alive"));
    let waiting = object(&SET, "waiting").deleting(&[FOREGROUND]);
    let pod = object(&POD, "pod").refers(&[dead.reference(), alive.reference(), waiting.blocking()]);
    let mut case = Fixture::with(&[&dead, &alive, &waiting, &pod]);
    let _ = case.delete(&dead);
    assert_eq!(case.evaluate(&pod), read(&waiting));
    case.answer(&waiting, LiveState::Waiting);
    let action = case.action(&pod);
    let uids = vec![dead.meta.uid.clone(), waiting.meta.uid.clone()];
    let remaining = [alive.reference()].into();
    assert_eq!(action.operation, Operation::RemoveOwners { uids, remaining });
    assert_eq!(action.reasons.len(), 2);
}

#[test]
fn owner_in_background_deletion_keeps_its_dependents() {
    for finalizers in [&["example.com/hold"][..], &[ORPHAN], &[]] {
        let set = object(&SET, "set").deleting(finalizers);
        let pod = object(&POD, "pod").refers(&[set.reference()]);
        assert_eq!(Fixture::with(&[&set, &pod]).evaluate(&pod), Decision::Nothing);
    }
}

#[test]
fn correct_and_wrong_reference_to_one_owner_are_kept_together() {
    let set = object(&SET, "set");
    let wrong = set.clone().named("wrong");
    let dead = object(&SET, "dead");
    let pod = object(&POD, "pod").refers(&[wrong.reference(), set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.graph.absent(&wrong.identity(), Proof::NotFound);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    let pod = pod
        .refers(&[wrong.reference(), set.reference(), dead.reference()])
        .at(2);
    let _ = case.observe(&pod);
    let _ = case.graph.absent(&dead.identity(), Proof::NotFound);
    let Operation::RemoveOwners { uids, remaining } = case.operation(&pod) else {
        panic!("it is kept")
    };
    assert_eq!((uids, remaining.len()), (vec![dead.meta.uid], 2));
}

#[test]
fn propagation_policy_follows_the_finalizers_of_the_object() {
    let set = object(&SET, "set");
    for (finalizer, policy) in [
        (ORPHAN, Propagation::Orphan),
        (FOREGROUND, Propagation::Foreground),
        ("example.com/hold", Propagation::Background),
    ] {
        let pod = object(&POD, "pod")
            .refers(&[set.reference()])
            .finalizers(&[finalizer]);
        let mut case = Fixture::with(&[&set, &pod]);
        let _ = case.delete(&set);
        assert_eq!(case.operation(&pod), Operation::Delete(policy));
    }
}

#[test]
fn blocking_dependent_with_dependents_is_deleted_in_the_foreground() {
    let top = object(&SET, "top").deleting(&[FOREGROUND]);
    let middle = object(&SET, "middle").refers(&[top.blocking()]);
    let leaf = object(&POD, "leaf").refers(&[middle.blocking()]);
    let mut case = Fixture::with(&[&top, &middle, &leaf]);
    case.answer(&top, LiveState::Waiting);
    assert_eq!(
        case.operation(&middle),
        Operation::Delete(Propagation::Foreground)
    );
    // Its dependent is terminating already: that is not a cycle, and does not unblock the owner.
    let _ = case.observe(&leaf.clone().deleting(&[FOREGROUND]).at(2));
    assert_eq!(
        case.operation(&middle),
        Operation::Delete(Propagation::Foreground)
    );
    let middle = middle.finalizers(&[ORPHAN]).at(3);
    let _ = case.observe(&middle);
    assert_eq!(case.operation(&middle), Operation::Delete(Propagation::Orphan));
}

#[test]
fn all_owners_are_read_in_one_pass_and_once() {
    let (one, two) = (object(&SET, "one"), object(&SET, "two"));
    let pod = object(&POD, "pod").refers(&[one.reference(), two.reference(), one.blocking()]);
    let case = Fixture::with(&[&pod]);
    let Decision::LookUp(lookups) = case.evaluate(&pod) else {
        panic!("nothing is known")
    };
    let asked: Vec<Identity> = lookups.into_iter().map(|it| it.identity).collect();
    assert_eq!(asked, [one.identity(), two.identity()]);
}

#[test]
fn object_without_owners_or_terminating_is_left_alone() {
    let set = object(&SET, "set");
    let free = object(&POD, "free");
    let leaving = object(&POD, "leaving")
        .refers(&[set.reference()])
        .deleting(&["example.com/hold"]);
    let mut case = Fixture::with(&[&set, &free, &leaving]);
    let _ = case.delete(&set);
    for object in [&free, &leaving, &set] {
        assert_eq!(case.evaluate(object), Decision::Nothing);
    }
}

#[test]
fn object_without_a_version_is_left_alone() {
    let set = object(&SET, "set");
    let mut pod = object(&POD, "pod").refers(&[set.reference()]);
    pod.meta.resource_version = Version::none();
    let mut waiting = object(&SET, "waiting").deleting(&[FOREGROUND]);
    waiting.meta.resource_version = Version::none();
    let mut case = Fixture::with(&[&set, &pod, &waiting]);
    let _ = case.delete(&set);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    assert_eq!(case.evaluate(&waiting), Decision::Nothing);
    let _ = case.observe(&pod.at(3));
    assert_eq!(case.action(&object(&POD, "pod")).version, "3".into());
}

#[test]
fn solid_owner_decides_without_virtual_owners() {
    let (alive, dead, virtual_owners) = (
        object(&SET, "alive"),
        object(&SET, "dead"),
        object(&SET, "virtual_owners"),
    );
    let pod = object(&POD, "pod").refers(&[alive.reference(), dead.reference(), virtual_owners.reference()]);
    let mut case = Fixture::with(&[&alive, &dead, &pod]);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    let _ = case.delete(&dead);
    let Operation::RemoveOwners { uids, .. } = case.operation(&pod) else {
        panic!("it has a solid owner")
    };
    assert_eq!(uids, [dead.meta.uid]);
    let effects = case.graph.absent(&virtual_owners.identity(), Proof::NotFound);
    assert_eq!(effects, items(&[pod.item()]));
}
