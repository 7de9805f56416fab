//! Owners in foreground deletion.

use steersman_manager::client::Propagation;

use super::*;

#[test]
fn foreground_owner_is_deleted_after_its_dependents() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let set = set.deleting(&["a", FOREGROUND, "b"]).at(2);
    assert_eq!(case.observe(&set), items(&[pod.item(), set.item()]));
    assert_eq!(case.evaluate(&set), Decision::Nothing);
    assert_eq!(case.evaluate(&pod), read(&set));
    case.answer(&set, LiveState::Waiting);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    assert_eq!(case.delete(&pod), items(&[set.item()]));
    let rest = ["a".into(), "b".into()].into();
    let finalizer = FOREGROUND;
    assert_eq!(
        case.operation(&set),
        Operation::RemoveFinalizer { finalizer, rest }
    );
}

#[test]
fn foreground_answer_is_valid_for_a_second() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let pod = object(&POD, "pod").refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set, &pod]);
    case.answer(&set, LiveState::Waiting);
    case.advance(FRESH);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    case.advance(Duration::from_millis(1));
    assert_eq!(case.evaluate(&pod), read(&set));
    // The owner was deleted again, with orphan propagation, and no cache has shown that.
    case.answer(&set, LiveState::Solid);
    assert_eq!(case.evaluate(&pod), Decision::Poll);
}

#[test]
fn answers_about_owners_that_need_several_passes_are_valid_for_ten_seconds() {
    let owner = |n: usize| object(&SET, &format!("set-{n}")).deleting(&[FOREGROUND]);
    let sets: Vec<_> = (0..=LOOKUPS_PER_PASS).map(owner).collect();
    let references: Vec<_> = sets.iter().map(Object::blocking).collect();
    let pod = object(&POD, "pod").refers(&references);
    let all: Vec<_> = sets.iter().chain([&pod]).collect();
    let mut case = Fixture::with(&all);
    for set in &sets {
        case.answer(set, LiveState::Waiting);
    }
    case.advance(FRESH_MAX);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    case.advance(Duration::from_millis(1));
    let rest = case.evaluate(&pod);
    assert!(
        matches!(&rest, Decision::LookUp(rest) if rest.len() == sets.len()),
        "{rest:?}"
    );
}

#[test]
fn flags_follow_the_latest_state() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let pod = object(&POD, "pod").refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let orphaning = set.clone().deleting(&[ORPHAN]).at(2);
    assert_eq!(
        case.observe(&orphaning).attempt_to_orphan,
        std::slice::from_ref(&set.meta.uid)
    );
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    assert_eq!(case.evaluate(&set), Decision::Nothing);
    let back = set.clone().at(3);
    assert_eq!(case.observe(&back), items(&[pod.item(), set.item()]));
    let plain = set.deleting(&["example.com/hold"]).at(4);
    assert_eq!(case.observe(&plain), Effects::default());
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
}

#[test]
fn deletion_first_observed_in_progress_is_processed() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.blocking()]);
    let set = set.deleting(&[FOREGROUND]);
    let mut case = Fixture::with(&[&pod]);
    assert_eq!(case.observe(&set), items(&[pod.item(), set.item()]));
    assert_eq!(
        case.observe(&set.clone().at(2)),
        Effects::default(),
        "nothing has started"
    );
}

#[test]
fn second_foreground_deletion_is_finished_too() {
    let set = object(&SET, "set").deleting(&[FOREGROUND, "example.com/hold"]);
    let mut case = Fixture::with(&[&set]);
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));
    let _ = case.observe(&set.clone().deleting(&["example.com/hold"]).at(2));
    assert_eq!(case.evaluate(&set), Decision::Nothing);
    assert_eq!(case.observe(&set.clone().at(3)), items(&[set.item()]));
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));
}

#[test]
fn new_dependent_of_a_foreground_owner_is_evaluated() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let pod = object(&POD, "pod");
    let mut case = Fixture::with(&[&set, &pod]);
    let pod = pod.refers(&[set.reference()]).at(2);
    assert_eq!(case.observe(&pod), items(&[pod.item()]));
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));
    let pod = pod.refers(&[set.blocking()]).at(3);
    assert_eq!(case.observe(&pod), items(&[pod.item()]));
    assert_eq!(case.evaluate(&set), Decision::Nothing);
    let pod = pod.refers(&[set.reference()]).at(4);
    assert_eq!(case.observe(&pod), items(&[set.item(), pod.item()]));
    let pod = pod.refers(&[set.blocking()]).at(5);
    let _ = case.observe(&pod);
    assert_eq!(case.observe(&pod.clone().refers(&[]).at(6)), items(&[set.item()]));
}

#[test]
fn object_that_owns_itself_does_not_block_itself() {
    let set = object(&SET, "set");
    let set = set.clone().refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set]);
    assert_eq!(case.evaluate(&set), Decision::Nothing);
    let set = set.deleting(&[FOREGROUND]).at(2);
    assert_eq!(case.observe(&set), items(&[set.item()]));
    assert!(matches!(case.operation(&set), Operation::RemoveFinalizer { .. }));
    assert_eq!(case.delete(&set), Effects::default());
    assert_eq!((case.graph.links.len(), case.graph.virtual_owners.len()), (0, 0));
}

