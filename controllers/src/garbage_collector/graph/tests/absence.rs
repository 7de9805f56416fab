//! Proofs that an owner is absent.

use steersman_manager::client::Propagation;

use super::*;

#[test]
fn dependent_of_a_deleted_owner_is_deleted() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]).at(7);
    let mut case = Fixture::with(&[&set, &pod]);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    assert_eq!(case.delete(&set), items(&[pod.item()]));
    let action = case.action(&pod);
    assert_eq!(action.operation, Operation::Delete(Propagation::Background));
    assert_eq!(
        (action.key, action.uid, action.version),
        (pod.meta.key(), pod.meta.uid.clone(), "7".into())
    );
    let state = OwnerState::Absent(Proof::Watched);
    assert_eq!(
        action.reasons,
        [Reason {
            owner: set.identity(),
            state
        }]
    );
}

#[test]
fn virtual_owner_is_read_once() {
    let set = object(&SET, "set");
    let first = object(&POD, "first").refers(&[set.reference()]);
    let second = object(&POD, "second").refers(&[set.reference()]);
    let mut case = Fixture::synced();
    assert_eq!(case.observe(&first), items(&[set.owner_item()]));
    assert_eq!(case.observe(&second), Effects::default());
    assert_eq!(case.graph.evaluate(&set.owner_item(), case.now), read(&set));
    assert_eq!(case.evaluate(&first), read(&set));
    case.answer(&set, LiveState::Solid);
    assert_eq!(case.graph.evaluate(&set.owner_item(), case.now), Decision::Poll);
    assert_eq!(case.evaluate(&first), Decision::Nothing);
    case.advance(FRESH);
    assert_eq!(case.evaluate(&first), Decision::Nothing);
    case.advance(Duration::from_millis(1));
    assert_eq!(case.evaluate(&first), read(&set), "a second is over");
    let effects = case.graph.absent(&set.identity(), Proof::NotFound);
    assert_eq!(effects, items(&[first.item(), second.item()]));
    assert_eq!(
        case.operation(&second),
        Operation::Delete(Propagation::Background)
    );
    assert_eq!(
        case.graph.evaluate(&set.owner_item(), case.now),
        Decision::Nothing
    );
}

#[test]
fn owner_recreated_under_its_name_is_absent() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let again = set.clone().uid("other").at(5);
    // A cache showed the new object and never the old one: that does not prove its absence.
    let mut case = Fixture::with(&[&again, &pod]);
    assert_eq!(case.evaluate(&pod), read(&set));
    let proof = Proof::OtherUid(again.meta.uid.clone());
    let effects = case.graph.absent(&set.identity(), proof.clone());
    assert_eq!(effects, items(&[pod.item()]));
    let action = case.action(&pod);
    assert_eq!(action.operation, Operation::Delete(Propagation::Background));
    assert_eq!(action.reasons[0].state, OwnerState::Absent(proof));
    assert_eq!(case.graph.evaluate(&again.item(), case.now), Decision::Nothing);
}

#[test]
fn dependent_created_after_its_owner_was_deleted_costs_one_read() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set]);
    assert_eq!(case.delete(&set), Effects::default());
    assert_eq!(case.observe(&pod), items(&[set.owner_item()]));
    assert_eq!(case.evaluate(&pod), read(&set));
    let effects = case.graph.absent(&set.identity(), Proof::NotFound);
    assert_eq!(effects, items(&[pod.item()]));
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

/// Each differs from the absent identity in one field.
#[test]
fn tombstone_covers_one_identity_only() {
    let gone = object(&WIDGET, "w");
    let others = [
        gone.clone().uid("other"),
        gone.clone().named("other"),
        gone.clone().within("b"),
        Object {
            kind: kind(&SET),
            ..gone.clone()
        },
    ];
    for other in others {
        let mut case = Fixture::with(&[&gone]);
        let _ = case.delete(&gone);
        let pod = object(&POD, "pod")
            .within(&other.meta.namespace)
            .refers(&[other.reference()]);
        assert_eq!(case.observe(&pod), items(&[other.owner_item()]));
        assert_eq!(case.evaluate(&pod), read(&other));
    }
}

