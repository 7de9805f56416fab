use super::*;

/// Sends `writes` with a floor of 2, and `faults`.
fn floor(writes: usize, faults: usize) -> Vec<&'static str> {
    let mut story = Story::with(Rules {
        write_floor: Some(2),
        ..rules()
    });
    for _ in 0..faults {
        story.fault("F04");
    }
    for _ in 0..writes {
        story.send(GC, "delete", (MAPS, "default/a"));
        story.send(GC, "get", (MAPS, "default/a"));
        story.send(GC, "create", ("events", "default/a"));
    }
    story.rest()
}

#[test]
fn more_or_fewer_writes_than_the_floor_violate_b1() {
    assert!(floor(2, 0).is_empty());
    assert_eq!(floor(1, 0), ["B1"]);
    assert_eq!(floor(3, 0), ["B1"]);
    assert!(floor(6, 2).is_empty());
    assert_eq!(floor(7, 2), ["B1"]);
}

fn steady(agent: Agent, verb: &'static str, collection: &str) -> Vec<&'static str> {
    let mut story = Story::new();
    story.send(agent, verb, (collection, "default/a"));
    story.checker.begin_steady();
    story.send(agent, verb, (collection, "default/a"));
    story.checker.end_steady();
    story.send(agent, verb, (collection, "default/a"));
    story.found()
}

#[test]
fn requests_in_a_steady_state_violate_b2() {
    assert_eq!(steady(GC, "get", MAPS), ["B2"]);
    assert_eq!(steady(RS, "patch", SETS), ["B2"]);
    assert_eq!(steady((0, "shared-informers"), "list", SETS), ["B2"]);
    assert!(steady((0, "shared-informers"), "watch", SETS).is_empty());
    assert!(steady((0, "leader-election"), "update", "leases.coordination.k8s.io").is_empty());
}

/// Sends `count` requests in an outage of ten minutes.
fn outage(count: usize, verb: &'static str, objects: usize) -> Vec<&'static str> {
    let mut story = Story::new();
    story.checker.begin_outage(story.at);
    for number in 0..count {
        let key = format!("default/{}", number % objects);
        story.send(GC, verb, (MAPS, &key));
    }
    story.wait(600.0);
    story.found.extend(story.checker.end_outage(story.at));
    story.found()
}

#[test]
fn requests_in_an_outage_are_limited() {
    assert!(outage(600, "get", 1).is_empty());
    assert_eq!(outage(601, "get", 1), ["B3"]);
}

#[test]
fn writes_of_one_object_in_an_outage_back_off() {
    assert!(outage(38, "delete", 1).is_empty());
    assert_eq!(outage(39, "delete", 1), ["B3"]);
    assert!(outage(390, "delete", 39).is_empty());
}

/// Sends `count` GETs that fail, one each `seconds`.
fn failures(count: usize, seconds: f64) -> Vec<&'static str> {
    let mut story = Story::new();
    for _ in 0..count {
        let number = story.send(GC, "get", (MAPS, "default/a"));
        story.answer(number, Some(500));
        story.wait(seconds);
    }
    story.found()
}

#[test]
fn repeated_failures_without_backoff_violate_b3() {
    assert_eq!(failures(101, 0.01), ["B3"]);
    assert!(failures(100, 0.01).is_empty());
    assert!(failures(300, 0.7).is_empty());
}

/// Lists pods twice, with a change or a fault between.
fn lists(has_one_cache: bool, between: impl Fn(&mut Story)) -> Vec<&'static str> {
    let mut story = Story::with(Rules {
        has_one_cache,
        ..rules()
    });
    for _ in 0..2 {
        story.send((0, "shared-informers"), "list", (PODS, ""));
        story.deliver(0, PODS);
        story.wait(10.0);
        between(&mut story);
    }
    story.found()
}

#[test]
fn second_list_of_an_idle_resource_violates_b2() {
    assert_eq!(lists(true, |_| {}), ["B2"]);
    assert!(lists(false, |_| {}).is_empty());
    assert!(lists(true, |story| story.fault("F21")).is_empty());
    assert!(lists(true, |story| story.user((PODS, "default/a"), &pod("a", "x"))).is_empty());
}

/// Sends creates in a namespace.
fn creates(count: usize, namespace: &Value) -> Vec<&'static str> {
    let mut story = Story::new();
    story.user(("namespaces", "other"), namespace);
    for _ in 0..count {
        story.send(RS, "create", (PODS, "other/a"));
    }
    story.found()
}

#[test]
fn creates_in_a_terminating_namespace_violate_b4() {
    let namespace = object("other", &[]);
    assert!(creates(20, &namespace).is_empty());
    let namespace = terminating(namespace, &[]);
    assert!(creates(10, &namespace).is_empty());
    assert_eq!(creates(11, &namespace), ["B4"]);
}
