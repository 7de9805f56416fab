use super::*;

const LEASE: (&str, &str) = ("leases.coordination.k8s.io", "kube-system/steersman");

fn election() -> Story {
    Story::with(Rules::default())
}

fn lease(holder: &str) -> Value {
    let mut lease = object("steersman", &[]);
    lease["spec"] = json!({"holderIdentity": holder});
    lease
}

/// Sends a renewal.
fn send(story: &mut Story, process: usize, holder: &str) -> usize {
    let sender = Sender::Process(process);
    story.send_as(sender, "leader-election", "update", LEASE, &lease(holder))
}

/// A process acquires or renews the Lease; a release has no holder.
fn renew(story: &mut Story, process: usize, holder: &str) {
    let number = send(story, process, holder);
    story.execute(number, LEASE, Some(&lease(holder)));
    story.answer(number, Some(200));
}

fn create(story: &mut Story, process: usize) {
    let path = (MAPS, "default/a");
    story.send_as(
        Sender::Process(process),
        "appservice-controller",
        "create",
        path,
        &object("a", &[]),
    );
}

#[test]
fn write_after_the_renew_deadline_violates_s7() {
    for (seconds, expected) in [(9.9, vec![]), (10.1, vec!["S7"])] {
        let mut story = election();
        renew(&mut story, 0, "a");
        story.wait(seconds);
        create(&mut story, 0);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn deadline_counts_from_the_sending_of_the_renewal() {
    let mut story = election();
    let number = send(&mut story, 0, "a");
    story.execute(number, LEASE, Some(&lease("a")));
    story.wait(5.0);
    story.answer(number, Some(200));
    story.wait(5.1);
    create(&mut story, 0);
    assert_eq!(story.found(), ["S7"]);
}

#[test]
fn renewal_without_an_answer_does_not_count() {
    let mut story = election();
    renew(&mut story, 0, "a");
    story.wait(8.0);
    let number = send(&mut story, 0, "a");
    story.execute(number, LEASE, Some(&lease("a")));
    story.answer(number, None);
    story.wait(3.0);
    create(&mut story, 0);
    assert_eq!(story.found(), ["S7"]);
}

#[test]
fn conditional_writes_reads_and_events_may_be_late() {
    let mut story = election();
    story.send(GC, "delete", (MAPS, "default/a"));
    story.send(GC, "get", (MAPS, "default/a"));
    let (sender, event) = (Sender::Process(0), object("e", &[]));
    story.send_as(
        sender,
        "replicaset-controller",
        "create",
        ("events", "default/e"),
        &event,
    );
    assert!(story.found().is_empty());
    let body = json!({"propagationPolicy": "Background"});
    story.send_as(sender, GC.1, "delete", (MAPS, "default/a"), &body);
    assert_eq!(story.found(), ["S7"]);
}

#[test]
fn write_after_the_release_violates_s7() {
    let mut story = election();
    renew(&mut story, 0, "a");
    renew(&mut story, 0, "");
    create(&mut story, 0);
    assert_eq!(story.found(), ["S7"]);
}

#[test]
fn slow_clock_extends_the_deadline() {
    let mut story = election();
    renew(&mut story, 0, "a");
    story.fault("F24");
    story.wait(19.0);
    create(&mut story, 0);
    assert!(story.found().is_empty());
}

/// The process has stopped waiting for the answer to its first renewal.
#[test]
fn answer_that_arrives_after_that_of_a_newer_renewal_is_ignored() {
    let mut story = election();
    renew(&mut story, 0, "a");
    let old = send(&mut story, 0, "a");
    story.execute(old, LEASE, Some(&lease("a")));
    story.wait(9.0);
    renew(&mut story, 0, "a");
    story.answer(old, Some(200));
    story.wait(5.0);
    create(&mut story, 0);
    assert!(story.found().is_empty());
}

/// With a disturbed clock, a renewal after seven seconds may be in a new term, or not.
#[test]
fn only_a_term_that_is_new_for_certain_proves_its_caches() {
    for (seconds, expected) in [(7.0, vec![]), (21.0, vec!["S4"])] {
        let mut story = election();
        story.fault("F24");
        renew(&mut story, 0, "a");
        for _ in 0..8 {
            story.wait(4.0);
            renew(&mut story, 0, "a");
        }
        let owner = (MAPS, "default/owner");
        story.user(owner, &object("owner", &[]));
        story.deliver(0, MAPS);
        story.user((MAPS, "default/x"), &object("x", &[blocking(to_map("owner"))]));
        story.user(owner, &terminating(object("owner", &[]), &["foregroundDeletion"]));
        story.wait(seconds);
        renew(&mut story, 0, "a");
        story.write(GC, "patch", owner, None);
        assert_eq!(story.found(), expected, "{seconds}");
    }
}

/// Whether or not the term is new, the process knows the pods that it has created.
#[test]
fn surplus_create_after_a_late_renewal_violates_s5() {
    for seconds in [7.0, 21.0] {
        let mut story = election();
        story.fault("F24");
        story.user((SETS, "default/web"), &replica_set("web", 1));
        story.deliver(0, SETS);
        story.deliver(0, PODS);
        renew(&mut story, 0, "a");
        story.write(RS, "create", (PODS, "default/a"), Some(&pod("a", "web")));
        story.wait(seconds);
        renew(&mut story, 0, "a");
        story.write(RS, "create", (PODS, "default/b"), Some(&pod("b", "web")));
        assert_eq!(story.found(), ["S5"], "{seconds}");
    }
}

/// A leader, and a standby that follows the Lease.
fn two_processes() -> Story {
    let mut story = election();
    renew(&mut story, 0, "a");
    story.start(1);
    story.deliver(1, LEASE.0);
    story.wait(60.0);
    renew(&mut story, 0, "a");
    story
}

/// The leader ends, and a standby acquires the Lease later, or never.
fn takeover(clean: bool, seconds: f64, acquires: bool) -> Vec<&'static str> {
    let mut story = two_processes();
    if clean {
        renew(&mut story, 0, "");
    }
    story.end(0, clean);
    story.wait(seconds);
    if acquires {
        renew(&mut story, 1, "b");
    }
    story.rest()
}

#[test]
fn crash_without_a_new_leader_in_time_violates_l4() {
    assert!(takeover(false, 20.0, true).is_empty());
    assert_eq!(takeover(false, 22.0, true), ["L4"]);
    assert_eq!(takeover(false, 5.0, false), ["L4"]);
}

/// The standby ends before it leads: the next process counts from its own start.
#[test]
fn end_of_the_standby_extends_the_time_of_the_next_process() {
    for (seconds, expected) in [(5.0, vec![]), (8.0, vec!["L4"])] {
        let mut story = two_processes();
        story.end(0, false);
        story.wait(4.0);
        story.start(2);
        story.wait(14.0);
        story.end(1, false);
        story.wait(seconds);
        renew(&mut story, 2, "c");
        assert_eq!(story.rest(), expected, "{seconds}");
    }
}

#[test]
fn release_without_a_new_leader_in_a_second_violates_l4() {
    assert!(takeover(true, 0.9, true).is_empty());
    assert_eq!(takeover(true, 1.1, true), ["L4"]);
}

#[test]
fn first_leader_is_awaited() {
    let mut story = election();
    story.wait(22.0);
    renew(&mut story, 0, "a");
    assert_eq!(story.found(), ["L4"]);
}

#[test]
fn end_of_the_last_process_is_allowed() {
    let mut story = election();
    renew(&mut story, 0, "a");
    story.end(0, false);
    story.wait(100.0);
    story.start(1);
    story.wait(10.0);
    renew(&mut story, 1, "b");
    assert!(story.found().is_empty());
}

#[test]
fn fault_delays_the_new_leader() {
    let mut story = election();
    renew(&mut story, 0, "a");
    story.start(1);
    story.end(0, false);
    story.wait(5.0);
    story.fault("F12");
    story.wait(60.0);
    renew(&mut story, 1, "b");
    assert!(story.found().is_empty());
}

/// A create of the term before lands after the creates of the new one.
#[test]
fn new_term_does_not_know_requests_of_the_last_one() {
    for (renews, expected) in [(false, vec![]), (true, vec!["S5"])] {
        let mut story = election();
        renew(&mut story, 0, "a");
        story.user((SETS, "default/web"), &replica_set("web", 1));
        story.deliver(0, SETS);
        story.deliver(0, PODS);
        let (a, b) = ((PODS, "default/a"), (PODS, "default/b"));
        let late = story.send(RS, "create", a);
        story.answer(late, None);
        if renews {
            story.wait(5.0);
            renew(&mut story, 0, "a");
        }
        story.wait(11.0 - if renews { 5.0 } else { 0.0 });
        renew(&mut story, 0, "a");
        story.write(RS, "create", b, Some(&pod("b", "web")));
        story.execute(late, a, Some(&pod("a", "web")));
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn write_beside_kube_controller_manager_violates_s7() {
    for (yields, expected) in [(true, vec!["S7"]), (false, vec![])] {
        let mut story = Story::with(Rules {
            yields,
            ..Rules::default()
        });
        renew(&mut story, 0, "a");
        create(&mut story, 0);
        assert_eq!(story.found(), expected);
    }
}

/// The leader releases the Lease, and a standby that has read it takes over after 1.5 s.
fn hand_over(takes_over_at_once: bool) -> Vec<&'static str> {
    let mut story = Story::with(Rules {
        takes_over_at_once,
        ..Rules::default()
    });
    story.start(1);
    let list = story.send((1, "leader-election"), "list", LEASE);
    story.answer(list, Some(200));
    renew(&mut story, 0, "a");
    renew(&mut story, 0, "");
    story.wait(1.5);
    renew(&mut story, 1, "b");
    story.found()
}

#[test]
fn late_hand_over_to_a_standby_that_has_read_the_lease_violates_l4() {
    assert_eq!(hand_over(true), ["L4"]);
    assert!(hand_over(false).is_empty());
}
