//! Kinds that are added, removed, or not synced.

use steersman_manager::client::Propagation;

use super::*;

#[test]
fn owner_of_an_unsynced_kind_is_waited_for() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::fresh();
    let _ = case.observe(&pod);
    case.advance(Duration::from_secs(10));
    let rest = Decision::Later(Duration::from_secs(20));
    assert_eq!(case.evaluate(&pod), rest);
    assert_eq!(case.graph.evaluate(&set.owner_item(), case.now), rest);
    // The same kinds again do not restart the wait.
    let _ = case.graph.set_kinds(kinds(&ALL, &WATCHED), case.now);
    assert_eq!(case.evaluate(&pod), rest);
    assert_eq!(case.graph.synced(&set.kind), items(&[set.owner_item()]));
    assert_eq!(case.evaluate(&pod), read(&set));
    let mut case = Fixture::fresh();
    let _ = case.observe(&pod);
    case.advance(SYNC_TIMEOUT);
    assert_eq!(case.evaluate(&pod), read(&set), "its time is over");
    let mut case = Fixture::fresh();
    let _ = case.observe(&pod.refers(&[object(&NODE, "node").reference()]));
    let effects = case.graph.synced(&kind(&POD));
    assert_eq!(effects, Effects::default(), "another kind of the same group");
}

#[test]
fn foreground_finalizer_stays_until_all_kinds_have_synced() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let mut case = Fixture::fresh();
    let _ = case.observe(&set);
    for resource in &WATCHED[1..] {
        assert_eq!(case.graph.synced(&kind(resource)), Effects::default());
    }
    assert_eq!(
        case.graph.unsynced_wait(&set.meta.uid, case.now),
        Some(SYNC_TIMEOUT)
    );
    case.advance(Duration::from_secs(1));
    assert_eq!(case.evaluate(&set), Decision::Later(Duration::from_secs(29)));
    assert_eq!(case.graph.synced(&kind(&POD)), items(&[set.item()]));
    assert_eq!(case.graph.unsynced_wait(&set.meta.uid, case.now), None);
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));

    let mut case = Fixture::fresh();
    let _ = case.observe(&set);
    case.advance(SYNC_TIMEOUT);
    assert_eq!(case.graph.unsynced_wait(&set.meta.uid, case.now), None);
    assert!(
        matches!(case.operation(&set), Operation::RemoveFinalizer { .. }),
        "not forever"
    );
}

/// Otherwise a series of CRDs that cannot be listed would block all foreground deletions.
#[test]
fn kinds_added_after_the_deletion_are_not_waited_for() {
    const FIRST: Resource = Resource::namespaced("example.com", "v1", "firsts", "First");
    const SECOND: Resource = Resource::namespaced("example.com", "v1", "seconds", "Second");
    let serve = |case: &mut Fixture, late: &[Resource]| {
        let [all, watched] = [&ALL[..], &WATCHED].map(|it| [it, late].concat());
        case.graph.set_kinds(kinds(&all, &watched), case.now)
    };
    let seconds = |n| Decision::Later(Duration::from_secs(n));
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let owner = object(&SET, "owner").deleting(&[ORPHAN]);
    let mut case = Fixture::synced();
    assert_eq!(serve(&mut case, &[FIRST]), Effects::default());
    case.advance(Duration::from_secs(10));
    for object in [&set, &owner] {
        let _ = case.observe(object);
    }
    assert_eq!(case.evaluate(&set), seconds(20));
    case.advance(Duration::from_secs(10));
    assert_eq!(serve(&mut case, &[FIRST, SECOND]), Effects::default());
    // A new state of the object changes nothing.
    let _ = case.observe(&set.clone().at(2));
    assert_eq!(case.evaluate(&set), seconds(10), "not for the second");
    let rest = case.graph.unsynced_wait(&owner.meta.uid, case.now);
    assert_eq!(rest, Some(Duration::from_secs(10)));

    // The first kind is removed, or syncs, or times out.
    let mut gone = case;
    assert_eq!(serve(&mut gone, &[SECOND]), items(&[set.item()]));
    assert!(matches!(gone.operation(&set), Operation::RemoveFinalizer { .. }));
    assert_eq!(gone.graph.unsynced_wait(&owner.meta.uid, gone.now), None);

    let mut case = Fixture::synced();
    assert_eq!(serve(&mut case, &[FIRST]), Effects::default());
    let _ = case.observe(&set);
    assert_eq!(serve(&mut case, &[FIRST, SECOND]), Effects::default());
    assert_eq!(case.graph.synced(&kind(&FIRST)), items(&[set.item()]));
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));
    assert_eq!(case.graph.synced(&kind(&SECOND)), Effects::default(), "once");

    // Kinds that are added before the deletion are waited for, even if the object is older.
    let mut case = Fixture::with(&[&object(&SET, "set")]);
    assert_eq!(serve(&mut case, &[FIRST]), Effects::default());
    let _ = case.observe(&set.clone().at(2));
    assert_eq!(case.evaluate(&set), Decision::Later(SYNC_TIMEOUT));
}

