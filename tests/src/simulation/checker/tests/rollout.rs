use super::*;

const WEB: (&str, &str) = (DEPLOYMENTS, "default/web");

fn deployment(replicas: i64, surge: i64, unavailable: i64) -> Value {
    let mut web = object("web", &[]);
    web["spec"] = json!({"replicas": replicas, "strategy": {"type": "RollingUpdate",
                         "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}});
    web
}

/// Returns a `ReplicaSet` of the Deployment.
fn set(name: &str, size: i64, available: i64) -> Value {
    let mut set = replica_set(name, size);
    set["metadata"]["ownerReferences"] = json!([controller(reference("apps/v1", "Deployment", "web"))]);
    set["status"] = json!({"replicas": available, "availableReplicas": available});
    set
}

fn path(name: &str) -> String {
    format!("default/{name}")
}

fn user(story: &mut Story, name: &str, size: i64, available: i64) {
    story.user((SETS, &path(name)), &set(name, size, available));
}

/// The controller scales a `ReplicaSet`.
fn scale(story: &mut Story, name: &str, size: i64, available: i64) {
    story.write(
        DEPLOYMENT,
        "patch",
        (SETS, &path(name)),
        Some(&set(name, size, available)),
    );
}

/// The controller creates a `ReplicaSet`.
fn create(story: &mut Story, size: i64) {
    let new = set("new", size, 0);
    story.write(DEPLOYMENT, "create", (SETS, "default/new"), Some(&new));
}

/// A Deployment of 4 replicas, at most 5, of which 3 must be available; the old `ReplicaSet` has all of them.
fn rollout() -> Story {
    let mut story = Story::new();
    story.user(WEB, &deployment(4, 1, 1));
    user(&mut story, "old", 4, 4);
    story.deliver(0, DEPLOYMENTS);
    story.deliver(0, SETS);
    story
}

#[test]
fn step_above_the_surge_violates_s5() {
    for (size, expected) in [(1, vec![]), (2, vec!["S5"])] {
        let mut story = rollout();
        create(&mut story, size);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn step_below_the_available_pods_violates_s5() {
    for (size, expected) in [(3, vec![]), (2, vec!["S5"])] {
        let mut story = rollout();
        scale(&mut story, "old", size, 4);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn available_pods_of_the_new_set_allow_the_next_step() {
    let mut story = rollout();
    create(&mut story, 1);
    scale(&mut story, "old", 3, 4);
    user(&mut story, "new", 1, 1);
    scale(&mut story, "old", 2, 3);
    assert!(story.found().is_empty());
}

#[test]
fn pods_that_are_not_available_may_be_removed() {
    let mut story = rollout();
    user(&mut story, "old", 4, 2);
    story.deliver(0, SETS);
    scale(&mut story, "old", 2, 2);
    assert!(story.found().is_empty());
}

#[test]
fn bounds_of_each_generation_since_the_last_delivery_are_allowed() {
    for (delivered, expected) in [(false, vec![]), (true, vec!["S5"])] {
        let mut story = rollout();
        story.user(WEB, &deployment(4, 0, 1));
        if delivered {
            story.deliver(0, DEPLOYMENTS);
        }
        create(&mut story, 1);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn change_by_another_client_counts_when_it_is_delivered() {
    for (delivered, expected) in [(false, vec![]), (true, vec!["S5"])] {
        let mut story = rollout();
        user(&mut story, "old", 5, 4);
        if delivered {
            story.deliver(0, SETS);
        }
        create(&mut story, 1);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn replica_set_released_by_another_client_counts_when_delivered() {
    for (delivered, expected) in [(false, vec![]), (true, vec!["S5"])] {
        let mut story = rollout();
        user(&mut story, "old", 2, 2);
        user(&mut story, "older", 2, 2);
        story.deliver(0, SETS);
        let mut taken = set("older", 2, 2);
        taken["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        story.user((SETS, "default/older"), &taken);
        if delivered {
            story.deliver(0, SETS);
        }
        scale(&mut story, "old", 1, 2);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn pods_that_are_not_shown_as_unavailable_may_not_be_removed() {
    let mut story = rollout();
    user(&mut story, "old", 4, 1);
    scale(&mut story, "old", 2, 1);
    assert_eq!(story.found(), ["S5"]);
}

#[test]
fn scale_up_removes_no_pods() {
    let mut story = rollout();
    user(&mut story, "old", 1, 4);
    story.deliver(0, SETS);
    scale(&mut story, "old", 2, 4);
    assert!(story.found().is_empty());
}

#[test]
fn pods_that_have_become_available_since_the_last_delivery_may_be_removed() {
    for (delivered, expected) in [(false, vec![]), (true, vec!["S5"])] {
        let mut story = rollout();
        user(&mut story, "old", 4, 2);
        story.deliver(0, SETS);
        user(&mut story, "old", 4, 4);
        if delivered {
            story.deliver(0, SETS);
        }
        scale(&mut story, "old", 2, 4);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn adoption_is_not_a_step() {
    let mut story = rollout();
    let mut free = set("other", 4, 4);
    free["metadata"]["ownerReferences"] = json!([]);
    story.user((SETS, "default/other"), &free);
    scale(&mut story, "other", 4, 4);
    assert!(story.found().is_empty());
}

#[test]
fn recreate_has_no_minimum() {
    let mut story = rollout();
    let mut web = deployment(4, 0, 0);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    story.user(WEB, &web);
    story.deliver(0, DEPLOYMENTS);
    scale(&mut story, "old", 0, 4);
    assert!(story.found().is_empty());
}

#[test]
fn clean_up_of_a_set_with_pods_violates_s5() {
    for (pods, expected) in [(0, vec![]), (1, vec!["S5"])] {
        let mut story = rollout();
        user(&mut story, "older", 0, pods);
        story.deliver(0, SETS);
        story.delete(DEPLOYMENT, (SETS, "default/older"));
        assert_eq!(story.found(), expected);
    }
}
