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

fn observed(deployment: &Deployment) -> Observed<'_> {
    Observed {
        deployment: Some(deployment),
        ..Observed::default()
    }
}

/// Status and reason of each condition.
fn said(status: &Status) -> [(Holds, String); 3] {
    [READY, PROGRESSING, STALLED].map(|type_| {
        let it = conditions::find(&status.conditions, type_).expect("it is said");
        assert_eq!(it.observed_generation, 3);
        (it.status, it.reason.to_string())
    })
}

#[test]
fn it_is_ready_when_all_that_is_asked_for_serves() {
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
                (Holds::True, "AllAvailable"),
                (Holds::False, "Complete"),
                (Holds::False, "AsExpected"),
            ]
        } else {
            [
                (Holds::False, "RollingOut"),
                (Holds::True, "RollingOut"),
                (Holds::False, "AsExpected"),
            ]
        };
        assert_eq!(
            said(&status),
            expected.map(|(it, reason)| (it, reason.to_owned())),
            "{counts:?}"
        );
        assert_eq!(status.available_replicas, Some(counts[3]));
    }
    let mut behind = deployment([2, 2, 2, 2], &json!([]));
    behind.metadata.generation = 2;
    assert_eq!(
        said(&Status::of(&app, &observed(&behind), now()))[0].0,
        Holds::False,
        "that is from before"
    );
}

#[test]
fn all_is_written_the_first_time_and_nothing_after_that() {
    let deployment = deployment([0, 0, 0, 0], &json!([]));
    let first = app(&json!(null));
    let status = Status::of(&first, &observed(&deployment), now());
    let patch = status.patch(&first, &first.metadata).expect("all is new");
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
    let second = app(written);
    let later = now() + jiff::SignedDuration::from_secs(60);
    assert_eq!(
        Status::of(&second, &observed(&deployment), later).patch(&second, &second.metadata),
        None
    );
}

#[test]
fn what_others_say_stays() {
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let app = app(&json!({"conditions": [theirs]}));
    let status = Status::of(&app, &Observed::default(), now());
    let patch = status.patch(&app, &app.metadata).expect("it is new");
    assert_eq!(patch["status"]["conditions"][0], theirs);
}

#[test]
fn what_stops_it_is_said_by_all_three_and_told_once() {
    let obstacle = Obstacle {
        reason: "ErrResourceExists",
        message: "Deployment web exists".to_owned(),
        told: true,
    };
    let observed = Observed {
        obstacles: vec![obstacle.clone()],
        ..Observed::default()
    };
    let first = app(&json!(null));
    let status = Status::of(&first, &observed, now());
    let reason = "ErrResourceExists".to_owned();
    let expected = [Holds::False, Holds::False, Holds::True].map(|it| (it, reason.clone()));
    assert_eq!(said(&status), expected);
    assert_eq!(status.news(&first, &observed), Some(&obstacle));
    let patch = status.patch(&first, &first.metadata).expect("it is new");
    let second = app(&patch["status"]);
    let again = Status::of(&second, &observed, now());
    assert_eq!(again.news(&second, &observed), None);
    assert_eq!(again.patch(&second, &second.metadata), None);
}

#[test]
fn what_its_deployment_says_of_itself_is_passed_on() {
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
        (condition("Progressing", "False", "Other"), None),
    ] {
        let deployment = deployment([1, 1, 1, 1], &conditions);
        let app = app(&json!(null));
        let seen = observed(&deployment);
        let status = Status::of(&app, &seen, now());
        let stalled = conditions::find(&status.conditions, STALLED).expect("it is said");
        let expected = reason.map_or((Holds::False, "AsExpected"), |it| (Holds::True, it));
        assert_eq!((stalled.status, &*stalled.reason), expected, "{conditions}");
        assert_eq!(status.news(&app, &seen), None, "that is its Deployment's to tell");
    }
}

#[test]
fn what_is_not_known_is_left_as_it_was() {
    let app = app(&json!({"observedGeneration": 2, "conditions": [
        {"type": "Ready", "status": "True", "reason": "AllAvailable", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}));
    let deployment = deployment([1, 1, 1, 1], &json!([]));
    let seen = Observed {
        unclear: true,
        ..observed(&deployment)
    };
    let status = Status::of(&app, &seen, now());
    assert_eq!(
        (status.observed_generation, &status.conditions),
        (Some(2), &app.status.conditions)
    );
    assert_eq!(status.available_replicas, Some(1), "what was seen is said");
}

#[test]
fn what_is_awaited_is_no_obstacle() {
    let seen = Observed {
        awaited: Some(("WaitingForDeletion", "m".to_owned())),
        ..Observed::default()
    };
    let status = Status::of(&app(&json!(null)), &seen, now());
    let reason = "WaitingForDeletion".to_owned();
    assert_eq!(
        said(&status)[..2],
        [(Holds::False, reason.clone()), (Holds::True, reason)]
    );
    assert_eq!(said(&status)[2].0, Holds::False);
}

#[test]
fn a_deployment_that_others_have_changed_tells_what_it_told() {
    let failure =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}]);
    for (conditions, reason) in [(json!([]), "AllAvailable"), (failure, "ReplicaFailure")] {
        let mut deployment = deployment([2, 2, 2, 2], &conditions);
        let mut app = app(&json!(null));
        app.status = Status::of(&app, &observed(&deployment), now());
        let before = app.status.clone();
        // An annotation is enough.
        deployment.metadata.generation = 2;
        assert_eq!(
            Status::of(&app, &observed(&deployment), now()),
            before,
            "{reason}"
        );
        // Not if it was this one who has changed it, or wants something else by now, or was on the way before.
        let ready = |app: &AppService, changed: bool| {
            let seen = Observed {
                changed,
                ..observed(&deployment)
            };
            let status = Status::of(app, &seen, now());
            let ready = conditions::find(&status.conditions, READY).expect("it is said");
            ready.reason.to_string()
        };
        assert_eq!(ready(&app, false), reason);
        assert_eq!(ready(&app, true), "RollingOut");
        let mut other = app.clone();
        other.metadata.generation = 4;
        assert_eq!(ready(&other, false), "RollingOut");
        let mut going = app.clone();
        for condition in &mut going.status.conditions {
            if condition.type_ == *PROGRESSING {
                condition.status = Holds::True;
            }
        }
        assert_eq!(ready(&going, false), "RollingOut");
    }
}

#[test]
fn unset_replicas_are_those_of_the_deployment() {
    let mut app = app(&json!(null));
    app.spec = serde_json::from_value(json!({"deploymentName": "web"})).expect("a spec");
    let deployment = deployment([2, 2, 2, 2], &json!([]));
    let status = Status::of(&app, &observed(&deployment), now());
    assert_eq!(said(&status)[0], (Holds::True, "AllAvailable".to_owned()));
}
