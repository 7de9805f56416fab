use super::*;

const WEB: (&str, &str) = (SETS, "default/web");
const RC: Agent = (0, "replication-controller");

fn key(name: &str) -> String {
    format!("default/{name}")
}

/// A `ReplicaSet` that the process knows.
fn set(replicas: i64) -> Story {
    let mut story = Story::new();
    story.user(WEB, &replica_set("web", replicas));
    story.deliver(0, SETS);
    story.deliver(0, PODS);
    story
}

fn create(story: &mut Story, agent: Agent, name: &str) {
    story.write(agent, "create", (PODS, &key(name)), Some(&pod(name, "web")));
}

fn user_creates(story: &mut Story, name: &str) {
    story.user((PODS, &key(name)), &pod(name, "web"));
}

fn scale(story: &mut Story, replicas: i64) {
    story.user(WEB, &replica_set("web", replicas));
}

#[test]
fn surplus_create_violates_s5() {
    let mut story = set(2);
    create(&mut story, RS, "a");
    create(&mut story, RS, "b");
    assert!(story.found().is_empty());
    create(&mut story, RS, "c");
    assert_eq!(story.found(), ["S5"]);
}

#[test]
fn pods_that_are_not_active_do_not_count() {
    let mut story = set(1);
    create(&mut story, RS, "a");
    story.user(
        (PODS, "default/a"),
        &with_status(pod("a", "web"), &json!({"phase": "Failed"})),
    );
    create(&mut story, RS, "b");
    story.user((PODS, "default/b"), &terminating(pod("b", "web"), &[]));
    create(&mut story, RS, "c");
    assert!(story.found().is_empty());
}

#[test]
fn create_is_allowed_for_each_size_since_the_last_delivery() {
    let mut story = set(2);
    scale(&mut story, 1);
    create(&mut story, RS, "a");
    create(&mut story, RS, "b");
    assert!(story.found().is_empty());
    let mut story = set(2);
    scale(&mut story, 1);
    story.deliver(0, SETS);
    create(&mut story, RS, "a");
    create(&mut story, RS, "b");
    assert_eq!(story.found(), ["S5"]);
}

#[test]
fn sync_that_began_before_a_delivery_keeps_its_size() {
    let mut story = set(2);
    let first = story.send(RS, "create", (PODS, "default/a"));
    scale(&mut story, 1);
    story.deliver(0, SETS);
    story.execute(first, (PODS, "default/a"), Some(&pod("a", "web")));
    story.answer(first, Some(201));
    create(&mut story, RS, "b");
    assert!(story.found().is_empty());
}

