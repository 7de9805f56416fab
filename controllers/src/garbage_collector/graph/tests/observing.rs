//! States that arrive late, twice, or in another version.

use steersman_manager::client::Propagation;

use super::*;

#[test]
fn older_state_is_ignored() {
    let (set, other) = (object(&SET, "set"), object(&SET, "other"));
    let pod = object(&POD, "pod").refers(&[set.reference()]).at(10);
    let mut case = Fixture::with(&[&set, &other, &pod]);
    let older = pod.clone().refers(&[other.reference()]).at(9);
    assert_eq!(case.observe(&older), Effects::default());
    assert_eq!(case.delete(&other), Effects::default());
    assert_eq!(case.delete(&set), items(&[pod.item()]));
    assert_eq!(case.action(&pod).version, "10".into());
    // An answer that was sent before a newer state was observed is as old.
    assert_eq!(case.graph.refresh(&older.kind, &older.meta), Effects::default());
    assert_eq!(case.action(&pod).version, "10".into());
}

#[test]
fn answer_about_an_unknown_object_is_ignored() {
    let pod = object(&POD, "pod");
    let mut case = Fixture::synced();
    assert_eq!(case.graph.refresh(&pod.kind, &pod.meta), Effects::default());
    assert_eq!(case.graph.nodes(None).count(), 0);
    let widget = object(&WIDGET, "w");
    let _ = case.observe(&widget);
    let old = Object {
        kind: kind(&OLD_WIDGET),
        ..widget.clone().at(9)
    };
    let _ = case.graph.refresh(&old.kind, &old.meta);
    let known: Vec<Identity> = case.graph.nodes(None).map(|it| it.identity).collect();
    assert_eq!(
        known,
        [widget.identity()],
        "nor does an answer in another version move it"
    );
    assert_eq!(
        case.observe(&old),
        Effects::default(),
        "nor does a kind that is not collected"
    );
    assert_eq!(
        case.graph.nodes(None).next().expect("one").identity,
        widget.identity()
    );
}

#[test]
fn deleted_object_is_left_alone_until_it_is_observed_again() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]).at(5);
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.delete(&set);
    case.graph.record_delete(&pod.meta.uid, &"4".into(), case.now);
    assert!(
        matches!(case.evaluate(&pod), Decision::Act(_)),
        "another version was deleted"
    );
    case.graph.record_delete(&pod.meta.uid, &"5".into(), case.now);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    assert_eq!(case.observe(&pod), Effects::default());
    assert_eq!(case.evaluate(&pod), Decision::Nothing, "the same state again");
    let lingers = pod.clone().deleting(&["example.com/hold"]).at(6);
    assert_eq!(case.observe(&lingers), Effects::default());
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.delete(&set);
    case.graph.record_delete(&pod.meta.uid, &"5".into(), case.now);
    assert_eq!(
        case.observe(&pod.clone().at(6)),
        items(&[pod.item()]),
        "it lives after all"
    );
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

#[test]
fn object_that_loses_a_reference_is_evaluated() {
    let (dead, alive) = (object(&SET, "dead"), object(&SET, "alive"));
    let pod = object(&POD, "pod").refers(&[dead.reference(), alive.reference()]);
    let mut case = Fixture::with(&[&dead, &alive, &pod]);
    let _ = case.delete(&dead);
    let pod = pod.refers(&[dead.reference()]).at(2);
    assert_eq!(case.observe(&pod), items(&[pod.item()]));
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

#[test]
fn object_with_a_reused_name_is_another_owner() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    assert_eq!(case.delete(&set), items(&[pod.item()]));
    assert_eq!(case.observe(&set.clone().uid("new").at(9)), Effects::default());
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

#[test]
fn object_observed_under_another_name_or_kind_is_another_owner() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    for moved in [
        set.clone().named("other").at(2),
        Object {
            kind: kind(&WIDGET),
            ..set.clone().at(2)
        },
    ] {
        let mut case = Fixture::with(&[&set, &pod]);
        assert_eq!(case.observe(&moved), items(&[set.owner_item()]));
        assert_eq!(case.evaluate(&pod), read(&set));
    }
}

#[test]
fn kind_watched_in_another_version_moves_its_nodes() {
    let widget = object(&WIDGET, "w");
    let old = Object {
        kind: kind(&OLD_WIDGET),
        ..widget.clone()
    };
    let young = object(&POD, "young").refers(&[widget.blocking()]);
    let elder = object(&POD, "elder").refers(&[old.blocking()]);
    let mut case = Fixture::with(&[&widget, &young, &elder]);
    let blocking = |case: &Fixture| case.graph.links[&widget.meta.uid].blocking;
    assert_eq!(blocking(&case), 2);
    let other = kinds(&ALL, &[POD, SET, NODE, OLD_WIDGET]);
    let effects = case.graph.set_kinds(other, case.now);
    assert_eq!(effects, items(&[widget.owner_item(), old.owner_item()]));
    assert_eq!(blocking(&case), 0);
    assert_eq!(case.evaluate(&young), Decision::Later(SYNC_TIMEOUT));
    let virtual_owners: Vec<&Identity> = case.graph.virtual_owners.keys().collect();
    assert_eq!(virtual_owners, [&old.identity()]);
    assert_eq!(case.observe(&old), Effects::default());
    assert_eq!(blocking(&case), 2);
    assert_eq!(case.delete(&old), items(&[elder.item(), young.item()]));
}

/// In a storage that was restored with a higher revision, objects have the versions of the backup.
#[test]
fn list_with_an_older_state_replaces_the_state_of_a_lost_storage() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]).at(2);
    let other = object(&NODE, "other");
    let dependent = object(&POD, "dependent").refers(&[other.reference()]);
    let lost = pod.clone().deleting(&["x"]).at(5);
    let mut case = Fixture::with(&[&lost, &other, &dependent]);
    let _ = case.delete(&other);
    assert_eq!(case.observe(&pod), Effects::default());
    let listed = |case: &mut Fixture, at: &str| {
        case.graph
            .observe_listed(&pod.kind, &pod.meta, (&at.into(), None))
    };
    assert_eq!(listed(&mut case, "4"), Effects::default(), "the list is older");
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    assert_eq!(
        case.operation(&dependent),
        Operation::Delete(Propagation::Background)
    );
    assert_eq!(listed(&mut case, "5"), items(&[pod.item()]));
    assert_eq!(case.evaluate(&pod), read(&set));
    assert_eq!(listed(&mut case, "6"), Effects::default());
    // Objects of other kinds may exist again, too.
    assert_eq!(case.evaluate(&dependent), read(&other));
}

#[test]
fn list_with_an_older_state_repeats_the_removal_of_a_finalizer() {
    let owner = object(&SET, "owner").deleting(&[ORPHAN]).at(2);
    let lost = owner.clone().at(5);
    let mut case = Fixture::with(&[&lost]);
    case.graph
        .record_delete(&lost.meta.uid, &lost.meta.resource_version, case.now);
    assert!(case.graph.remove_orphan_finalizer(&owner.meta.uid).is_none());
    let effects = case
        .graph
        .observe_listed(&owner.kind, &owner.meta, (&"5".into(), None));
    assert_eq!(effects.attempt_to_orphan, std::slice::from_ref(&owner.meta.uid));
    assert!(case.graph.remove_orphan_finalizer(&owner.meta.uid).is_some());
}
