//! Kinds that come and go, and are not known whole.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn an_owner_of_a_kind_that_is_not_known_whole_is_waited_for() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::fresh();
    let _ = scene.see(&pod);
    scene.pass(Duration::from_secs(10));
    let rest = Judgement::Later(Duration::from_secs(20));
    assert_eq!(scene.judge(&pod), rest);
    assert_eq!(scene.graph.judge(&set.owner(), scene.now), rest);
    // Being told again does not begin the time anew.
    let _ = scene.graph.serve(kinds(&ALL, &WATCHED), scene.now);
    assert_eq!(scene.judge(&pod), rest);
    assert_eq!(scene.graph.synced(&set.kind), look(&[set.owner()]));
    assert_eq!(scene.judge(&pod), ask(&set));
    let mut scene = Scene::fresh();
    let _ = scene.see(&pod);
    scene.pass(PATIENCE);
    assert_eq!(scene.judge(&pod), ask(&set), "its time is over");
}

#[test]
fn a_finalizer_stays_until_all_kinds_are_known_whole() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let mut scene = Scene::fresh();
    let _ = scene.see(&set);
    for resource in &WATCHED[1..] {
        assert_eq!(scene.graph.synced(&kind(resource)), Effects::default());
    }
    assert_eq!(scene.graph.unsettled(&set.meta.uid, scene.now), Some(PATIENCE));
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.judge(&set), Judgement::Later(Duration::from_secs(29)));
    assert_eq!(scene.graph.synced(&kind(&POD)), look(&[set.object()]));
    assert_eq!(scene.graph.unsettled(&set.meta.uid, scene.now), None);
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));

    let mut scene = Scene::fresh();
    let _ = scene.see(&set);
    scene.pass(PATIENCE);
    assert_eq!(scene.graph.unsettled(&set.meta.uid, scene.now), None);
    assert!(
        matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }),
        "not for ever"
    );
}

/// Else whoever defines kinds that cannot be listed, one after the other, keeps everything that is deleted in the foreground.
#[test]
fn for_ever_new_kinds_nobody_waits() {
    const FIRST: Resource = Resource::namespaced("example.com", "v1", "firsts", "First");
    const SECOND: Resource = Resource::namespaced("example.com", "v1", "seconds", "Second");
    let serve = |scene: &mut Scene, late: &[Resource]| {
        let [all, watched] = [&ALL[..], &WATCHED].map(|it| [it, late].concat());
        scene.graph.serve(kinds(&all, &watched), scene.now)
    };
    let seconds = |n| Judgement::Later(Duration::from_secs(n));
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let owner = thing(&SET, "owner").deleting(&[ORPHAN]);
    let mut scene = Scene::settled();
    assert_eq!(serve(&mut scene, &[FIRST]), Effects::default());
    scene.pass(Duration::from_secs(10));
    for thing in [&set, &owner] {
        let _ = scene.see(thing);
    }
    assert_eq!(scene.judge(&set), seconds(20));
    scene.pass(Duration::from_secs(10));
    assert_eq!(serve(&mut scene, &[FIRST, SECOND]), Effects::default());
    // A new state of it changes nothing.
    let _ = scene.see(&set.clone().at(2));
    assert_eq!(scene.judge(&set), seconds(10), "not for the second");
    let rest = scene.graph.unsettled(&owner.meta.uid, scene.now);
    assert_eq!(rest, Some(Duration::from_secs(10)));

    // The first goes, or is known whole, or its time is over.
    let mut gone = scene;
    assert_eq!(serve(&mut gone, &[SECOND]), look(&[set.object()]));
    assert!(matches!(gone.deed(&set), Deed::RemoveFinalizer { .. }));
    assert_eq!(gone.graph.unsettled(&owner.meta.uid, gone.now), None);

    let mut scene = Scene::settled();
    assert_eq!(serve(&mut scene, &[FIRST]), Effects::default());
    let _ = scene.see(&set);
    assert_eq!(serve(&mut scene, &[FIRST, SECOND]), Effects::default());
    assert_eq!(scene.graph.synced(&kind(&FIRST)), look(&[set.object()]));
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));
    assert_eq!(scene.graph.synced(&kind(&SECOND)), Effects::default(), "once");
}