#[test]
fn sync_that_waits_for_a_slow_response_keeps_its_size() {
    for (is_slow, expected) in [(true, vec![]), (false, vec!["S5"])] {
        let mut story = set(2);
        if is_slow {
            story.fault("F14");
        }
        create(&mut story, RS, "a");
        scale(&mut story, 1);
        story.deliver(0, SETS);
        story.wait(5.0);
        // Another sync of the controller.
        story.get(RS, (SETS, "default/other"));
        story.deliver(0, PODS);
        create(&mut story, RS, "b");
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn pods_of_other_clients_count_when_they_are_delivered() {
    let mut story = set(1);
    user_creates(&mut story, "a");
    create(&mut story, RS, "b");
    assert!(story.found().is_empty());
    let mut story = set(1);
    user_creates(&mut story, "a");
    story.deliver(0, PODS);
    create(&mut story, RS, "b");
    assert_eq!(story.found(), ["S5"]);
}

#[test]
fn new_process_counts_the_pods_of_the_last_one() {
    let mut story = set(1);
    create(&mut story, RS, "a");
    story.end(0, false);
    story.start(1);
    story.deliver_at(1, SETS, 2);
    story.deliver_at(1, PODS, 2);
    create(&mut story, (1, RS.1), "b");
    assert_eq!(story.found(), ["S5"]);
}

#[test]
fn late_delete_is_allowed() {
    let mut story = set(1);
    for name in ["a", "b"] {
        user_creates(&mut story, name);
    }
    story.deliver(0, PODS);
    let late = story.send(RS, "delete", (PODS, "default/a"));
    story.answer(late, None);
    story.delete(RS, (PODS, "default/b"));
    story.execute(late, (PODS, "default/a"), None);
    assert!(story.found().is_empty());
}

#[test]
fn new_process_may_not_know_the_pods_of_other_clients() {
    let mut story = set(1);
    user_creates(&mut story, "a");
    story.end(0, false);
    story.start(1);
    story.deliver_at(1, SETS, 2);
    story.deliver_at(1, PODS, 2);
    create(&mut story, (1, RS.1), "b");
    assert!(story.found().is_empty());
}

#[test]
fn late_create_of_an_ended_process_is_allowed() {
    let mut story = set(1);
    let late = story.send(RS, "create", (PODS, "default/a"));
    story.end(0, false);
    story.start(1);
    story.deliver(1, SETS);
    create(&mut story, (1, RS.1), "b");
    story.execute(late, (PODS, "default/a"), Some(&pod("a", "web")));
    assert!(story.found().is_empty());
}

#[test]
fn create_with_an_unknown_outcome_counts() {
    let mut story = set(1);
    let late = story.send(RS, "create", (PODS, "default/a"));
    story.answer(late, None);
    create(&mut story, RS, "b");
    story.execute(late, (PODS, "default/a"), Some(&pod("a", "web")));
    assert_eq!(story.found(), ["S5"]);
}

/// A live read shows that the pod of the create is absent; then its sender adopts another pod, which it may replace later.
#[test]
fn late_create_after_an_adoption_is_allowed() {
    for (replaces, adds) in [(false, false), (true, false), (true, true)] {
        let mut story = set(1);
        let late = story.send(RS, "create", (PODS, "default/a"));
        story.answer(late, None);
        story.user(
            (PODS, "default/b"),
            &with_status(object("b", &[]), &json!({"phase": "Pending"})),
        );
        story.deliver(0, PODS);
        story.write(RS, "patch", (PODS, "default/b"), Some(&pod("b", "web")));
        if replaces {
            story.user_removes((PODS, "default/b"));
            story.deliver(0, PODS);
            create(&mut story, RS, "c");
        }
        story.execute(late, (PODS, "default/a"), Some(&pod("a", "web")));
        assert!(story.found().is_empty());
        if adds {
            create(&mut story, RS, "d");
            assert_eq!(story.found(), ["S5"]);
        }
    }
}

#[test]
fn adoption_by_another_client_allows_no_late_create() {
    let mut story = set(1);
    create(&mut story, RS, "c");
    let late = story.send(RS, "create", (PODS, "default/a"));
    story.answer(late, None);
    story.user((PODS, "default/b"), &object("b", &[]));
    user_creates(&mut story, "b");
    story.execute(late, (PODS, "default/a"), Some(&pod("a", "web")));
    assert_eq!(story.found(), ["S5"]);
}

/// The sender has repeated a create without a response under the same name, and that pod is gone. Returns the first request.
fn late_create(story: &mut Story) -> usize {
    let late = story.send(RS, "create", (PODS, "default/a"));
    story.answer(late, None);
    create(story, RS, "a");
    story.deliver(0, PODS);
    story.user_removes((PODS, "default/a"));
    story.deliver(0, PODS);
    late
}

#[test]
fn late_create_of_a_name_that_is_free_again_is_allowed() {
    let mut story = set(1);
    let late = late_create(&mut story);
    create(&mut story, RS, "b");
    story.execute(late, (PODS, "default/a"), Some(&pod("a", "web")));
    assert!(story.found().is_empty());
}

#[test]
fn pod_of_a_late_create_counts_when_it_is_delivered() {
    for is_delivered in [false, true] {
        let mut story = set(1);
        let late = late_create(&mut story);
        story.execute(late, (PODS, "default/a"), Some(&pod("a", "web")));
        if is_delivered {
            story.deliver(0, PODS);
        }
        // Another sync.
        story.wait(5.0);
        create(&mut story, RS, "b");
        assert_eq!(!story.found().is_empty(), is_delivered);
    }
}

#[test]
fn pod_that_the_selector_does_not_match_does_not_count() {
    for (label, expected) in [("web", vec!["S5"]), ("other", vec![])] {
        let mut story = set(1);
        create(&mut story, RS, "a");
        let mut relabelled = pod("a", "web");
        relabelled["metadata"]["labels"]["app"] = json!(label);
        story.user((PODS, &key("a")), &relabelled);
        story.deliver(0, PODS);
        create(&mut story, RS, "b");
        assert_eq!(story.found(), expected);
    }
}

/// The API refuses the release of a pod, and its labels change back during the sync.
#[test]
fn pod_that_the_selector_did_not_match_does_not_count() {
    for (is_delivered, expected) in [(false, vec![]), (true, vec!["S5"])] {
        let mut story = set(1);
        create(&mut story, RS, "a");
        let mut relabelled = pod("a", "web");
        relabelled["metadata"]["labels"]["app"] = json!("other");
        story.user((PODS, &key("a")), &relabelled);
        story.deliver(0, PODS);
        story.user((PODS, &key("a")), &pod("a", "web"));
        if is_delivered {
            story.deliver(0, PODS);
        }
        story.wait(5.0);
        create(&mut story, RS, "b");
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn pod_counts_while_the_change_of_another_label_is_not_delivered() {
    let mut story = set(1);
    create(&mut story, RS, "a");
    let mut relabelled = pod("a", "web");
    relabelled["metadata"]["labels"]["tier"] = json!("front");
    story.user((PODS, &key("a")), &relabelled);
    create(&mut story, RS, "b");
    assert_eq!(story.found(), ["S5"]);
}

#[test]
fn repeated_create_is_allowed() {
    let mut story = set(1);
    let path = (PODS, "default/a");
    let number = story.send(RS, "create", path);
    story.execute(number, path, Some(&pod("a", "web")));
    story.answer(number, Some(201));
    story.user_removes(path);
    story.deliver(0, PODS);
    create(&mut story, RS, "b");
    story.execute(number, path, Some(&pod("a", "web")));
    assert!(story.found().is_empty());
}

#[test]
fn delete_below_the_size_violates_s5() {
    let mut story = set(2);
    for name in ["a", "b", "c"] {
        user_creates(&mut story, name);
    }
    story.deliver(0, PODS);
    story.delete(RS, (PODS, "default/a"));
    assert!(story.found().is_empty());
    story.delete(RS, (PODS, "default/b"));
    assert_eq!(story.found(), ["S5"]);
}

#[test]
fn delete_is_allowed_for_each_size_since_the_last_delivery() {
    let mut story = set(1);
    for name in ["a", "b"] {
        user_creates(&mut story, name);
    }
    story.deliver(0, PODS);
    scale(&mut story, 2);
    story.delete(RS, (PODS, "default/a"));
    assert!(story.found().is_empty());
}

#[test]
fn pods_that_other_clients_remove_count_until_it_is_delivered() {
    for (delivered, expected) in [(false, vec![]), (true, vec!["S5"])] {
        let mut story = set(1);
        for name in ["a", "b"] {
            user_creates(&mut story, name);
        }
        story.deliver(0, PODS);
        story.user_removes((PODS, "default/a"));
        if delivered {
            story.deliver(0, PODS);
        }
        story.delete(RS, (PODS, "default/b"));
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn delete_of_a_pod_of_another_kind_violates_s6() {
    let mut story = set(0);
    user_creates(&mut story, "a");
    user_creates(&mut story, "b");
    story.deliver(0, PODS);
    story.delete(RC, (PODS, "default/a"));
    assert_eq!(story.found(), ["S6"]);
    story.delete(RS, (PODS, "default/b"));
    assert_eq!(story.found(), ["S6"]);
}

#[test]
fn delete_of_a_released_pod_violates_s6() {
    for agent in [RS, DEPLOYMENT] {
        let mut story = set(0);
        story.user((PODS, "default/a"), &object("a", &[]));
        story.delete(agent, (PODS, "default/a"));
        assert_eq!(story.found(), ["S6"]);
    }
}

#[test]
fn delete_without_preconditions_violates_s6() {
    for (body, expected) in [
        (json!({"preconditions": {"uid": "uid-a"}}), vec!["S6"]),
        (
            json!({"preconditions": {"uid": "uid-a", "resourceVersion": "3"}}),
            vec![],
        ),
    ] {
        let mut story = set(0);
        user_creates(&mut story, "a");
        story.send_as(Sender::Process(0), RS.1, "delete", (PODS, "default/a"), &body);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn list_or_watch_of_a_controller_is_not_a_delivery() {
    for (agent, expected) in [(RS, vec![]), ((0, "shared-informers"), vec!["S5"])] {
        for verb in ["list", "watch"] {
            let mut story = set(2);
            scale(&mut story, 1);
            let (request, revision) = (story.send(agent, verb, (SETS, "")), story.revision);
            story.answer(request, Some(200));
            story.deliver_by(request, 0, SETS, revision);
            create(&mut story, RS, "a");
            create(&mut story, RS, "b");
            assert_eq!(story.found(), expected, "{verb}");
        }
    }
}