#[test]
fn new_version_of_a_known_kind_is_waited_for() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let widget = object(&WIDGET, "widget").refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set, &widget]);
    assert_eq!(case.evaluate(&set), Decision::Nothing);
    let other = kinds(&ALL, &[POD, SET, NODE, OLD_WIDGET]);
    assert_eq!(case.graph.set_kinds(other, case.now), items(&[set.item()]));
    assert_eq!(case.evaluate(&set), Decision::Later(SYNC_TIMEOUT));
    let widget = Object {
        kind: kind(&OLD_WIDGET),
        ..widget
    };
    let _ = case.observe(&widget);
    let _ = case.graph.synced(&widget.kind);
    assert_eq!(case.evaluate(&set), Decision::Nothing, "it blocks it");
}

#[test]
fn proven_garbage_is_deleted_before_all_kinds_have_synced() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::fresh();
    for object in [&set, &pod] {
        let _ = case.observe(object);
    }
    let _ = case.delete(&set);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
}

#[test]
fn nodes_of_a_removed_kind_become_unresolvable_owners() {
    let (widget, lone) = (object(&WIDGET, "w"), object(&WIDGET, "lone"));
    let pod = object(&POD, "pod").refers(&[widget.reference()]);
    let mut case = Fixture::with(&[&widget, &lone, &pod]);
    let without = kinds(&[POD, SET, NODE], &[POD, SET, NODE]);
    let effects = case.graph.set_kinds(without, case.now);
    assert_eq!(effects, items(&[widget.owner_item()]));
    assert_eq!(case.evaluate(&pod), Decision::Unresolvable(widget.identity()));
    assert_eq!(
        case.graph.nodes(None).count(),
        2,
        "one of them an owner that is not seen"
    );
    // The kind is served again, and has not synced at first.
    case.advance(Duration::from_mins(1));
    let effects = case.graph.set_kinds(kinds(&ALL, &WATCHED), case.now);
    assert_eq!(effects, items(&[widget.owner_item()]));
    assert_eq!(case.evaluate(&pod), Decision::Later(SYNC_TIMEOUT));
    let _ = case.graph.synced(&widget.kind);
    assert_eq!(case.evaluate(&pod), read(&widget));
    let _ = case.observe(&widget);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
}

#[test]
fn scope_follows_the_served_kinds() {
    let node = object(&NODE, "node");
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[node.reference()]);
    let child = object(&NODE, "child").refers(&[set.reference()]);
    let mut case = Fixture::synced();
    let _ = case.graph.set_kinds(kinds(&[POD], &[POD]), case.now);
    let unknown = WorkItem::Owner(Identity {
        namespace: "a".into(),
        ..node.identity()
    });
    assert_eq!(case.observe(&pod), items(std::slice::from_ref(&unknown)));
    let effects = case.graph.set_kinds(kinds(&ALL, &WATCHED), case.now);
    assert_eq!(effects, items(&[node.owner_item()]));
    assert_eq!(case.graph.evaluate(&unknown, case.now), Decision::Nothing);
    // The target is ambiguous; then the kind is unknown; then again ambiguous.
    assert_eq!(case.observe(&child), Effects::default());
    let effects = case.graph.set_kinds(kinds(&[POD, NODE], &[POD, NODE]), case.now);
    assert_eq!(effects, items(&[set.clone().within("").owner_item()]));
    assert!(matches!(case.evaluate(&child), Decision::Unresolvable(_)));
    let _ = case.graph.set_kinds(kinds(&ALL, &WATCHED), case.now);
    assert_eq!(case.evaluate(&child), Decision::Nothing);
    assert_eq!(case.graph.virtual_owners.len(), 1);
}

