use super::*;

use serde_json::{Value, json};

use crate::deployment::tests::simulation::Simulation;
use crate::support::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY, ROLLBACK_TO};
use crate::support::template_hash;

fn image(image: &str) -> Value {
    json!({"template": {"spec": {"image": image}}})
}

/// A simulation after its first rollout.
fn settled(spec: &Value) -> Simulation {
    let mut simulation = Simulation::new(spec);
    assert!(simulation.settle(|_| {}), "{simulation:#?}");
    simulation
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
fn claims_are_decided_by_controller_uid_and_labels() {
    let deployment = Simulation::new(&json!({})).deployment();
    let selector = deployment.selector().expect("a selector");
    let (web, other) = (json!({"app": "web"}), json!({"app": "other"}));
    let count = |labels: &Value, owner| {
        let claims = claims(&deployment, selector, &[set_json(labels, owner)]);
        (claims.owned.len(), claims.adopt.len(), claims.release.len())
    };
    assert_eq!(count(&web, Some("d")), (1, 0, 0));
    assert_eq!(count(&web, Some("another")), (0, 0, 0));
    assert_eq!(count(&web, None), (0, 1, 0));
    assert_eq!(count(&other, None), (0, 0, 0));
    assert_eq!(count(&other, Some("d")), (0, 0, 1));
    // The selector matches a ReplicaSet without labels, which is not adopted all the same.
    let mut simulation = Simulation::new(&json!({}));
    simulation.deployment["spec"]["selector"] =
        json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
    let deployment = simulation.deployment();
    let selector = deployment.selector().expect("a selector");
    let claims = claims(&deployment, selector, &[set_json(&json!({}), None)]);
    assert!(claims.adopt.is_empty());
}

#[test]
fn first_step_creates_the_set_from_the_deployment() {
    let mut simulation = Simulation::new(&json!({"replicas": 3, "minReadySeconds": 5}));
    simulation.deployment["metadata"]["annotations"] =
        json!({"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let create = simulation.plan().create.expect("a creation");
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
                "annotations": {"a": "b", REVISION: "1", DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"},
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
    // The collision count changes the name.
    simulation.deployment["status"]["collisionCount"] = json!(1);
    assert_ne!(simulation.plan().create.map(|it| it.name), Some(create.name));
}

#[test]
fn completed_rollout_plans_no_writes() {
    let mut simulation = settled(&json!({"replicas": 10}));
    assert_eq!(simulation.condition("Progressing").1, "NewReplicaSetAvailable");
    assert_eq!(simulation.condition("Available").0, "True");
    simulation.update(&image("two"));
    assert!(simulation.settle(|_| {}));
    assert_eq!(simulation.sizes(), [("two".to_owned(), 10)].into());
    assert_eq!(
        (simulation.revision_of("one"), simulation.revision_of("two")),
        ("1".to_owned(), "2".to_owned())
    );
    assert_eq!(simulation.deployment["metadata"]["annotations"][REVISION], "2");
    assert_eq!(simulation.step(|_| {}), 0);
}

#[test]
fn earlier_template_reuses_its_set() {
    let mut simulation = settled(&json!({"replicas": 2}));
    for next in ["two", "one"] {
        simulation.update(&image(next));
        assert!(simulation.settle(|_| {}));
    }
    assert_eq!(simulation.sets.len(), 2);
    assert_eq!(simulation.revision_of("one"), "3");
    let annotations = &simulation.sets[&simulation.name_of("one")]["metadata"]["annotations"];
    assert_eq!(annotations[REVISION_HISTORY], "1");
    assert_eq!(simulation.deployment["metadata"]["annotations"][REVISION], "3");
}

#[test]
fn revision_history_limit_is_enforced() {
    let mut simulation = settled(&json!({"replicas": 2, "revisionHistoryLimit": 2}));
    for next in ["two", "three", "four", "five"] {
        simulation.update(&image(next));
        assert!(simulation.settle(|_| {}));
    }
    assert_eq!(simulation.sets.len(), 3);
    simulation.update(&json!({"revisionHistoryLimit": 0}));
    assert!(simulation.settle(|_| {}));
    assert_eq!(simulation.sets.len(), 1);
    assert_eq!(simulation.revision_of("five"), "5");
}

#[test]
fn old_sets_are_deleted_only_by_a_step_without_other_changes() {
    let mut simulation = settled(&json!({"replicas": 2}));
    for next in ["two", "three"] {
        simulation.update(&image(next));
        assert!(simulation.settle(|_| {}));
    }
    simulation.update(&json!({"revisionHistoryLimit": 0}));
    simulation.deployment["status"]["observedGeneration"] =
        simulation.deployment["metadata"]["generation"].clone();
    let deleted = |simulation: &Simulation| simulation.plan().delete.len();
    assert_eq!(deleted(&simulation), 2);
    let mut scaled_by_a_user = simulation.clone();
    let old = scaled_by_a_user.name_of("two");
    scaled_by_a_user.sets.get_mut(&old).expect("a ReplicaSet")["spec"]["replicas"] = json!(1);
    assert_eq!(deleted(&scaled_by_a_user), 0);
    let mut scaled = simulation.clone();
    scaled.update(&json!({"replicas": 3}));
    assert_eq!(deleted(&scaled), 0);
    let mut unavailable = simulation.clone();
    unavailable.deployment["status"]["availableReplicas"] = json!(1);
    assert_eq!(deleted(&unavailable), 0);
    simulation.update(&json!({"paused": true}));
    assert_eq!(deleted(&simulation), 2);
    simulation.deployment["metadata"]["annotations"][ROLLBACK_TO] = json!("0");
    assert_eq!(deleted(&simulation), 0, "the rollback needs them");
}

#[test]
fn paused_deployment_is_scaled_but_not_rolled_out() {
    let mut simulation = settled(&json!({"replicas": 4}));
    simulation.update(&json!({"paused": true, "replicas": 6, "template": {"spec": {"image": "two"}}}));
    assert!(simulation.settle(|_| {}));
    assert_eq!(simulation.sizes(), [("one".to_owned(), 6)].into());
    assert_eq!(
        simulation.condition("Progressing"),
        ("Unknown".to_owned(), "DeploymentPaused".to_owned())
    );
    simulation.update(&json!({"paused": false}));
    assert!(simulation.settle(|_| {}));
    assert_eq!(simulation.sizes(), [("two".to_owned(), 6)].into());
    assert_eq!(simulation.condition("Progressing").1, "NewReplicaSetAvailable");
    // A Deployment that starts paused creates nothing.
    let mut simulation = settled(&json!({"paused": true}));
    assert!(simulation.sets.is_empty());
    simulation.update(&json!({"paused": false}));
    assert!(simulation.settle(|_| {}));
    assert_eq!(simulation.sizes(), [("one".to_owned(), 1)].into());
}

#[test]
fn rollback_annotation_rolls_back() {
    let mut simulation = settled(&json!({"replicas": 2}));
    simulation.update(&image("two"));
    assert!(simulation.settle(|_| {}));
    simulation.deployment["metadata"]["annotations"][ROLLBACK_TO] = json!("0");
    assert!(simulation.settle(|_| {}));
    assert_eq!(simulation.sizes(), [("one".to_owned(), 2)].into());
    assert_eq!(simulation.deployment["spec"]["template"]["spec"]["image"], "one");
    assert!(
        simulation.deployment["metadata"]["annotations"]
            .get(ROLLBACK_TO)
            .is_none()
    );
    assert_eq!(simulation.revision_of("one"), "3");
}

#[test]
fn rollback_with_recreate_creates_the_current_set_without_pods() {
    let mut simulation =
        settled(&json!({"replicas": 3, "strategy": {"type": "Recreate", "rollingUpdate": null}}));
    simulation.update(&image("two"));
    simulation.deployment["metadata"]["annotations"][ROLLBACK_TO] = json!("1");
    simulation.step(|simulation| assert_eq!(simulation.total(), 3));
    assert_eq!(simulation.sets.len(), 2);
    assert!(simulation.settle(|_| {}));
    assert_eq!(simulation.sizes(), [("one".to_owned(), 3)].into());
}

#[test]
fn new_set_gets_annotations_and_min_ready_seconds() {
    let mut simulation = settled(&json!({"replicas": 2}));
    simulation.update(&image("two"));
    assert!(simulation.settle(|_| {}));
    simulation.deployment["metadata"]["annotations"]["note"] = json!("new");
    simulation.update(&json!({"minReadySeconds": 7}));
    assert_eq!(simulation.step(|_| {}), 2, "the set and the status");
    let (old, new) = (
        &simulation.sets[&simulation.name_of("one")],
        &simulation.sets[&simulation.name_of("two")],
    );
    assert_eq!(new["metadata"]["annotations"]["note"], "new");
    assert_eq!(new["spec"]["minReadySeconds"], 7);
    assert!(old["metadata"]["annotations"].get("note").is_none());
    assert_eq!(old["spec"]["minReadySeconds"], 0);
}

#[test]
fn terminating_deployment_plans_no_writes() {
    let mut simulation = settled(&json!({"replicas": 2}));
    simulation.update(&json!({"replicas": 5, "template": {"spec": {"image": "two"}}}));
    simulation.deployment["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    let plan = simulation.plan();
    assert!(
        plan.create.is_none() && plan.delete.is_empty() && plan.sets.all().all(|it| it.patch().is_none())
    );
}

#[test]
fn recreate_waits_for_the_end_of_old_pods() {
    let mut simulation =
        settled(&json!({"replicas": 3, "strategy": {"type": "Recreate", "rollingUpdate": null}}));
    let old = simulation.name_of("one");
    simulation.update(&image("two"));
    simulation.step(|_| {});
    assert_eq!(simulation.total(), 0);
    simulation.step(|_| {});
    assert_eq!(simulation.sets.len(), 1, "the old set has not observed its size");
    simulation.sync_set(&old);
    // One pod is still terminating.
    let uid = simulation.sets[&old]["metadata"]["uid"]
        .as_str()
        .expect("a uid")
        .to_owned();
    simulation.pods.insert(uid.clone(), vec![false]);
    simulation.step(|_| {});
    assert_eq!(simulation.sets.len(), 1);
    simulation.pods.insert(uid, Vec::new());
    simulation.step(|_| {});
    assert_eq!(simulation.sizes(), [("two".to_owned(), 3)].into());
}

#[test]
fn recreate_waits_until_the_old_set_observed_its_size() {
    let mut simulation =
        settled(&json!({"replicas": 3, "strategy": {"type": "Recreate", "rollingUpdate": null}}));
    let old = simulation.name_of("one");
    simulation.update(&image("two"));
    simulation.step(|_| {});
    // The status counts no pods, but the ReplicaSet may still create some.
    simulation.sets.get_mut(&old).expect("a ReplicaSet")["status"]["replicas"] = json!(0);
    simulation.pods.values_mut().for_each(Vec::clear);
    simulation.step(|_| {});
    assert_eq!(simulation.sets.len(), 1);
    simulation.sync_set(&old);
    // The status still counts a pod that the cache of pods no longer has.
    simulation.sets.get_mut(&old).expect("a ReplicaSet")["status"]["replicas"] = json!(1);
    simulation.step(|_| {});
    assert_eq!(simulation.sets.len(), 1);
    simulation.sync_set(&old);
    simulation.step(|_| {});
    assert_eq!(simulation.sets.len(), 2);
}

#[test]
fn recreate_does_not_write_a_set_of_the_desired_size() {
    let mut simulation = settled(&json!({"replicas": 3}));
    simulation.update(&json!({"strategy": {"type": "Recreate", "rollingUpdate": null}}));
    let plan = simulation.plan();
    assert!(plan.sets.all().all(|it| it.patch().is_none()), "{plan:?}");
}

/// A sync of a Deployment with 60 `ReplicaSets` allocates less than one template takes: it reads none.
#[test]
fn plan_without_changes_reads_no_template() {
    const SIZE: usize = 60_000;
    let template = |image: &str| {
        let labels = json!({"app": "web"});
        json!({"metadata": {"labels": labels}, "spec": {"image": image, "args": ["x".repeat(SIZE)]}})
    };
    let simulation = Simulation::new(&json!({"template": template("59")}));
    let deployment = simulation.deployment();
    for webhook in [false, true] {
        let set = |i: usize| {
            let mut template = template(&i.to_string());
            let mut annotations = json!({REVISION: i.to_string()});
            let mut name = format!("web-{i}");
            if webhook {
                let sent: ReplicaSet =
                    serde_json::from_value(json!({"spec": {"template": template}})).expect("a set");
                name = template_hash::name("web", &sent.template().hash.text(None)).to_string();
                annotations[annotations::TEMPLATE_CHANGED] = json!(sent.template().text);
                template["spec"]["sidecar"] = json!(true);
            }
            let json = json!({
                "metadata": {"name": name, "uid": name, "generation": 2, "annotations": annotations},
                "spec": {"replicas": i64::from(i == 59), "template": template},
            });
            Arc::new(serde_json::from_value(json).expect("a set"))
        };
        let sets: Vec<Arc<ReplicaSet>> = (0..60).map(set).collect();
        let snapshot = Snapshot {
            deployment: &deployment,
            bounds: simulation.bounds(),
            sets: &sets,
            running: &BTreeMap::new(),
        };
        let mut planned = None;
        let allocated = allocation_counter::measure(|| planned = Some(plan(&snapshot))).bytes_total;
        let planned = planned.expect("a plan");
        let new = planned.sets.new.expect("the new set");
        assert_eq!(revision::of(&new.object.annotations), Some(59));
        assert!(planned.create.is_none());
        assert!(allocated < SIZE as u64, "webhook: {webhook}, {allocated} bytes");
    }
}
