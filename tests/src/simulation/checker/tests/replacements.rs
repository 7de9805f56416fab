use super::*;

/// Replaces failing pods `count` times, one each `seconds`, and returns the violations.
fn replace(count: usize, seconds: f64, fail: &dyn Fn(&mut Story, &str)) -> Vec<&'static str> {
    let mut story = Story::new();
    story.user((SETS, "default/web"), &replica_set("web", 1));
    story.deliver(0, SETS);
    story.deliver(0, PODS);
    for number in 0..=count {
        let name = format!("p{number}");
        let key = format!("default/{name}");
        story.write(RS, "create", (PODS, &key), Some(&pod(&name, "web")));
        fail(&mut story, &name);
        story.wait(seconds);
    }
    story.found()
}

fn rejected(story: &mut Story, name: &str) {
    let status = json!({"phase": "Failed", "reason": "OutOfcpu"});
    story.user(
        (PODS, &format!("default/{name}")),
        &with_status(pod(name, "web"), &status),
    );
}

fn crashes(after: f64) -> impl Fn(&mut Story, &str) {
    move |story, name| {
        let key = format!("default/{name}");
        let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        story.user((PODS, &key), &with_status(pod(name, "web"), &running));
        story.wait(after);
        rejected(story, name);
    }
}

#[test]
fn more_than_sixty_replacements_in_a_minute_violate_b4() {
    assert_eq!(replace(61, 0.9, &rejected), ["B4"]);
    assert!(replace(60, 0.9, &rejected).is_empty());
    assert!(replace(200, 1.1, &rejected).is_empty());
}

#[test]
fn pod_that_ended_soon_after_its_start_counts() {
    assert_eq!(replace(61, 0.0, &crashes(0.5)), ["B4"]);
}

#[test]
fn pods_that_ran_are_replaced_at_once() {
    let remove = |story: &mut Story, name: &str| story.user_removes((PODS, &format!("default/{name}")));
    assert!(replace(100, 0.0, &remove).is_empty());
    assert!(replace(100, 0.0, &crashes(10.0)).is_empty());
}

#[test]
fn scale_up_is_not_limited() {
    let mut story = Story::new();
    story.user((SETS, "default/web"), &replica_set("web", 100));
    for number in 0..100 {
        let name = format!("p{number}");
        let key = format!("default/{name}");
        story.write(RS, "create", (PODS, &key), Some(&pod(&name, "web")));
    }
    assert!(story.found().is_empty());
}

/// Replaces a pod that ran after `seconds`.
fn replace_after(seconds: f64) -> Vec<&'static str> {
    let mut story = Story::with(Rules {
        follows_within: Some(Duration::from_secs(5)),
        ..rules()
    });
    story.user((SETS, "default/web"), &replica_set("web", 1));
    story.deliver(0, SETS);
    story.deliver(0, PODS);
    story.write(RS, "create", (PODS, "default/a"), Some(&pod("a", "web")));
    crashes(10.0)(&mut story, "a");
    story.wait(seconds);
    story.write(RS, "create", (PODS, "default/b"), Some(&pod("b", "web")));
    story.found()
}

#[test]
fn late_replacement_of_a_pod_that_ran_violates_l1() {
    assert_eq!(replace_after(6.0), ["L1"]);
    assert!(replace_after(4.0).is_empty());
}
