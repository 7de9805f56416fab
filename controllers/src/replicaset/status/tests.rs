use super::*;

use std::sync::Arc;

use crate::replicaset::{APP_REPLICA_SET, Pod, REPLICA_SET, REPLICATION_CONTROLLER};

fn now() -> Timestamp {
    "2027-01-01T00:01:00Z".parse().expect("a time")
}

fn owner(status: &Value) -> Owner {
    let template = json!({"metadata": {"labels": {"app": "web", "tier": "a"}}});
    let spec =
        json!({"replicas": 3, "minReadySeconds": 10, "selector": {"app": "web"}, "template": template});
    let json =
        json!({"metadata": {"name": "web", "uid": "u", "generation": 7}, "spec": spec, "status": status});
    serde_json::from_value(json).expect("an owner")
}

fn pod(labels: &Value, ready_at: Option<&str>) -> Arc<Pod> {
    let mut json = json!({"metadata": {"name": "p", "labels": labels}, "status": {"phase": "Running"}});
    if let Some(at) = ready_at {
        json["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]);
    }
    Arc::new(serde_json::from_value(json).expect("a pod"))
}

fn claims() -> Claims {
    let (all, some) = (
        json!({"app": "web", "tier": "a", "more": "x"}),
        json!({"app": "web"}),
    );
    Claims {
        active: vec![
            pod(&all, Some("2027-01-01T00:00:50Z")),
            pod(&all, Some("2027-01-01T00:00:51Z")),
            pod(&all, Some("2027-01-01T00:00:55Z")),
            pod(&some, None),
        ],
        terminating: 2,
        ..Claims::default()
    }
}

fn failed(reason: &'static str, message: &str) -> ScaleResult {
    let message = message.to_owned();
    ScaleResult::Failed(Failure { reason, message })
}

#[test]
fn counters_count_pods_by_state() {
    let of = |kind: &OwnerKind| {
        compute(
            kind,
            &owner(&json!({})),
            &claims(),
            &ScaleResult::Succeeded,
            now(),
        )
    };
    let expected = Status {
        replicas: 4,
        fully_labeled_replicas: 3,
        ready_replicas: 3,
        available_replicas: 1,
        terminating_replicas: Some(2),
        selector: None,
        observed_generation: 7,
        conditions: Vec::new(),
    };
    assert_eq!(of(&REPLICA_SET), expected);
    let custom = Status {
        selector: Some("app=web".into()),
        ..expected.clone()
    };
    assert_eq!(of(&APP_REPLICA_SET), custom);
    let none = Status {
        terminating_replicas: None,
        ..expected
    };
    assert_eq!(of(&REPLICATION_CONTROLLER), none);
    let next = next_available(&owner(&json!({})), &claims(), now());
    assert_eq!(next, Some(Duration::from_secs(1)));
}

#[test]
fn pod_that_is_ready_since_an_unknown_time_is_checked_after_min_ready_seconds() {
    let next = |pod: Arc<Pod>| {
        let claims = Claims {
            active: vec![pod],
            ..Claims::default()
        };
        next_available(&owner(&json!({})), &claims, now())
    };
    let labels = json!({"app": "web"});
    let mut untimed = pod(&labels, None);
    Arc::make_mut(&mut untimed).ready = crate::support::pod::Ready::Since(None);
    assert_eq!(next(untimed), Some(Duration::from_secs(10)));
    assert_eq!(next(pod(&labels, None)), None, "not ready");
    let available = pod(&labels, Some("2027-01-01T00:00:50Z"));
    assert_eq!(next(available), None, "available");
}

#[test]
fn only_changed_fields_are_written() {
    let status = json!({"replicas": 4, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 1,
                        "terminatingReplicas": 2, "observedGeneration": 7});
    for (field, value) in [
        ("replicas", 5),
        ("fullyLabeledReplicas", 0),
        ("readyReplicas", 1),
        ("availableReplicas", 0),
        ("terminatingReplicas", 0),
        ("observedGeneration", 6),
    ] {
        let mut other = status.clone();
        other[field] = json!(value);
        let owner = owner(&other);
        let wanted = compute(&REPLICA_SET, &owner, &claims(), &ScaleResult::Succeeded, now());
        let changes = wanted.changes(&owner.status, true).expect("a change");
        let mut expected = json!({"replicas": 4});
        expected[field] = status[field].clone();
        assert_eq!(changes, expected, "{field}");
    }
    let same = owner(&status);
    let again = compute(&REPLICA_SET, &same, &claims(), &ScaleResult::Succeeded, now());
    assert_eq!(again.changes(&same.status, false), None);
}

#[test]
fn missing_terminating_replicas_are_a_change_unless_the_server_drops_them() {
    let status = json!({"replicas": 4, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 1,
                        "observedGeneration": 7});
    let owner = owner(&status);
    let none = Claims {
        terminating: 0,
        ..claims()
    };
    let of = |kind: &OwnerKind, drops_fields: bool| {
        compute(kind, &owner, &none, &ScaleResult::Succeeded, now()).changes(&owner.status, drops_fields)
    };
    assert_eq!(
        of(&REPLICA_SET, false),
        Some(json!({"replicas": 4, "terminatingReplicas": 0}))
    );
    assert_eq!(of(&REPLICA_SET, true), None);
    assert_eq!(of(&REPLICATION_CONTROLLER, false), None, "it has no such field");
}

#[test]
fn selector_is_written_if_the_server_keeps_it() {
    let changes = |status: &Value| {
        let owner = owner(status);
        let wanted = compute(
            &APP_REPLICA_SET,
            &owner,
            &claims(),
            &ScaleResult::Succeeded,
            now(),
        );
        wanted.changes(&owner.status, true)
    };
    let mut status = json!({"replicas": 4, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 1,
                            "terminatingReplicas": 2, "observedGeneration": 7});
    assert_eq!(changes(&status), None, "the server drops it");
    status["observedGeneration"] = json!(6);
    let both = json!({"replicas": 4, "observedGeneration": 7, "selector": "app=web"});
    assert_eq!(changes(&status), Some(both));
    status["observedGeneration"] = json!(7);
    status["selector"] = json!("app=other");
    assert_eq!(
        changes(&status),
        Some(json!({"replicas": 4, "selector": "app=web"}))
    );
    status["selector"] = json!("app=web");
    assert_eq!(changes(&status), None);
}

#[test]
fn replica_failure_is_set_updated_and_removed() {
    let theirs = json!({"type": "Theirs", "status": "False", "reason": "R", "message": "m",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let before = owner(&json!({"conditions": [theirs], "observedGeneration": 1})).status;
    let after = |status: &Status, generation, result: &ScaleResult, now| Status {
        conditions: updated_conditions(status, generation, result, now),
        ..status.clone()
    };
    let failing = after(&before, 1, &failed("FailedCreate", "quota"), now());
    assert_eq!(failing.conditions[0], before.conditions[0]);
    let ours = &failing.conditions[1];
    assert_eq!(
        (&*ours.type_, &*ours.reason, &*ours.message),
        (REPLICA_FAILURE, "FailedCreate", "quota")
    );
    assert_eq!(ours.last_transition_time, Some(now()));
    // Another message of the same failure is not a change, except for a new generation.
    let later = now() + SignedDuration::from_secs(60);
    for words in ["quota", "webhook"] {
        assert_eq!(after(&failing, 1, &failed("FailedCreate", words), later), failing);
    }
    let other = after(&failing, 2, &failed("FailedCreate", "webhook"), later);
    assert_eq!(&*other.conditions[1].message, "webhook");
    assert_eq!(other.conditions[1].last_transition_time, Some(now()));
    let other = after(&failing, 1, &failed("FailedDelete", "no"), later);
    assert_eq!(&*other.conditions[1].reason, "FailedDelete");
    assert_eq!(after(&failing, 1, &ScaleResult::NotAttempted, later), failing);
    assert_eq!(after(&failing, 1, &ScaleResult::Succeeded, later), before);
}

#[test]
fn digest_ignores_times_and_conditions_of_other_clients() {
    let condition = |type_: &str, reason: &str, day: u32| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "m",
               "lastTransitionTime": format!("2026-01-0{day}T00:00:00Z")})
    };
    let digest = |conditions: &[Value]| owner(&json!({"conditions": conditions})).status.digest();
    let theirs = condition("Theirs", "R", 1);
    let ours = digest(&[condition(REPLICA_FAILURE, "FailedCreate", 1)]);
    let later = condition(REPLICA_FAILURE, "FailedCreate", 2);
    assert_eq!(ours, digest(&[theirs.clone(), later]));
    assert_ne!(ours, digest(&[condition(REPLICA_FAILURE, "FailedDelete", 1)]));
    assert_ne!(ours, digest(&[theirs]));
}

#[test]
fn status_with_all_replicas_available_is_settled() {
    let at = |replicas, ready, available, terminating| {
        Status {
            replicas,
            ready_replicas: ready,
            available_replicas: available,
            terminating_replicas: terminating,
            ..Status::default()
        }
        .is_settled(3)
    };
    assert!(at(3, 3, 3, None) && at(3, 3, 3, Some(0)));
    for moving in [
        at(2, 2, 2, None),
        at(3, 2, 2, None),
        at(3, 3, 2, None),
        at(3, 3, 3, Some(1)),
    ] {
        assert!(!moving);
    }
}
