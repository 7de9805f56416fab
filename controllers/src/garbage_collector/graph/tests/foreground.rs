//! An owner that waits for its dependents.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn an_owner_in_foreground_deletion_goes_after_its_dependents() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let set = set.deleting(&["a", FOREGROUND, "b"]).at(2);
    assert_eq!(scene.see(&set), look(&[pod.object(), set.object()]));
    assert_eq!(scene.judge(&set), Judgement::Nothing);
    assert_eq!(scene.judge(&pod), ask(&set));
    scene.answer(&set, Live::Waiting);
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
    assert_eq!(scene.lose(&pod), look(&[set.object()]));
    let rest = ["a".into(), "b".into()].into();
    let finalizer = FOREGROUND;
    assert_eq!(scene.deed(&set), Deed::RemoveFinalizer { finalizer, rest });
}

#[test]
fn waiting_counts_for_a_second_only() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set, &pod]);
    scene.answer(&set, Live::Waiting);
    scene.pass(FRESH);
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.judge(&pod), ask(&set));
    // Somebody deleted it again, to orphan its dependents, and no cache has shown that.
    scene.answer(&set, Live::Solid);
    assert_eq!(scene.judge(&pod), Judgement::Poll);
}

#[test]
fn the_flags_follow_the_latest_state() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let orphaning = set.clone().deleting(&[ORPHAN]).at(2);
    assert_eq!(scene.see(&orphaning).orphan, std::slice::from_ref(&set.meta.uid));
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    assert_eq!(scene.judge(&set), Judgement::Nothing);
    let back = set.clone().at(3);
    assert_eq!(scene.see(&back), look(&[pod.object(), set.object()]));
    let plain = set.deleting(&["example.com/hold"]).at(4);
    assert_eq!(scene.see(&plain), Effects::default());
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
}

#[test]
fn a_deletion_that_is_first_shown_under_way_has_started() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let set = set.deleting(&[FOREGROUND]);
    let mut scene = Scene::with(&[&pod]);
    assert_eq!(scene.see(&set), look(&[pod.object(), set.object()]));
    assert_eq!(
        scene.see(&set.clone().at(2)),
        Effects::default(),
        "nothing has started"
    );
}

#[test]
fn a_second_deletion_in_the_foreground_is_ended_again() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND, "example.com/hold"]);
    let mut scene = Scene::with(&[&set]);
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));
    let _ = scene.see(&set.clone().deleting(&["example.com/hold"]).at(2));
    assert_eq!(scene.judge(&set), Judgement::Nothing);
    assert_eq!(scene.see(&set.clone().at(3)), look(&[set.object()]));
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));
}

#[test]
fn who_comes_to_an_owner_that_waits_is_looked_at() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let pod = thing(&POD, "pod");
    let mut scene = Scene::with(&[&set, &pod]);
    let pod = pod.refers(&[set.reference()]).at(2);
    assert_eq!(scene.see(&pod), look(&[pod.object()]));
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));
    let pod = pod.refers(&[set.blocking()]).at(3);
    assert_eq!(scene.see(&pod), look(&[pod.object()]));
    assert_eq!(scene.judge(&set), Judgement::Nothing);
    let pod = pod.refers(&[set.reference()]).at(4);
    assert_eq!(scene.see(&pod), look(&[set.object(), pod.object()]));
    let pod = pod.refers(&[set.blocking()]).at(5);
    let _ = scene.see(&pod);
    assert_eq!(scene.see(&pod.clone().refers(&[]).at(6)), look(&[set.object()]));
}

#[test]
fn nobody_waits_for_itself() {
    let set = thing(&SET, "set");
    let set = set.clone().refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set]);
    assert_eq!(scene.judge(&set), Judgement::Nothing);
    let set = set.deleting(&[FOREGROUND]).at(2);
    assert_eq!(scene.see(&set), look(&[set.object()]));
    assert!(matches!(scene.deed(&set), Deed::RemoveFinalizer { .. }));
    assert_eq!(scene.lose(&set), Effects::default());
    assert_eq!((scene.graph.links.len(), scene.graph.unseen.len()), (0, 0));
}

