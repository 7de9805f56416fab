use super::*;

use serde_json::{Value, json};

use crate::deployment::world::World;
use crate::support::annotations::{DESIRED, HISTORY, MAX, REVISION, ROLLBACK};

fn image(image: &str) -> Value {
    json!({"template": {"spec": {"image": image}}})
}

/// A world at rest with this image.
fn settled(spec: &Value) -> World {
    let mut world = World::new(spec);
    assert!(world.settle(|_| {}), "{world:#?}");
    world
}

fn set_json(labels: &Value, owner: Option<&str>) -> Arc<ReplicaSet> {
    let owners: Vec<Value> = owner
        .iter()
        .map(|it| json!({"kind": "Deployment", "name": "web", "uid": it, "controller": true}))
        .collect();
    let json = json!({"metadata": {"name": "a", "namespace": "default", "uid": "a", "labels": labels,
                                   "ownerReferences": owners}});
    Arc::new(serde_json::from_value(json).expect("a set"))
}

#[test]
fn what_is_ours_is_told_by_uid_and_labels() {
    let deployment = World::new(&json!({})).deployment();
    let selector = deployment.selector().expect("a selector");
    let (web, other) = (json!({"app": "web"}), json!({"app": "other"}));
    let count = |labels: &Value, owner| {
        let claims = claims(&deployment, selector, &[set_json(labels, owner)]);
        (claims.ours.len(), claims.adopt.len(), claims.release.len())
    };
    assert_eq!(count(&web, Some("d")), (1, 0, 0));
    assert_eq!(count(&web, Some("another")), (0, 0, 0));
    assert_eq!(count(&web, None), (0, 1, 0));
    assert_eq!(count(&other, None), (0, 0, 0));
    assert_eq!(count(&other, Some("d")), (0, 0, 1));
    // A selector that asks for the absence of a label would match it.
    let mut world = World::new(&json!({}));
    world.deployment["spec"]["selector"] =
        json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
    let deployment = world.deployment();
    let selector = deployment.selector().expect("a selector");
    let claims = claims(&deployment, selector, &[set_json(&json!({}), None)]);
    assert!(claims.adopt.is_empty());
}

#[test]
fn the_first_step_makes_the_set_with_all_that_it_has_from_the_deployment() {
    let mut world = World::new(&json!({"replicas": 3, "minReadySeconds": 5}));
    world.deployment["metadata"]["annotations"] =
        json!({"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let create = world.plan().create.expect("a creation");
    let body: Value = serde_json::from_slice(&create.body).expect("JSON");
    let hash = create
        .name
        .strip_prefix("web-")
        .expect("the name of the Deployment")
        .to_owned();
    assert_eq!(
        body,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": create.name, "labels": {"app": "web", "pod-template-hash": hash},
                "annotations": {"a": "b", REVISION: "1", DESIRED: "3", MAX: "4"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d",
                                     "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "replicas": 3, "minReadySeconds": 5,
                "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash}},
                "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": hash}}, "spec": {"image": "one"}},
            },
        })
    );
    assert_eq!(create.replicas, 3);
    // Another number of collisions is another name.
    world.deployment["status"]["collisionCount"] = json!(1);
    assert_ne!(world.plan().create.map(|it| it.name), Some(create.name));
}

#[test]
fn nothing_is_left_to_do_after_a_rollout() {
    let mut world = settled(&json!({"replicas": 10}));
    assert_eq!(world.condition("Progressing").1, "NewReplicaSetAvailable");
    assert_eq!(world.condition("Available").0, "True");
    world.want(&image("two"));
    assert!(world.settle(|_| {}));
    assert_eq!(world.sizes(), [("two".to_owned(), 10)].into());
    assert_eq!(
        (world.revision_of("one"), world.revision_of("two")),
        ("1".to_owned(), "2".to_owned())
    );
    assert_eq!(world.deployment["metadata"]["annotations"][REVISION], "2");
    assert_eq!(world.step(|_| {}), 0);
}

#[test]
fn a_template_that_comes_back_has_its_set_back() {
    let mut world = settled(&json!({"replicas": 2}));
    for next in ["two", "one"] {
        world.want(&image(next));
        assert!(world.settle(|_| {}));
    }
    assert_eq!(world.sets.len(), 2);
    assert_eq!(world.revision_of("one"), "3");
    let annotations = &world.sets[&world.name_of("one")]["metadata"]["annotations"];
    assert_eq!(annotations[HISTORY], "1");
    assert_eq!(world.deployment["metadata"]["annotations"][REVISION], "3");
}

#[test]
fn no_more_history_is_kept_than_is_asked_for() {
    let mut world = settled(&json!({"replicas": 2, "revisionHistoryLimit": 2}));
    for next in ["two", "three", "four", "five"] {
        world.want(&image(next));
        assert!(world.settle(|_| {}));
    }
    assert_eq!(world.sets.len(), 3);
    world.want(&json!({"revisionHistoryLimit": 0}));
    assert!(world.settle(|_| {}));
    assert_eq!(world.sets.len(), 1);
    assert_eq!(world.revision_of("five"), "5");
}