#[test]
fn a_kind_in_another_version_is_waited_for_as_one_that_was_there() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let widget = thing(&WIDGET, "widget").refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set, &widget]);
    assert_eq!(scene.judge(&set), Judgement::Nothing);
    let other = kinds(&ALL, &[POD, SET, NODE, OLD_WIDGET]);
    assert_eq!(scene.graph.serve(other, scene.now), look(&[set.object()]));
    assert_eq!(scene.judge(&set), Judgement::Later(PATIENCE));
    let widget = Thing {
        kind: kind(&OLD_WIDGET),
        ..widget
    };
    let _ = scene.see(&widget);
    let _ = scene.graph.synced(&widget.kind);
    assert_eq!(scene.judge(&set), Judgement::Nothing, "it blocks it");
}

#[test]
fn what_is_proven_is_collected_before_all_kinds_are_known_whole() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::fresh();
    for thing in [&set, &pod] {
        let _ = scene.see(thing);
    }
    let _ = scene.lose(&set);
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
}

#[test]
fn a_kind_that_goes_leaves_owners_that_nobody_can_ask_for() {
    let (widget, lone) = (thing(&WIDGET, "w"), thing(&WIDGET, "lone"));
    let pod = thing(&POD, "pod").refers(&[widget.reference()]);
    let mut scene = Scene::with(&[&widget, &lone, &pod]);
    let without = kinds(&[POD, SET, NODE], &[POD, SET, NODE]);
    let effects = scene.graph.serve(without, scene.now);
    assert_eq!(effects, look(&[widget.owner()]));
    assert_eq!(scene.judge(&pod), Judgement::Unresolvable(widget.identity()));
    assert_eq!(
        scene.graph.nodes(None).count(),
        2,
        "one of them an owner that is not seen"
    );
    // It comes back, and is not known whole at first.
    scene.pass(Duration::from_mins(1));
    let effects = scene.graph.serve(kinds(&ALL, &WATCHED), scene.now);
    assert_eq!(effects, look(&[widget.owner()]));
    assert_eq!(scene.judge(&pod), Judgement::Later(PATIENCE));
    let _ = scene.graph.synced(&widget.kind);
    assert_eq!(scene.judge(&pod), ask(&widget));
    let _ = scene.see(&widget);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
}

#[test]
fn scopes_are_those_of_the_kinds_that_are_served() {
    let node = thing(&NODE, "node");
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[node.reference()]);
    let child = thing(&NODE, "child").refers(&[set.reference()]);
    let mut scene = Scene::settled();
    let _ = scene.graph.serve(kinds(&[POD], &[POD]), scene.now);
    let unknown = Work::Owner(Identity {
        namespace: "a".into(),
        ..node.identity()
    });
    assert_eq!(scene.see(&pod), look(std::slice::from_ref(&unknown)));
    let effects = scene.graph.serve(kinds(&ALL, &WATCHED), scene.now);
    assert_eq!(effects, look(&[node.owner()]));
    assert_eq!(scene.graph.judge(&unknown, scene.now), Judgement::Nothing);
    // Nobody can say who is meant; then nobody knows the kind; then again.
    assert_eq!(scene.see(&child), Effects::default());
    let effects = scene.graph.serve(kinds(&[POD, NODE], &[POD, NODE]), scene.now);
    assert_eq!(effects, look(&[set.clone().within("").owner()]));
    assert!(matches!(scene.judge(&child), Judgement::Unresolvable(_)));
    let _ = scene.graph.serve(kinds(&ALL, &WATCHED), scene.now);
    assert_eq!(scene.judge(&child), Judgement::Nothing);
    assert_eq!(scene.graph.unseen.len(), 1);
}