#[test]
fn who_is_part_of_a_circle_stops_to_block_first() {
    let one = thing(&SET, "one");
    let two = thing(&SET, "two").refers(&[one.blocking()]);
    let one = one.refers(&[two.blocking()]);
    let mut scene = Scene::with(&[&one, &two]);
    let one = one.deleting(&[FOREGROUND]).at(2);
    let _ = scene.see(&one);
    scene.answer(&one, Live::Waiting);
    let references = [one.reference()].into();
    assert_eq!(scene.deed(&two), Deed::Unblock { references });
    let freed = two.clone().refers(&[one.reference()]).at(3);
    let effects = scene.graph.refresh(&freed.kind, &freed.meta);
    assert_eq!(effects.look, [one.object(), two.object()]);
    assert_eq!(scene.deed(&freed), Deed::Delete(Propagation::Foreground));
    assert!(matches!(scene.deed(&one), Deed::RemoveFinalizer { .. }));
}

#[test]
fn two_that_wait_for_each_other_do_not_wait_for_ever() {
    let one = thing(&SET, "one");
    let two = thing(&SET, "two")
        .refers(&[one.blocking()])
        .deleting(&[FOREGROUND]);
    let one = one.refers(&[two.blocking()]).deleting(&[FOREGROUND]);
    let scene = Scene::with(&[&one, &two]);
    for thing in [&one, &two] {
        assert!(matches!(scene.deed(thing), Deed::Unblock { .. }));
    }
}

#[test]
fn a_circle_is_cut_only_if_all_of_it_waits() {
    let (one, two, three) = (thing(&SET, "one"), thing(&SET, "two"), thing(&SET, "three"));
    let one = one.refers(&[two.blocking()]);
    let two = two.refers(&[three.blocking()]).deleting(&[FOREGROUND]);
    let three = three.refers(&[one.blocking()]);
    let mut scene = Scene::with(&[&one, &two, &three]);
    scene.answer(&two, Live::Waiting);
    assert_eq!(scene.deed(&one), Deed::Delete(Propagation::Foreground));
    let _ = scene.see(&three.deleting(&[FOREGROUND]).at(2));
    assert!(matches!(scene.deed(&one), Deed::Unblock { .. }));
}

#[test]
fn who_closes_a_circle_while_it_waits_is_looked_at() {
    let one = thing(&SET, "one");
    let two = thing(&SET, "two")
        .refers(&[one.reference()])
        .deleting(&[FOREGROUND]);
    let one = one.refers(&[two.blocking()]).deleting(&[FOREGROUND]);
    let mut scene = Scene::with(&[&one, &two]);
    assert_eq!(scene.judge(&two), Judgement::Nothing);
    let two = two.refers(&[one.blocking()]).at(2);
    assert_eq!(scene.see(&two), look(&[two.object()]));
    assert!(matches!(scene.deed(&two), Deed::Unblock { .. }));
}

#[test]
fn a_slow_answer_counts_longer_only_by_a_latency_that_was_measured_twice() {
    let seconds = Duration::from_secs;
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set, &pod]);
    scene.answer_in(&set, Live::Waiting, seconds(5));
    assert_eq!(scene.judge(&pod), ask(&set), "the server was fast before");
    scene.answer_in(&set, Live::Waiting, seconds(7));
    assert_eq!(scene.judge(&pod), ask(&set), "older than 5 s and 1 s");
    scene.answer_in(&set, Live::Waiting, seconds(5));
    scene.pass(FRESH);
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.judge(&pod), ask(&set));
    for _ in 0..2 {
        scene.answer_in(&set, Live::Waiting, FRESH_MAX);
    }
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.judge(&pod), ask(&set), "never older than the maximum");
    scene.answer_in(&set, Live::Waiting, Duration::ZERO);
    scene.answer_in(&set, Live::Waiting, seconds(5));
    assert_eq!(scene.judge(&pod), ask(&set), "the server was fast again");
}

#[test]
fn a_solid_answer_counts_from_its_arrival() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&pod]);
    scene.answer_in(&set, Live::Solid, Duration::from_secs(20));
    scene.pass(FRESH);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.judge(&pod), ask(&set));
}

#[test]
fn a_cached_state_that_does_not_wait_wins_over_any_answer() {
    let set = thing(&SET, "set").deleting(&[FOREGROUND]);
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let _ = scene.see(&set.clone().deleting(&[ORPHAN]).at(2));
    scene.answer(&set, Live::Waiting);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
}

#[test]
fn a_cycle_of_any_length_is_found() {
    const LENGTH: usize = 3000;
    let set = |n: usize| thing(&SET, &format!("set-{}", n % LENGTH));
    let all = (0..LENGTH).map(|n| set(n).refers(&[set(n + 1).blocking()]).deleting(&[FOREGROUND]));
    let all: Vec<Thing> = all.collect();
    let scene = Scene::with(&all.iter().collect::<Vec<_>>());
    assert!(matches!(scene.deed(&all[0]), Deed::Unblock { .. }));
}
