use super::*;

fn app(status: &Value) -> AppService {
    let metadata =
        json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 3});
    let spec = json!({"deploymentName": "web", "replicas": 2});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
        .expect("an AppService")
}

fn deployment(counts: [i64; 4], conditions: &Value) -> Deployment {
    let [replicas, updated, ready, available] = counts;
    let status = json!({"observedGeneration": 1, "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready,
                        "availableReplicas": available, "conditions": conditions});
    let metadata = json!({"name": "web", "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"replicas": 2}, "status": status}))
        .expect("a Deployment")
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn observed(deployment: &Deployment) -> Observed {
    Observed {
        deployment: Some(Arc::new(deployment.clone())),
        ..Observed::default()
    }
}

/// Returns status and reason of each condition.
fn reported(status: &Status) -> [(Truth, String); 3] {
    [READY, PROGRESSING, STALLED].map(|type_| {
        let it = conditions::find(&status.conditions, type_).expect("a condition");
        assert_eq!(it.observed_generation, 3);
        (it.status, it.reason.to_string())
    })
}

#[test]
fn appservice_is_ready_when_all_replicas_are_updated_and_available() {
    let app = app(&json!(null));
    for (counts, ready) in [
        ([2, 2, 2, 2], true),
        ([2, 2, 2, 1], false),
        ([3, 2, 3, 3], false),
        ([2, 1, 2, 2], false),
        ([0, 0, 0, 0], false),
    ] {
        let deployment = deployment(counts, &json!([]));
        let status = Status::of(&app, &observed(&deployment), now());
        let expected = if ready {
            [
                (Truth::True, "AllAvailable"),
                (Truth::False, "Complete"),
                (Truth::False, "AsExpected"),
            ]
        } else {
            [
                (Truth::False, "RollingOut"),
                (Truth::True, "RollingOut"),
                (Truth::False, "AsExpected"),
            ]
        };
        assert_eq!(
            reported(&status),
            expected.map(|(it, reason)| (it, reason.to_owned())),
            "{counts:?}"
        );
        assert_eq!(status.available_replicas, Some(counts[3]));
        let message = &conditions::find(&status.conditions, READY)
            .expect("a condition")
            .message;
        let [_, updated, _, available] = counts;
        let expected =
            format!("Deployment \"web\" has {updated} of 2 updated and {available} of 2 available replicas.");
        assert_eq!(*message, *expected);
    }
    let mut behind = deployment([2, 2, 2, 2], &json!([]));
    behind.metadata.generation = 2;
    assert_eq!(
        reported(&Status::of(&app, &observed(&behind), now()))[0].0,
        Truth::False,
        "status is of an earlier generation"
    );
}

#[test]
fn unchanged_status_is_not_patched() {
    let deployment = deployment([0, 0, 0, 0], &json!([]));
    let first = app(&json!(null));
    let status = Status::of(&first, &observed(&deployment), now());
    let patch = status.patch(&first, &first.metadata).expect("a patch");
    assert_eq!(patch["metadata"], json!({"uid": "u", "resourceVersion": "1"}));
    let written = &patch["status"];
    for field in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        assert_eq!(written[field], 0, "{field}");
    }
    assert_eq!(
        (
            &written["observedGeneration"],
            written["conditions"].as_array().map(Vec::len)
        ),
        (&json!(3), Some(3))
    );
    assert_eq!(written["selector"], json!(desired::selector_text(&first)));
    let second = app(written);
    let later = now() + jiff::SignedDuration::from_secs(60);
    assert_eq!(
        Status::of(&second, &observed(&deployment), later).patch(&second, &second.metadata),
        None
    );
}

#[test]
fn conditions_of_other_controllers_are_kept() {
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let app = app(&json!({"conditions": [theirs]}));
    let status = Status::of(&app, &Observed::default(), now());
    let patch = status.patch(&app, &app.metadata).expect("a patch");
    assert_eq!(patch["status"]["conditions"][0], theirs);
}

#[test]
fn stall_is_in_all_conditions_and_one_event() {
    let stall = Stall {
        reason: "ErrResourceExists",
        message: "Deployment \"web\" exists.".to_owned(),
        emit_event: true,
    };
    let observed = Observed {
        stalls: vec![stall.clone()],
        ..Observed::default()
    };
    let first = app(&json!(null));
    let status = Status::of(&first, &observed, now());
    let reason = "ErrResourceExists".to_owned();
    let expected = [Truth::False, Truth::False, Truth::True].map(|it| (it, reason.clone()));
    assert_eq!(reported(&status), expected);
    assert_eq!(status.new_stall(&first, &observed), Some(&stall));
    let silent = Observed {
        stalls: vec![Stall {
            emit_event: false,
            ..stall.clone()
        }],
        ..Observed::default()
    };
    assert_eq!(
        Status::of(&first, &silent, now()).new_stall(&first, &silent),
        None
    );
    let patch = status.patch(&first, &first.metadata).expect("a patch");
    let second = app(&patch["status"]);
    let again = Status::of(&second, &observed, now());
    assert_eq!(again.new_stall(&second, &observed), None);
    assert_eq!(again.patch(&second, &second.metadata), None);
}

#[test]
fn failures_of_the_deployment_are_reported() {
    let condition = |type_: &str, status: &str, reason: &str| json!([{"type": type_, "status": status, "reason": reason, "message": "quota"}]);
    for (conditions, reason) in [
        (
            condition("ReplicaFailure", "True", "FailedCreate"),
            Some("ReplicaFailure"),
        ),
        (condition("ReplicaFailure", "False", "FailedCreate"), None),
        (
            condition("Progressing", "False", "ProgressDeadlineExceeded"),
            Some("ProgressDeadlineExceeded"),
        ),
        (condition("Progressing", "True", "ReplicaSetUpdated"), None),
        (
            condition("Progressing", "False", "ReplicaSetCreateError"),
            Some("ReplicaSetCreateError"),
        ),
        (
            condition("Progressing", "False", "Of another controller"),
            Some("DeploymentStalled"),
        ),
    ] {
        let deployment = deployment([1, 1, 1, 1], &conditions);
        let app = app(&json!(null));
        let seen = observed(&deployment);
        let status = Status::of(&app, &seen, now());
        let stalled = conditions::find(&status.conditions, STALLED).expect("a condition");
        let expected = reason.map_or((Truth::False, "AsExpected"), |it| (Truth::True, it));
        assert_eq!((stalled.status, &*stalled.reason), expected, "{conditions}");
        assert_eq!(
            status.new_stall(&app, &seen),
            None,
            "the Deployment controller records the event"
        );
    }
}

#[test]
fn unknown_outcome_keeps_the_conditions() {
    let app = app(&json!({"observedGeneration": 2, "conditions": [
        {"type": "Ready", "status": "True", "reason": "AllAvailable", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}));
    let deployment = deployment([1, 1, 1, 1], &json!([]));
    let seen = Observed {
        unknown: true,
        ..observed(&deployment)
    };
    let status = Status::of(&app, &seen, now());
    assert_eq!(
        (status.observed_generation, &status.conditions),
        (Some(2), &app.status.conditions)
    );
    assert_eq!(status.available_replicas, Some(1), "counts are updated");
}

#[test]
fn pending_deletion_is_not_a_stall() {
    let seen = Observed {
        pending: Some(("WaitingForDeletion", "m".to_owned())),
        ..Observed::default()
    };
    let status = Status::of(&app(&json!(null)), &seen, now());
    let reason = "WaitingForDeletion".to_owned();
    assert_eq!(
        reported(&status)[..2],
        [(Truth::False, reason.clone()), (Truth::True, reason)]
    );
    assert_eq!(reported(&status)[2].0, Truth::False);
}

#[test]
fn deployment_changed_by_another_client_keeps_the_reported_state() {
    let failure =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}]);
    for (conditions, reason) in [(json!([]), "AllAvailable"), (failure, "ReplicaFailure")] {
        let mut deployment = deployment([2, 2, 2, 2], &conditions);
        let mut app = app(&json!(null));
        app.status = Status::of(&app, &observed(&deployment), now());
        let before = app.status.clone();
        deployment.metadata.generation = 2;
        assert_eq!(
            Status::of(&app, &observed(&deployment), now()),
            before,
            "{reason}"
        );
        // Not if the sync changed it, the AppService has a new generation, or was progressing before.
        let ready = |app: &AppService, changed: bool| {
            let seen = Observed {
                deployment_changed: changed,
                ..observed(&deployment)
            };
            let status = Status::of(app, &seen, now());
            let ready = conditions::find(&status.conditions, READY).expect("a condition");
            ready.reason.to_string()
        };
        assert_eq!(ready(&app, false), reason);
        assert_eq!(ready(&app, true), "RollingOut");
        let mut other = app.clone();
        other.metadata.generation = 4;
        assert_eq!(ready(&other, false), "RollingOut");
        let mut progressing = app.clone();
        for condition in &mut progressing.status.conditions {
            if condition.type_ == *PROGRESSING {
                condition.status = Truth::True;
            }
        }
        assert_eq!(ready(&progressing, false), "RollingOut");
    }
}

#[test]
fn unset_replicas_default_to_those_of_the_deployment() {
    let mut app = app(&json!(null));
    app.spec = serde_json::from_value(json!({"deploymentName": "web"})).expect("a spec");
    let deployment = deployment([2, 2, 2, 2], &json!([]));
    let status = Status::of(&app, &observed(&deployment), now());
    assert_eq!(reported(&status)[0], (Truth::True, "AllAvailable".to_owned()));
}