#[test]
fn after_a_restore_who_was_dead_may_live() {
    let set = thing(&SET, "set").at(50);
    let pod = thing(&POD, "pod").refers(&[set.reference()]).at(51);
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.lose(&set);
    scene.graph.deleted(&pod.meta.uid, &"51".into());
    let effects = scene.graph.start_over();
    assert_eq!(effects, look(&[set.owner(), pod.object()]));
    assert_eq!(scene.judge(&pod), ask(&set));
    let _ = scene.see(&set.clone().at(20));
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    // What is told now is newer, whatever its version says; once.
    let pod = pod.at(21);
    let _ = scene.see(&pod);
    assert_eq!(scene.lose(&set), look(&[pod.object()]));
    assert_eq!(scene.act(&pod).version, "21".into());
    assert_eq!(scene.see(&pod.clone().refers(&[]).at(20)), Effects::default());
}

#[test]
fn who_is_shown_again_lives() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.lose(&set);
    assert_eq!(scene.see(&set), Effects::default());
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    assert_eq!(scene.lose(&set), look(&[pod.object()]));
}

#[test]
fn a_name_of_two_resources_is_of_neither() {
    let twin = Resource::namespaced("apps", "v1", "sets", "ReplicaSet");
    let kinds = kinds(&[SET, twin, POD, POD], &WATCHED);
    let set = thing(&SET, "set").reference();
    assert_eq!(kinds.resolve(&set.api_version, &set.kind), None);
    let pod = thing(&POD, "pod").reference();
    assert!(
        kinds.resolve(&pod.api_version, &pod.kind).is_some(),
        "the same one twice"
    );
    let watched: Vec<&Resource> = kinds.collected().iter().map(|it| &it.resource).collect();
    assert_eq!(watched, [&POD, &SET]);
}

#[test]
fn undescribed_group_version_is_waited_for_like_an_unsynced_kind() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let undescribed = || Kinds::new(ALL.map(Kind::new), &WATCHED.into()).without([("late.io", "v1")]);
    let mut scene = Scene::settled();
    let _ = scene.graph.serve(Arc::new(undescribed()), scene.now);
    let _ = scene.see(&set);
    scene.pass(Duration::from_secs(10));
    assert_eq!(scene.judge(&set), Judgement::Later(Duration::from_secs(20)));
    // It is described: its kinds have their own time.
    let late = Resource::namespaced("late.io", "v1", "lates", "Late");
    let [all, watched] = [&ALL[..], &WATCHED].map(|it| [it, std::slice::from_ref(&late)].concat());
    let _ = scene.graph.serve(kinds(&all, &watched), scene.now);
    assert_eq!(scene.judge(&set), Judgement::Later(PATIENCE));
    assert_eq!(scene.graph.synced(&kind(&late)), look(&[set.object()]));
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));

    let mut scene = Scene::settled();
    let _ = scene.graph.serve(Arc::new(undescribed()), scene.now);
    let _ = scene.see(&set);
    scene.pass(PATIENCE);
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));
}

#[test]
fn inherited_cache_delays_foreground_finalizers_until_it_is_proven() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let mut scene = Scene::settled();
    let deadline = scene.now + PATIENCE;
    scene.graph.inherited(&POD);
    assert!(
        scene.graph.begin_proof(deadline).is_empty(),
        "no deletion needs it"
    );
    let _ = scene.see(&set);
    assert_eq!(scene.judge(&set), Judgement::Later(PATIENCE));
    assert_eq!(scene.graph.begin_proof(deadline), [POD]);
    assert!(scene.graph.begin_proof(deadline).is_empty(), "once");
    scene.pass(Duration::from_secs(10));
    assert_eq!(scene.judge(&set), Judgement::Later(Duration::from_secs(20)));
    assert_eq!(scene.graph.proven(&POD), look(&[set.object()]));
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));
    scene.graph.inherited(&POD);
    scene.pass(PATIENCE);
    assert!(
        matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }),
        "bounded"
    );
}