#[test]
fn restore_drops_proofs_of_absence() {
    let set = object(&SET, "set").at(50);
    let pod = object(&POD, "pod").refers(&[set.reference()]).at(51);
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.delete(&set);
    case.graph.record_delete(&pod.meta.uid, &"51".into(), case.now);
    let effects = case.graph.reset();
    assert_eq!(effects, items(&[set.owner_item(), pod.item()]));
    assert_eq!(case.evaluate(&pod), read(&set));
    let _ = case.observe(&set.clone().at(20));
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    // The next state is newer, with any version; once.
    let pod = pod.at(21);
    let _ = case.observe(&pod);
    assert_eq!(case.delete(&set), items(&[pod.item()]));
    assert_eq!(case.action(&pod).version, "21".into());
    assert_eq!(case.observe(&pod.clone().refers(&[]).at(20)), Effects::default());
}

#[test]
fn object_that_is_observed_again_exists() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.delete(&set);
    assert_eq!(case.observe(&set), Effects::default());
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    assert_eq!(case.delete(&set), items(&[pod.item()]));
}

#[test]
fn kind_of_two_resources_is_ambiguous() {
    let twin = Resource::namespaced("apps", "v1", "sets", "ReplicaSet");
    let kinds = kinds(&[SET, twin, POD, POD], &WATCHED);
    let set = object(&SET, "set").reference();
    assert_eq!(kinds.resolve(&set.api_version, &set.kind), None);
    let pod = object(&POD, "pod").reference();
    assert!(
        kinds.resolve(&pod.api_version, &pod.kind).is_some(),
        "the same one twice"
    );
    let watched: Vec<&Resource> = kinds.collected().iter().map(|it| &it.resource).collect();
    assert_eq!(watched, [&POD, &SET]);
}

#[test]
fn undescribed_group_version_is_waited_for_like_an_unsynced_kind() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let undescribed = || Kinds::new(ALL.map(Kind::new), &WATCHED.into()).without([("late.io", "v1")]);
    let mut case = Fixture::synced();
    let _ = case.graph.set_kinds(Arc::new(undescribed()), case.now);
    let _ = case.observe(&set);
    case.advance(Duration::from_secs(10));
    assert_eq!(case.evaluate(&set), Decision::Later(Duration::from_secs(20)));
    // Once described, its kinds have their own time to sync.
    let late = Resource::namespaced("late.io", "v1", "lates", "Late");
    let [all, watched] = [&ALL[..], &WATCHED].map(|it| [it, std::slice::from_ref(&late)].concat());
    let _ = case.graph.set_kinds(kinds(&all, &watched), case.now);
    assert_eq!(case.evaluate(&set), Decision::Later(SYNC_TIMEOUT));
    assert_eq!(case.graph.synced(&kind(&late)), items(&[set.item()]));
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));

    let mut case = Fixture::synced();
    let _ = case.graph.set_kinds(Arc::new(undescribed()), case.now);
    let _ = case.observe(&set);
    case.advance(SYNC_TIMEOUT);
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));
}

#[test]
fn inherited_cache_delays_foreground_finalizers_until_it_is_proven() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let mut case = Fixture::synced();
    let deadline = case.now + SYNC_TIMEOUT;
    case.graph.mark_unproven(&POD);
    assert!(
        case.graph.begin_proof(deadline).is_empty(),
        "no deletion needs it"
    );
    let _ = case.observe(&set);
    assert_eq!(case.evaluate(&set), Decision::Later(SYNC_TIMEOUT));
    assert_eq!(case.graph.begin_proof(deadline), [POD]);
    assert!(case.graph.begin_proof(deadline).is_empty(), "once");
    case.advance(Duration::from_secs(10));
    assert_eq!(case.evaluate(&set), Decision::Later(Duration::from_secs(20)));
    assert_eq!(case.graph.proven(&POD), items(&[set.item()]));
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));
    case.graph.mark_unproven(&POD);
    case.advance(SYNC_TIMEOUT);
    assert!(
        matches!(case.operation(&set), Operation::RemoveFinalizer { .. }),
        "bounded"
    );
    case.graph.mark_unproven(&NODE);
    for (resource, effects) in [
        (NODE, Effects::default()),
        (NODE, Effects::default()),
        (POD, items(&[set.item()])),
        (POD, Effects::default()),
    ] {
        assert_eq!(case.graph.proven(&resource), effects);
    }
}
