use std::collections::BTreeSet;

use super::*;

const WEB: (&str, &str) = (SETS, "default/web");

fn ready(name: &str, set: &str) -> Value {
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    with_status(pod(name, set), &status)
}

fn settled(set: Value, count: i64) -> Value {
    let status = json!({"replicas": count, "readyReplicas": count, "availableReplicas": count,
                        "terminatingReplicas": 0, "updatedReplicas": count, "observedGeneration": 1});
    with_status(set, &status)
}

/// A `ReplicaSet` with two ready pods, and its change by the test.
fn set(change: impl Fn(&mut Story)) -> Vec<&'static str> {
    let mut story = Story::new();
    story.user(WEB, &settled(replica_set("web", 2), 2));
    for name in ["a", "b"] {
        story.user((PODS, &format!("default/{name}")), &ready(name, "web"));
    }
    change(&mut story);
    story.rest()
}

#[test]
fn set_with_its_pods_is_at_rest() {
    assert!(set(|_| ()).is_empty());
}

#[test]
fn set_without_its_pods_violates_l1() {
    assert_eq!(set(|story| story.user_removes((PODS, "default/a"))), ["L1"]);
    assert_eq!(
        set(|story| story.user((PODS, "default/c"), &ready("c", "web"))),
        ["L1"]
    );
}

#[test]
fn wrong_status_violates_l1() {
    assert_eq!(
        set(|story| story.user(WEB, &settled(replica_set("web", 2), 1))),
        ["L1"]
    );
    let unobserved = |story: &mut Story| {
        let mut web = settled(replica_set("web", 2), 2);
        web["metadata"]["generation"] = json!(2);
        story.user(WEB, &web);
    };
    assert_eq!(set(unobserved), ["L1"]);
    let unready = |story: &mut Story| story.user((PODS, "default/a"), &pod("a", "web"));
    assert_eq!(set(unready), ["L1"]);
}

#[test]
fn pod_that_is_not_adopted_or_released_violates_l1() {
    let orphan = |labels: Value| {
        move |story: &mut Story| {
            let mut free = ready("c", "web");
            free["metadata"]["ownerReferences"] = json!([]);
            free["metadata"]["labels"] = labels.clone();
            story.user((PODS, "default/c"), &free);
        }
    };
    assert_eq!(set(orphan(json!({"app": "web"}))), ["L1"]);
    assert!(set(orphan(json!({"app": "other"}))).is_empty());
    let unmatched = |story: &mut Story| {
        let mut pod = ready("a", "web");
        pod["metadata"]["labels"] = json!({"app": "other"});
        story.user((PODS, "default/a"), &pod);
    };
    assert_eq!(set(unmatched), ["L1"]);
}

#[test]
fn unreachable_set_is_not_checked() {
    let mut story = Story::with(Rules {
        unreachable: BTreeSet::from([(SETS.to_owned(), "default/web".to_owned())]),
        ..rules()
    });
    story.user(WEB, &replica_set("web", 2));
    assert!(story.rest().is_empty());
}

#[test]
fn write_after_the_convergence_violates_l1() {
    for (seconds, expected) in [(119.0, vec![]), (121.0, vec!["L1"])] {
        let mut story = Story::new();
        let at = story.at;
        story.observe(&Fact::Quiet { at });
        story.wait(seconds);
        story.send(GC, "patch", (MAPS, "default/a"));
        story.wait(60.0);
        let found = story.checker.at_rest(story.at);
        story.found.extend(found);
        assert_eq!(story.found(), expected);
    }
}

#[test]
fn write_just_before_the_rest_violates_l1() {
    let mut story = Story::new();
    story.send(GC, "patch", (MAPS, "default/a"));
    story.wait(9.0);
    let found = story.checker.at_rest(story.at);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].invariant, "L1");
}

/// A Deployment with an old and a new `ReplicaSet` of these sizes.
fn deployment(old: i64, new: i64) -> Vec<&'static str> {
    deployment_with_history(old, new, 1)
}

fn deployment_with_history(old: i64, new: i64, limit: i64) -> Vec<&'static str> {
    let mut story = Story::new();
    let template = |image: &str| json!({"metadata": {"labels": {"app": "x", "pod-template-hash": image}}, "spec": {"image": image}});
    let mut web = object("web", &[]);
    web["spec"] = json!({"replicas": 2, "template": template("new"), "revisionHistoryLimit": limit});
    web["spec"]["template"]["metadata"]["labels"] = json!({"app": "x"});
    story.user((DEPLOYMENTS, "default/web"), &settled(web, 2));
    for (name, size) in [("old", old), ("new", new)] {
        let mut set = replica_set(name, size);
        set["metadata"]["ownerReferences"] = json!([controller(reference("apps/v1", "Deployment", "web"))]);
        set["spec"]["template"] = template(name);
        set["spec"]["selector"] = json!({"matchLabels": {"pod-template-hash": name}});
        story.user((SETS, &format!("default/{name}")), &settled(set, size));
        for number in 0..size {
            let name = format!("{name}-{number}");
            let mut pod = ready(
                &name,
                if size == old && name.starts_with("old") {
                    "old"
                } else {
                    "new"
                },
            );
            pod["metadata"]["labels"] = json!({"pod-template-hash": name.split('-').next()});
            story.user((PODS, &format!("default/{name}")), &pod);
        }
    }
    story.rest()
}