#[test]
fn dependent_in_a_cycle_is_unblocked_first() {
    let one = object(&SET, "one");
    let two = object(&SET, "two").refers(&[one.blocking()]);
    let one = one.refers(&[two.blocking()]);
    let mut case = Fixture::with(&[&one, &two]);
    let one = one.deleting(&[FOREGROUND]).at(2);
    let _ = case.observe(&one);
    case.answer(&one, LiveState::Waiting);
    let references = [one.reference()].into();
    assert_eq!(case.operation(&two), Operation::Unblock { references });
    let freed = two.clone().refers(&[one.reference()]).at(3);
    let effects = case.graph.refresh(&freed.kind, &freed.meta);
    assert_eq!(effects.attempt_to_delete, [one.item(), two.item()]);
    assert_eq!(case.operation(&freed), Operation::Delete(Propagation::Foreground));
    assert!(matches!(case.operation(&one), Operation::RemoveFinalizer { .. }));
}

#[test]
fn foreground_deletions_that_block_each_other_do_not_deadlock() {
    let one = object(&SET, "one");
    let two = object(&SET, "two")
        .refers(&[one.blocking()])
        .deleting(&[FOREGROUND]);
    let one = one.refers(&[two.blocking()]).deleting(&[FOREGROUND]);
    let case = Fixture::with(&[&one, &two]);
    for object in [&one, &two] {
        assert!(matches!(case.operation(object), Operation::Unblock { .. }));
    }
}

#[test]
fn wrong_reference_does_not_close_a_cycle() {
    let one = object(&SET, "one");
    let two = object(&SET, "two")
        .refers(&[one.clone().named("other").blocking()])
        .deleting(&[FOREGROUND]);
    let one = one.refers(&[two.blocking()]).deleting(&[FOREGROUND]);
    let case = Fixture::with(&[&one, &two]);
    assert_eq!(case.evaluate(&two), Decision::Nothing);
}

#[test]
fn cycle_is_broken_only_if_all_members_are_in_foreground_deletion() {
    let (one, two, three) = (object(&SET, "one"), object(&SET, "two"), object(&SET, "three"));
    let one = one.refers(&[two.blocking()]);
    let two = two.refers(&[three.blocking()]).deleting(&[FOREGROUND]);
    let three = three.refers(&[one.blocking()]);
    let mut case = Fixture::with(&[&one, &two, &three]);
    case.answer(&two, LiveState::Waiting);
    assert_eq!(case.operation(&one), Operation::Delete(Propagation::Foreground));
    let _ = case.observe(&three.deleting(&[FOREGROUND]).at(2));
    assert!(matches!(case.operation(&one), Operation::Unblock { .. }));
}

#[test]
fn foreground_object_that_closes_a_cycle_is_evaluated() {
    let one = object(&SET, "one");
    let two = object(&SET, "two")
        .refers(&[one.reference()])
        .deleting(&[FOREGROUND]);
    let one = one.refers(&[two.blocking()]).deleting(&[FOREGROUND]);
    let mut case = Fixture::with(&[&one, &two]);
    assert_eq!(case.evaluate(&two), Decision::Nothing);
    let two = two.refers(&[one.blocking()]).at(2);
    assert_eq!(case.observe(&two), items(&[two.item()]));
    assert!(matches!(case.operation(&two), Operation::Unblock { .. }));
}

#[test]
fn slow_answer_is_valid_longer_only_by_a_latency_measured_twice() {
    let seconds = Duration::from_secs;
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let pod = object(&POD, "pod").refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set, &pod]);
    case.answer_in(&set, LiveState::Waiting, seconds(5));
    assert_eq!(case.evaluate(&pod), read(&set), "the server was fast before");
    case.answer_in(&set, LiveState::Waiting, seconds(7));
    assert_eq!(case.evaluate(&pod), read(&set), "older than 5 s and 1 s");
    case.answer_in(&set, LiveState::Waiting, seconds(5));
    case.advance(FRESH);
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    case.advance(Duration::from_millis(1));
    assert_eq!(case.evaluate(&pod), read(&set));
    for _ in 0..2 {
        case.answer_in(&set, LiveState::Waiting, FRESH_MAX);
    }
    assert_eq!(case.operation(&pod), Operation::Delete(Propagation::Background));
    case.advance(Duration::from_millis(1));
    assert_eq!(case.evaluate(&pod), read(&set), "never older than the maximum");
    case.answer_in(&set, LiveState::Waiting, Duration::ZERO);
    case.answer_in(&set, LiveState::Waiting, seconds(5));
    assert_eq!(case.evaluate(&pod), read(&set), "the server was fast again");
}

#[test]
fn solid_answer_is_valid_from_its_arrival() {
    let set = object(&SET, "set");
    let pod = object(&POD, "pod").refers(&[set.reference()]);
    let mut case = Fixture::with(&[&pod]);
    case.answer_in(&set, LiveState::Solid, Duration::from_secs(20));
    case.advance(FRESH);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
    case.advance(Duration::from_millis(1));
    assert_eq!(case.evaluate(&pod), read(&set));
}

#[test]
fn cached_solid_state_overrides_any_answer() {
    let set = object(&SET, "set").deleting(&[FOREGROUND]);
    let pod = object(&POD, "pod").refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let _ = case.observe(&set.clone().deleting(&[ORPHAN]).at(2));
    case.answer(&set, LiveState::Waiting);
    assert_eq!(case.evaluate(&pod), Decision::Nothing);
}

#[test]
fn cycle_of_any_length_is_found() {
    const LENGTH: usize = 3000;
    let set = |n: usize| object(&SET, &format!("set-{}", n % LENGTH));
    let all = (0..LENGTH).map(|n| set(n).refers(&[set(n + 1).blocking()]).deleting(&[FOREGROUND]));
    let all: Vec<Object> = all.collect();
    let case = Fixture::with(&all.iter().collect::<Vec<_>>());
    assert!(matches!(case.operation(&all[0]), Operation::Unblock { .. }));
}