#[test]
fn what_is_paused_is_scaled_and_not_rolled_out() {
    let mut world = settled(&json!({"replicas": 4}));
    world.want(&json!({"paused": true, "replicas": 6, "template": {"spec": {"image": "two"}}}));
    assert!(world.settle(|_| {}));
    assert_eq!(world.sizes(), [("one".to_owned(), 6)].into());
    assert_eq!(
        world.condition("Progressing"),
        ("Unknown".to_owned(), "DeploymentPaused".to_owned())
    );
    world.want(&json!({"paused": false}));
    assert!(world.settle(|_| {}));
    assert_eq!(world.sizes(), [("two".to_owned(), 6)].into());
    assert_eq!(world.condition("Progressing").1, "NewReplicaSetAvailable");
    // From the beginning: nothing is made.
    let mut world = settled(&json!({"paused": true}));
    assert!(world.sets.is_empty());
    world.want(&json!({"paused": false}));
    assert!(world.settle(|_| {}));
    assert_eq!(world.sizes(), [("one".to_owned(), 1)].into());
}

#[test]
fn a_request_of_old_rolls_back() {
    let mut world = settled(&json!({"replicas": 2}));
    world.want(&image("two"));
    assert!(world.settle(|_| {}));
    world.deployment["metadata"]["annotations"][ROLLBACK] = json!("0");
    assert!(world.settle(|_| {}));
    assert_eq!(world.sizes(), [("one".to_owned(), 2)].into());
    assert_eq!(world.deployment["spec"]["template"]["spec"]["image"], "one");
    assert!(
        world.deployment["metadata"]["annotations"]
            .get(ROLLBACK)
            .is_none()
    );
    assert_eq!(world.revision_of("one"), "3");
}

#[test]
fn what_is_left_by_a_request_of_old_has_no_pods_before_the_others_are_gone() {
    let mut world = settled(&json!({"replicas": 3, "strategy": {"type": "Recreate", "rollingUpdate": null}}));
    world.want(&image("two"));
    world.deployment["metadata"]["annotations"][ROLLBACK] = json!("1");
    world.step(|world| assert_eq!(world.total(), 3));
    assert_eq!(world.sets.len(), 2);
    assert!(world.settle(|_| {}));
    assert_eq!(world.sizes(), [("one".to_owned(), 3)].into());
}

#[test]
fn only_the_annotations_of_the_deployment_and_its_patience_reach_the_new_set() {
    let mut world = settled(&json!({"replicas": 2}));
    world.want(&image("two"));
    assert!(world.settle(|_| {}));
    world.deployment["metadata"]["annotations"]["note"] = json!("new");
    world.want(&json!({"minReadySeconds": 7}));
    assert_eq!(world.step(|_| {}), 2, "the set and the status");
    let (old, new) = (
        &world.sets[&world.name_of("one")],
        &world.sets[&world.name_of("two")],
    );
    assert_eq!(new["metadata"]["annotations"]["note"], "new");
    assert_eq!(new["spec"]["minReadySeconds"], 7);
    assert!(old["metadata"]["annotations"].get("note").is_none());
    assert_eq!(old["spec"]["minReadySeconds"], 0);
}

#[test]
fn one_that_is_on_its_way_out_is_only_counted() {
    let mut world = settled(&json!({"replicas": 2}));
    world.want(&json!({"replicas": 5, "template": {"spec": {"image": "two"}}}));
    world.deployment["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    let plan = world.plan();
    assert!(
        plan.create.is_none() && plan.delete.is_empty() && plan.sets.all().all(|it| it.patch().is_none())
    );
}

#[test]
fn all_old_pods_are_gone_before_a_new_one_comes() {
    let mut world = settled(&json!({"replicas": 3, "strategy": {"type": "Recreate", "rollingUpdate": null}}));
    let old = world.name_of("one");
    world.want(&image("two"));
    world.step(|_| {});
    assert_eq!(world.total(), 0);
    world.step(|_| {});
    assert_eq!(world.sets.len(), 1, "nobody has followed yet");
    world.follow(&old);
    // One is still on its way out.
    let uid = world.sets[&old]["metadata"]["uid"]
        .as_str()
        .expect("a uid")
        .to_owned();
    world.pods.insert(uid.clone(), vec![false]);
    world.step(|_| {});
    assert_eq!(world.sets.len(), 1);
    world.pods.insert(uid, Vec::new());
    world.step(|_| {});
    assert_eq!(world.sizes(), [("two".to_owned(), 3)].into());
}

#[test]
fn an_old_set_that_has_not_heard_of_it_holds_up_the_new_one() {
    let mut world = settled(&json!({"replicas": 3, "strategy": {"type": "Recreate", "rollingUpdate": null}}));
    let old = world.name_of("one");
    world.want(&image("two"));
    world.step(|_| {});
    // Its status shows no pods, but it may be about to make some.
    world.sets.get_mut(&old).expect("it is there")["status"]["replicas"] = json!(0);
    world.pods.values_mut().for_each(Vec::clear);
    world.step(|_| {});
    assert_eq!(world.sets.len(), 1);
    world.follow(&old);
    world.step(|_| {});
    assert_eq!(world.sets.len(), 2);
}
