use super::*;

use std::sync::Arc;

fn set(spec: i64, status: &Value) -> PlannedReplicaSet {
    let json = json!({"metadata": {"name": "a"}, "spec": {"replicas": spec}, "status": status});
    PlannedReplicaSet::of(Arc::new(serde_json::from_value(json).expect("a set")))
}

fn deployment(status: &Value) -> Deployment {
    let json = json!({
        "metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "generation": 4, "annotations": {REVISION: "2"}},
        "spec": {"replicas": 3}, "status": status,
    });
    serde_json::from_value(json).expect("a Deployment")
}

fn sets() -> ReplicaSets {
    let all = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 4,
                     "observedGeneration": 1});
    ReplicaSets {
        new: Some(set(3, &all)),
        old: vec![
            set(
                1,
                &json!({"replicas": 1, "terminatingReplicas": 1, "observedGeneration": 1}),
            ),
            set(0, &json!({})),
        ],
    }
}

#[test]
fn counters_are_sums_over_replica_sets() {
    let status = Status::from_replica_sets(&deployment(&json!({"collisionCount": 5})), &sets());
    assert_eq!(
        status,
        Status {
            observed_generation: 4,
            replicas: 3,
            updated_replicas: 2,
            ready_replicas: 2,
            available_replicas: 1,
            unavailable_replicas: 3,
            terminating_replicas: Some(5),
            collision_count: Some(5),
            conditions: Vec::new(),
        }
    );
    let mut unknown = sets();
    unknown.old.push(set(0, &json!({"observedGeneration": 1})));
    assert_eq!(
        Status::from_replica_sets(&deployment(&json!({})), &unknown).terminating_replicas,
        None
    );
}

#[test]
fn patch_has_changed_fields_only() {
    let stored = json!({"observedGeneration": 4, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2,
                        "availableReplicas": 1, "unavailableReplicas": 3, "terminatingReplicas": 5});
    let present = deployment(&stored);
    let status = Status::from_replica_sets(&present, &sets());
    assert_eq!(status.patch(&present, None, false), None);
    assert_eq!(status.patch(&present, Some(&"2".into()), false), None);
    let lock = json!({"uid": "u", "resourceVersion": "7"});
    let mut revised = lock.clone();
    revised["annotations"] = json!({REVISION: "3"});
    assert_eq!(
        status.patch(&present, Some(&"3".into()), false),
        Some(json!({"metadata": revised, "status": {}}))
    );
    let mut undone = deployment(&stored);
    undone.annotations = [(REVISION, "2"), (TEMPLATE_CHANGED, "{}")].into_iter().collect();
    let mut without = lock.clone();
    without["annotations"] = json!({TEMPLATE_CHANGED: null});
    assert_eq!(
        status.patch(&undone, None, true),
        Some(json!({"metadata": without, "status": {}}))
    );
    let mut less = stored.clone();
    less["readyReplicas"] = json!(9);
    less["terminatingReplicas"] = json!(null);
    assert_eq!(
        status.patch(&deployment(&less), None, true),
        Some(json!({"metadata": lock, "status": {"readyReplicas": 2, "terminatingReplicas": 5}}))
    );
    less["readyReplicas"] = json!(2);
    assert_eq!(
        status.patch(&deployment(&less), None, false),
        Some(json!({"metadata": lock, "status": {"terminatingReplicas": 5}}))
    );
    // An API server that drops terminatingReplicas is not written to again and again.
    assert_eq!(status.patch(&deployment(&less), None, true), None);
}

#[test]
fn rollout_is_complete_when_all_pods_are_updated_and_available() {
    let complete = |status: Value| {
        let deployment = deployment(&status);
        deployment.status.is_complete(&deployment)
    };
    let all = json!({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 3, "observedGeneration": 4});
    assert!(complete(all.clone()));
    for field in [
        "updatedReplicas",
        "replicas",
        "availableReplicas",
        "observedGeneration",
    ] {
        let mut less = all.clone();
        less[field] = json!(2);
        assert!(!complete(less), "{field}");
    }
    let progressed = |new: Value| deployment(&new).status.has_progressed(&deployment(&all).status);
    assert!(!progressed(all.clone()));
    assert!(
        progressed(json!({"updatedReplicas": 4, "replicas": 4})) && progressed(json!({"updatedReplicas": 3}))
    );
    assert!(
        progressed(json!({"replicas": 3, "readyReplicas": 1}))
            && progressed(json!({"replicas": 9, "availableReplicas": 4}))
    );
    assert!(!progressed(json!({"replicas": 3})));
}

#[test]
fn available_condition_follows_min_available() {
    let bounds = Bounds {
        replicas: 3,
        surge: 1,
        unavailable: 1,
        rolling: true,
    };
    for (available, holds) in [
        (1, ConditionStatus::False),
        (2, ConditionStatus::True),
        (3, ConditionStatus::True),
    ] {
        let mut status = Status {
            available_replicas: available,
            ..Status::default()
        };
        status.set_available(&bounds, Timestamp::UNIX_EPOCH);
        assert_eq!(status.conditions[0].status, holds, "{available}");
    }
}

#[test]
fn digest_counts_terminating_pods() {
    let status = Status::from_replica_sets(&deployment(&json!({})), &sets());
    let ended = Status {
        terminating_replicas: Some(4),
        ..status.clone()
    };
    assert_ne!(status.digest(None), ended.digest(None));
}

#[test]
fn digest_ignores_times_and_conditions_of_other_clients() {
    let condition = |type_: &str, reason: &str, day: u32| {
        let time = format!("2026-01-0{day}T00:00:00Z");
        json!({"type": type_, "status": "True", "reason": reason, "message": "m",
               "lastUpdateTime": time, "lastTransitionTime": time})
    };
    let digest = |conditions: &[Value]| deployment(&json!({"conditions": conditions})).status.digest(None);
    let theirs = condition("Theirs", "R", 1);
    for type_ in [AVAILABLE, PROGRESSING, REPLICA_FAILURE] {
        let ours = digest(&[condition(type_, "A", 1)]);
        assert_eq!(
            ours,
            digest(&[theirs.clone(), condition(type_, "A", 2)]),
            "{type_}"
        );
        assert_ne!(ours, digest(&[condition(type_, "B", 1)]), "{type_}");
        assert_ne!(ours, digest(&[]), "{type_}");
    }
}