/// A storage that was restored with a higher revision shows the owner and its dependents again: a tombstone that outlived
/// them would delete the dependents of a live owner.
#[test]
fn tombstone_is_dropped_with_its_last_dependent() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.delete(&set);
    assert_eq!(
        case.graph.tombstones.proof(&set.identity(), 0),
        Some(&Proof::Watched)
    );
    let _ = case.delete(&pod);
    assert_eq!(case.graph.tombstones.iter().count(), 0);
    // After the restore, the dependent is observed before its owner.
    assert_eq!(case.observe(&pod.clone().at(9)), items(&[set.owner_item()]));
    assert_eq!(case.evaluate(&pod), read(&set));
    let _ = case.observe(&set.at(9));
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
}

/// A DELETE that failed with its connection is retried, and may be executed on a restored storage.
#[test]
fn owner_is_read_again_after_a_write_with_an_unknown_outcome() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let other = object(&POD, "other").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod, &other]);
    let _ = case.delete(&set);
    case.graph.record_failure(&pod.meta.uid);
    assert_eq!(case.evaluate(&pod), read(&set));
    assert_eq!(case.operation(&other), Operation::Delete(Propagation::Background));
    // No dependent is enqueued before its backoff.
    let effects = case.graph.absent(&set.identity(), Proof::NotFound);
    assert_eq!(effects, Effects::default());
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));

    case.graph.record_failure(&pod.meta.uid);
    let lookup = Lookup {
        kind: kind(&SET),
        identity: set.identity(),
    };
    let begun = (case.now, case.graph.proofs());
    let effects = case
        .graph
        .record_live_state(&lookup, LiveState::Solid, begun, case.now);
    assert_eq!(effects, items(&[set.owner_item()]));
    for object in [&pod, &other] {
        assert_eq!(case.evaluate(object), Decision::Nothing);
    }
}

/// A DELETE that waits during an outage may be executed on a restored storage.
#[test]
fn owner_is_read_again_after_the_watch_of_its_kind_failed() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let deletes = Operation::Delete(Propagation::Background);
    let _ = case.delete(&set);
    case.graph.disregard_proofs(&POD);
    assert_eq!(case.operation(&pod), deletes);
    for _ in 0..2 {
        case.graph.disregard_proofs(&SET);
        assert_eq!(case.evaluate(&pod), read(&set));
        // The answer to a read from before the failure does not count, the next one does.
        for sent in [case.graph.proofs() - 1, case.graph.proofs()] {
            assert_eq!(case.evaluate(&pod), read(&set));
            let _ = case.graph.read_absent(&set.identity(), Proof::NotFound, sent);
        }
        assert_eq!(case.operation(&pod), deletes);
    }
}

/// A restored storage can contain the object at the same version, so that no cache shows a change.
#[test]
fn accepted_deletion_is_repeated_if_a_list_shows_the_object_unchanged() {
    let orphaning = object(&SET, "orphaning").deleting(&[ORPHAN]);
    let owner = object(&SET, "owner");
    let pod = object(&POD, "pod").refers(&[owner.reference()]);
    let mut case = Fixture::with(&[&orphaning, &owner, &pod]);
    let _ = case.delete(&owner);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    case.graph
        .record_delete(&pod.meta.uid, &pod.meta.resource_version, case.now);
    case.graph
        .record_delete(&orphaning.meta.uid, &orphaning.meta.resource_version, case.now);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    let accepted = case.now;
    let list = |case: &mut Fixture, it: &Object, requested: Instant| {
        let listed = (&"9".into(), Some(requested));
        case.graph.observe_listed(&it.kind, &it.meta, listed)
    };
    assert_eq!(
        list(&mut case, &pod, accepted),
        Effects::default(),
        "an earlier list"
    );
    let listed = |case: &mut Fixture, it: &Object| list(case, it, accepted + Duration::from_millis(1));
    assert_eq!(listed(&mut case, &pod), items(&[pod.item()]));
    // The owner may exist again, too.
    assert_eq!(case.evaluate(&pod), read(&owner));
    assert_eq!(listed(&mut case, &pod), Effects::default());
    assert!(case.graph.remove_orphan_finalizer(&orphaning.meta.uid).is_none());
    assert_eq!(
        listed(&mut case, &orphaning).attempt_to_orphan,
        std::slice::from_ref(&orphaning.meta.uid)
    );
    assert!(case.graph.remove_orphan_finalizer(&orphaning.meta.uid).is_some());
}

