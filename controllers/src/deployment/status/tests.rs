use super::*;

use std::sync::Arc;

fn set(spec: i64, status: &Value) -> Set {
    let json = json!({"metadata": {"name": "a"}, "spec": {"replicas": spec}, "status": status});
    Set::of(Arc::new(serde_json::from_value(json).expect("a set")))
}

fn deployment(status: &Value) -> Deployment {
    let json = json!({
        "metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "generation": 4, "annotations": {REVISION: "2"}},
        "spec": {"replicas": 3}, "status": status,
    });
    serde_json::from_value(json).expect("a Deployment")
}

fn sets() -> Sets {
    let all = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 4,
                     "observedGeneration": 1});
    Sets {
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
fn the_counters_are_sums() {
    let status = Status::counted(&deployment(&json!({"collisionCount": 5})), &sets());
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
        Status::counted(&deployment(&json!({})), &unknown).terminating_replicas,
        None
    );
}

#[test]
fn only_what_has_changed_is_written() {
    let stored = json!({"observedGeneration": 4, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2,
                        "availableReplicas": 1, "unavailableReplicas": 3, "terminatingReplicas": 5});
    let present = deployment(&stored);
    let status = Status::counted(&present, &sets());
    assert_eq!(status.patch(&present, None), None);
    assert_eq!(status.patch(&present, Some(&"2".into())), None);
    let lock = json!({"uid": "u", "resourceVersion": "7"});
    let mut revised = lock.clone();
    revised["annotations"] = json!({REVISION: "3"});
    assert_eq!(
        status.patch(&present, Some(&"3".into())),
        Some(json!({"metadata": revised, "status": {}}))
    );
    let mut less = stored.clone();
    less["readyReplicas"] = json!(9);
    less["terminatingReplicas"] = json!(null);
    assert_eq!(
        status.patch(&deployment(&less), None),
        Some(json!({"metadata": lock, "status": {"readyReplicas": 2, "terminatingReplicas": 5}}))
    );
    // A server that does not know of these would be told of them for ever.
    less["readyReplicas"] = json!(2);
    assert_eq!(status.patch(&deployment(&less), None), None);
}

#[test]
fn a_rollout_is_complete_when_there_is_nothing_else() {
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
    let further = |new: Value| deployment(&new).status.is_further(&deployment(&all).status);
    assert!(!further(all.clone()));
    assert!(further(json!({"updatedReplicas": 4, "replicas": 4})) && further(json!({"updatedReplicas": 3})));
    assert!(
        further(json!({"replicas": 3, "readyReplicas": 1}))
            && further(json!({"replicas": 9, "availableReplicas": 4}))
    );
    assert!(!further(json!({"replicas": 3})));
}

#[test]
fn availability_is_judged_by_the_bounds() {
    let bounds = Bounds {
        replicas: 3,
        surge: 1,
        unavailable: 1,
        rolling: true,
    };
    for (available, holds) in [(1, Holds::False), (2, Holds::True), (3, Holds::True)] {
        let mut status = Status {
            available_replicas: available,
            ..Status::default()
        };
        status.judge(&bounds, Timestamp::UNIX_EPOCH);
        assert_eq!(status.conditions[0].status, holds, "{available}");
    }
}
