//! States that come late, again, or in other coordinates.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn an_older_state_is_ignored() {
    let (set, other) = (thing(&SET, "set"), thing(&SET, "other"));
    let pod = thing(&POD, "pod").refers(&[set.reference()]).at(10);
    let mut scene = Scene::with(&[&set, &other, &pod]);
    let older = pod.clone().refers(&[other.reference()]).at(9);
    assert_eq!(scene.see(&older), Effects::default());
    assert_eq!(scene.lose(&other), Effects::default());
    assert_eq!(scene.lose(&set), look(&[pod.object()]));
    assert_eq!(scene.act(&pod).version, "10".into());
    // An answer that was sent before a newer state was shown is as old.
    assert_eq!(scene.graph.refresh(&older.kind, &older.meta), Effects::default());
    assert_eq!(scene.act(&pod).version, "10".into());
}

#[test]
fn an_answer_about_somebody_unknown_does_not_enter() {
    let pod = thing(&POD, "pod");
    let mut scene = Scene::settled();
    assert_eq!(scene.graph.refresh(&pod.kind, &pod.meta), Effects::default());
    assert_eq!(scene.graph.nodes(None).count(), 0);
    let widget = thing(&WIDGET, "w");
    let _ = scene.see(&widget);
    let old = Thing {
        kind: kind(&OLD_WIDGET),
        ..widget.clone().at(9)
    };
    let _ = scene.graph.refresh(&old.kind, &old.meta);
    let known: Vec<Identity> = scene.graph.nodes(None).map(|it| it.identity).collect();
    assert_eq!(
        known,
        [widget.identity()],
        "nor does an answer in another version move it"
    );
    assert_eq!(
        scene.see(&old),
        Effects::default(),
        "nor does a kind that is not collected"
    );
    assert_eq!(
        scene.graph.nodes(None).next().expect("one").identity,
        widget.identity()
    );
}

#[test]
fn what_was_deleted_is_left_alone_until_it_is_seen_to_linger() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]).at(5);
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.lose(&set);
    scene.graph.deleted(&pod.meta.uid, &"4".into());
    assert!(
        matches!(scene.judge(&pod), Judgement::Act(_)),
        "another version was deleted"
    );
    scene.graph.deleted(&pod.meta.uid, &"5".into());
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    assert_eq!(scene.see(&pod), Effects::default());
    assert_eq!(scene.judge(&pod), Judgement::Nothing, "the same state again");
    let lingers = pod.clone().deleting(&["example.com/hold"]).at(6);
    assert_eq!(scene.see(&lingers), Effects::default());
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.lose(&set);
    scene.graph.deleted(&pod.meta.uid, &"5".into());
    assert_eq!(
        scene.see(&pod.clone().at(6)),
        look(&[pod.object()]),
        "it lives after all"
    );
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
}

#[test]
fn one_reference_less_may_be_all_that_held_it() {
    let (dead, alive) = (thing(&SET, "dead"), thing(&SET, "alive"));
    let pod = thing(&POD, "pod").refers(&[dead.reference(), alive.reference()]);
    let mut scene = Scene::with(&[&dead, &alive, &pod]);
    let _ = scene.lose(&dead);
    let pod = pod.refers(&[dead.reference()]).at(2);
    assert_eq!(scene.see(&pod), look(&[pod.object()]));
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
}

#[test]
fn a_name_that_was_taken_over_is_another_owner() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set, &pod]);
    assert_eq!(scene.lose(&set), look(&[pod.object()]));
    assert_eq!(scene.see(&set.clone().uid("new").at(9)), Effects::default());
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
}

#[test]
fn a_kind_that_is_watched_in_another_version_moves_its_objects() {
    let widget = thing(&WIDGET, "w");
    let old = Thing {
        kind: kind(&OLD_WIDGET),
        ..widget.clone()
    };
    let young = thing(&POD, "young").refers(&[widget.blocking()]);
    let elder = thing(&POD, "elder").refers(&[old.blocking()]);
    let mut scene = Scene::with(&[&widget, &young, &elder]);
    let both = BTreeSet::from([&young, &elder].map(|it| it.meta.uid.clone()));
    let blocking = |scene: &Scene| scene.graph.links[&widget.meta.uid].blocking.clone();
    assert_eq!(blocking(&scene), both);
    let other = kinds(&ALL, &[POD, SET, NODE, OLD_WIDGET]);
    let effects = scene.graph.serve(other, scene.now);
    assert_eq!(effects, look(&[widget.owner(), old.owner()]));
    assert_eq!(blocking(&scene), BTreeSet::new());
    assert_eq!(scene.judge(&young), Judgement::Later(PATIENCE));
    let unseen: Vec<&Identity> = scene.graph.unseen.keys().collect();
    assert_eq!(unseen, [&old.identity()]);
    assert_eq!(scene.see(&old), Effects::default());
    assert_eq!(blocking(&scene), both);
    assert_eq!(scene.lose(&old), look(&[elder.object(), young.object()]));
}