#[test]
fn proof_counts_when_a_kind_whose_watch_failed_is_no_longer_served() {
    let widget = object(&WIDGET, "widget");
    let pod = object(&POD, "pod").refers(&[widget.reference()]);
    let mut case = Fixture::with(&[&widget, &pod]);
    let _ = case.delete(&widget);
    case.graph.disregard_proofs(&WIDGET);
    assert_eq!(case.evaluate(&pod), read(&widget));
    let served = [POD, SET, NODE];
    let _ = case.graph.set_kinds(kinds(&served, &served), case.now);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

#[test]
fn outdated_answer_is_ignored() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.delete(&set);
    case.answer(&set, LiveState::Solid);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    assert_eq!(case.graph.answers.len(), 0);
}

#[test]
fn expired_answers_are_dropped() {
    let mut case = Fixture::synced();
    for n in 0..100 {
        case.answer(&object(&SET, &format!("set-{n}")), LiveState::Solid);
        case.advance(FRESH / 4);
    }
    assert_eq!(case.graph.answers.len(), 41, "those of the last ten seconds");
}

#[test]
fn owner_of_an_unserved_kind_or_version_is_never_absent() {
    for unserved in [
        Resource::namespaced("example.com", "v1", "gadgets", "Gadget"),
        Resource::namespaced("apps", "v1beta9", "replicasets", "ReplicaSet"),
        Resource::namespaced("", "v1", "replicasets", "ReplicaSet"),
    ] {
        let owner = object(&unserved, "owner");
        let dead = object(&SET, "dead");
        let pod = object(&POD, "pod").refers(&[dead.reference(), owner.reference()]);
        let mut case = Fixture::with(&[&dead, &pod]);
        let _ = case.delete(&dead);
        let unresolvable = || Decision::Unresolvable(owner.identity());
        assert_eq!(case.evaluate(&pod), unresolvable());
        assert_eq!(case.graph.evaluate(&owner.owner_item(), case.now), unresolvable());
    }
}

#[test]
fn reference_without_uid_or_name_is_never_resolved() {
    let set = object(&SET, "set");
    for broken in [set.clone().uid(""), set.clone().named("")] {
        let pod = object(&POD, "pod").refers(&[broken.reference()]);
        let mut case = Fixture::with(&[&pod]);
        assert_eq!(case.evaluate(&pod), Decision::Unresolvable(broken.identity()));
        let _ = case.graph.absent(&broken.identity(), Proof::NotFound);
        assert_eq!(case.evaluate(&pod), Decision::Unresolvable(broken.identity()));
    }
    let mut case = Fixture::synced();
    let unnamed = object(&POD, "pod").uid("").refers(&[set.reference()]);
    assert_eq!(case.observe(&unnamed), Effects::default());
    assert_eq!(case.graph.nodes(None).count(), 0);
}

#[test]
fn node_that_is_not_found_is_removed() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.blocking()]);
    let set = set.deleting(&[FOREGROUND]);
    let mut case = Fixture::with(&[&set, &pod]);
    let effects = case.graph.absent(&pod.identity(), Proof::NotFound);
    assert_eq!(effects, items(&[set.item()]));
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
}

#[test]
fn owner_that_an_untrusted_cache_no_longer_shows_is_read() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let renamed = set.clone().named("other");
    let effects = case.graph.observe_lost(&renamed.kind, &renamed.meta);
    assert_eq!(effects, Effects::default(), "another object");
    assert!(case.graph.contains(&set.meta.uid));
    let effects = case.graph.observe_lost(&set.kind, &set.meta);
    assert_eq!(effects, items(&[set.owner_item()]));
    assert!(!case.graph.contains(&set.meta.uid));
    assert_eq!(case.evaluate(&pod), read(&set));
}