#[test]
fn incomplete_rollout_violates_l1() {
    assert!(deployment(0, 2).is_empty());
    assert_eq!(deployment(1, 1), ["L1"]);
    assert_eq!(deployment(2, 0), ["L1"]);
    assert_eq!(deployment_with_history(0, 2, 0), ["L1"]);
}

#[test]
fn app_service_without_its_deployment_violates_l1() {
    for (replicas, image, expected) in [(2, "one", vec![]), (3, "one", vec!["L1"]), (2, "two", vec!["L1"])] {
        let mut story = Story::new();
        let mut app = object("app", &[]);
        app["spec"] = json!({"deploymentName": "web", "replicas": replicas, "image": image});
        app["status"] = json!({"observedGeneration": 1});
        story.user(("appservices.appcontroller.k8s.io", "default/app"), &app);
        let mut web = object("web", &[]);
        let template = json!({"spec": {"containers": [{"image": "one"}]}});
        web["spec"] = json!({"replicas": 2, "template": template, "paused": true});
        story.user(
            (DEPLOYMENTS, "default/web"),
            &with_status(web, &json!({"observedGeneration": 1})),
        );
        assert_eq!(story.rest(), expected);
    }
}

/// Objects at rest, with these rules.
fn objects(rules: Rules, objects: &[(&str, Value)]) -> Vec<&'static str> {
    let mut story = Story::with(rules);
    for (name, object) in objects {
        story.user((MAPS, &format!("default/{name}")), object);
    }
    story.rest()
}

#[test]
fn garbage_violates_l2() {
    let owner = ("owner", object("owner", &[]));
    let x = ("x", object("x", &[to_map("owner")]));
    assert!(objects(rules(), &[owner.clone(), x.clone()]).is_empty());
    assert_eq!(objects(rules(), std::slice::from_ref(&x)), ["L2"]);
    let mixed = ("x", object("x", &[to_map("owner"), to_map("absent")]));
    assert_eq!(objects(rules(), &[owner, mixed]), ["L2"]);
    let no_collector = Rules {
        collects: false,
        ..rules()
    };
    assert!(objects(no_collector, &[x]).is_empty());
}

#[test]
fn object_with_an_owner_of_an_unknown_kind_stays() {
    let x = object(
        "x",
        &[reference("example.com/v1", "Widget", "w"), to_map("absent")],
    );
    assert!(objects(rules(), &[("x", x)]).is_empty());
}

#[test]
fn leaked_finalizer_violates_s4() {
    for finalizer in ["foregroundDeletion", "orphan"] {
        let owner = terminating(object("owner", &[]), &[finalizer]);
        assert_eq!(objects(rules(), &[("owner", owner)]), ["S4"]);
    }
}

#[test]
fn terminating_object_violates_l2_unless_it_is_blocked() {
    let x = ("x", terminating(object("x", &[]), &["example.com/wait"]));
    assert_eq!(objects(rules(), std::slice::from_ref(&x)), ["L2"]);
    let by_finalizer = Rules {
        blocked_finalizers: BTreeSet::from(["example.com/wait".to_owned()]),
        ..rules()
    };
    assert!(objects(by_finalizer, std::slice::from_ref(&x)).is_empty());
    let by_key = Rules {
        blocked_objects: BTreeSet::from([(MAPS.to_owned(), "default/x".to_owned())]),
        ..rules()
    };
    assert!(objects(by_key, &[x]).is_empty());
}

#[test]
fn blocked_dependent_keeps_the_finalizers_of_its_owners() {
    let blocked = Rules {
        blocked_finalizers: BTreeSet::from(["example.com/wait".to_owned()]),
        ..rules()
    };
    let foreground = |object| terminating(object, &["foregroundDeletion"]);
    let tree = [
        ("top", foreground(object("top", &[]))),
        ("middle", foreground(object("middle", &[blocking(to_map("top"))]))),
        (
            "x",
            terminating(object("x", &[blocking(to_map("middle"))]), &["example.com/wait"]),
        ),
    ];
    assert!(objects(blocked.clone(), &tree).is_empty());
    let mut free = tree;
    free[2].1["metadata"]["ownerReferences"] = json!([to_map("middle")]);
    assert_eq!(objects(blocked, &free), ["S4", "S4"]);
}

#[test]
fn cycle_in_foreground_deletion_violates_s4() {
    let foreground = |object| terminating(object, &["foregroundDeletion"]);
    let cycle = [
        ("a", foreground(object("a", &[blocking(to_map("b"))]))),
        ("b", foreground(object("b", &[blocking(to_map("a"))]))),
    ];
    assert_eq!(objects(rules(), &cycle), ["S4", "S4"]);
    let solid = [
        ("a", object("a", &[to_map("b")])),
        ("b", object("b", &[to_map("a")])),
    ];
    assert!(objects(rules(), &solid).is_empty());
}

/// A status follows the readiness of a pod after `seconds`.
fn follow(seconds: f64) -> Vec<&'static str> {
    let mut story = Story::with(Rules {
        follows_within: Some(Duration::from_secs(5)),
        ..rules()
    });
    story.user(WEB, &settled(replica_set("web", 1), 1));
    story.user((PODS, "default/a"), &ready("a", "web"));
    story.wait(seconds);
    story.user((PODS, "default/a"), &pod("a", "web"));
    story.wait(seconds);
    let status = json!({"replicas": 1, "observedGeneration": 1});
    story.user(WEB, &with_status(replica_set("web", 1), &status));
    story.found()
}

#[test]
fn late_status_violates_l1() {
    assert_eq!(follow(6.0), ["L1"]);
    assert!(follow(4.0).is_empty());
}
