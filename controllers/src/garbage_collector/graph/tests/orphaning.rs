//! Orphaning of dependents.

use super::super::orphan::ORPHANED_OWNERS_MAX;
use super::*;

#[test]
fn dependents_are_orphaned_before_the_owner_is_deleted() {
    let set = object(&SET, "set");
    let other = object(&SET, "other");
    let pod = object(&POD, "pod")
        .refers(&[set.reference(), other.reference()])
        .at(5);
    let wrong = object(&POD, "wrong").within("b").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &other, &pod, &wrong]);
    assert_eq!(case.graph.orphan_dependents(&set.meta.uid, usize::MAX), []);
    assert_eq!(case.graph.remove_orphan_finalizer(&set.meta.uid), None);
    let set = set.deleting(&["a", ORPHAN, "b"]).at(6);
    let effects = case.observe(&set);
    assert_eq!(
        (effects.attempt_to_delete, effects.attempt_to_orphan),
        (vec![], vec![set.meta.uid.clone()])
    );
    let actions = case.graph.orphan_dependents(&set.meta.uid, usize::MAX);
    let uids = vec![set.meta.uid.clone()];
    let remaining = [other.reference()].into();
    assert_eq!(actions.len(), 2, "all objects with its uid");
    assert_eq!(case.graph.orphan_dependents(&set.meta.uid, 1), actions[..1]);
    assert_eq!(actions[0].operation, Operation::RemoveOwners { uids, remaining });
    assert_eq!(
        (actions[0].uid.clone(), actions[0].version.clone()),
        (pod.meta.uid.clone(), "5".into())
    );
    let action = case
        .graph
        .remove_orphan_finalizer(&set.meta.uid)
        .expect("it is orphaning");
    let rest = ["a".into(), "b".into()].into();
    let finalizer = ORPHAN;
    assert_eq!(action.operation, Operation::RemoveFinalizer { finalizer, rest });
    assert_eq!(action.version, "6".into());
}

#[test]
fn new_dependent_of_an_orphaning_owner_is_orphaned() {
    let set = object(&SET, "set").deleting(&[ORPHAN]);
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set]);
    assert_eq!(
        case.observe(&pod).attempt_to_orphan,
        std::slice::from_ref(&set.meta.uid)
    );
}

#[test]
fn late_dependent_is_orphaned_not_deleted() {
    let (set, dead) = (object(&SET, "set").deleting(&[ORPHAN]), object(&SET, "dead"));
    let mut case = Fixture::with(&[&set, &dead]);
    case.graph.add_orphaned_owner(&set.meta.uid);
    let _ = case.delete(&set);
    let _ = case.delete(&dead);
    let pod = object(&POD, "pod").refers(&[set.reference(), dead.reference()]);
    assert_eq!(
        case.observe(&pod),
        items(&[pod.item(), dead.owner_item(), set.owner_item()])
    );
    let _ = case.graph.absent(&dead.identity(), Proof::NotFound);
    let _ = case.graph.absent(&set.identity(), Proof::NotFound);
    let action = case.action(&pod);
    let uids = vec![dead.meta.uid.clone(), set.meta.uid.clone()];
    let remaining = [].into();
    assert_eq!(action.operation, Operation::RemoveOwners { uids, remaining });
    assert_eq!(action.reasons[0].state, OwnerState::Orphaning);
}

#[test]
fn orphan_finalizer_without_deletion_orphans_no_dependent() {
    let set = object(&SET, "set").finalizers(&[ORPHAN]);
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&pod]);
    assert_eq!(case.observe(&set), Effects::default());
    assert_eq!(case.graph.orphan_dependents(&set.meta.uid, usize::MAX), []);
    assert_eq!(case.graph.remove_orphan_finalizer(&set.meta.uid), None);
    assert_eq!(
        case.observe(&set.clone().deleting(&[ORPHAN]).at(2))
            .attempt_to_orphan
            .len(),
        1
    );
}

/// A restore can bring back the owner, or its dependents only.
#[test]
fn late_dependent_is_orphaned_until_its_owner_exists_again() {
    let set = object(&SET, "set");
    let orphaning = set.clone().deleting(&[ORPHAN]).at(5);
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&orphaning]);
    case.graph.add_orphaned_owner(&set.meta.uid);
    let _ = case.delete(&orphaning);
    let _ = case.observe(&pod);
    assert_eq!(case.evaluate(&pod), read(&set));
    let _ = case.graph.absent(&set.identity(), Proof::NotFound);
    assert!(matches!(case.operation(&pod), Operation::RemoveOwners { .. }));
    let mut exists_again = |listed: &str| {
        let _ = case
            .graph
            .observe_listed(&set.kind, &set.meta, (&listed.into(), None));
        assert_eq!(case.evaluate(&pod), Decision::Nothing);
        let _ = case.delete(&set);
        case.operation(&pod)
    };
    // A cache of another version of the kind may be behind.
    assert!(matches!(exists_again("4"), Operation::RemoveOwners { .. }));
    assert!(matches!(exists_again("5"), Operation::Delete(_)));
}

#[test]
fn orphaned_owner_exists_again_at_an_earlier_revision() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set.clone().deleting(&[ORPHAN]).at(5), &pod]);
    case.graph.add_orphaned_owner(&set.meta.uid);
    let _ = case.graph.reset();
    let _ = case
        .graph
        .observe_listed(&set.kind, &set.meta, (&"4".into(), None));
    let _ = case.delete(&set);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

#[test]
fn owner_that_is_not_orphaned_is_no_orphaned_owner() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    case.graph.add_orphaned_owner(&set.meta.uid);
    let _ = case.delete(&set);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

#[test]
fn orphaned_owner_that_is_gone_keeps_its_version() {
    let set = object(&SET, "set");
    let orphaning = set.clone().deleting(&[ORPHAN]).at(5);
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&orphaning, &pod]);
    case.graph.add_orphaned_owner(&set.meta.uid);
    let _ = case.delete(&orphaning);
    case.graph.add_orphaned_owner(&set.meta.uid);
    let _ = case
        .graph
        .observe_listed(&set.kind, &set.meta, (&"4".into(), None));
    let _ = case.delete(&set);
    assert!(matches!(case.operation(&pod), Operation::RemoveOwners { .. }));
}

#[test]
fn orphaned_owners_outlive_the_graph_and_are_bounded() {
    let mut case = Fixture::synced();
    for n in 0..=ORPHANED_OWNERS_MAX {
        case.graph.add_orphaned_owner(&Uid::from(&*format!("uid-{n}")));
    }
    let next = Graph::new(case.graph.orphaned_owners());
    let knows = |n: usize| next.orphaned_owners.contains(&Uid::from(&*format!("uid-{n}")));
    assert!(!knows(0) && knows(1) && knows(ORPHANED_OWNERS_MAX));
}
