use super::*;

use serde_json::{Value, json};

use crate::deployment::tests::simulation::Simulation;

fn progressing_of(simulation: &Simulation) -> (String, String) {
    simulation.condition(PROGRESSING)
}

fn reason(simulation: &Simulation) -> String {
    progressing_of(simulation).1
}

fn stuck() -> Simulation {
    let mut simulation = Simulation::new(&json!({"replicas": 3, "progressDeadlineSeconds": 60}));
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), "NewReplicaSetCreated");
    let name = simulation.name_of("one");
    simulation.sync_set(&name);
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), "ReplicaSetUpdated", "its pods exist");
    simulation
}

#[test]
fn stalled_rollout_exceeds_the_deadline_once_and_can_still_complete() {
    let mut simulation = stuck();
    let deployment = simulation.deployment();
    assert_eq!(
        next_check(&deployment, &deployment.status, simulation.now()),
        Some(Duration::from_secs(61))
    );
    simulation.second += 60;
    assert_eq!(simulation.step(|_| {}), 0, "not yet");
    assert_eq!(
        next_check(&deployment, &deployment.status, simulation.now()),
        Some(Duration::from_secs(1))
    );
    simulation.second += 1;
    assert_eq!(simulation.step(|_| {}), 1);
    assert_eq!(
        progressing_of(&simulation),
        ("False".to_owned(), DEADLINE_EXCEEDED.to_owned())
    );
    let deployment = simulation.deployment();
    assert_eq!(
        next_check(&deployment, &deployment.status, simulation.now()),
        None
    );
    simulation.second += 600;
    assert_eq!(simulation.step(|_| {}), 0, "reported once");
    let name = simulation.name_of("one");
    simulation.set_availability(&name, true);
    simulation.step(|_| {});
    assert_eq!(
        progressing_of(&simulation),
        ("True".to_owned(), "ReplicaSetUpdated".to_owned())
    );
    while simulation.set_availability(&name, true) {}
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), NEW_SET_AVAILABLE);
    // A pod that fails after the rollout does not start another one.
    simulation.set_availability(&name, false);
    simulation.set_availability(&name, false);
    simulation.second += 6000;
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), NEW_SET_AVAILABLE);
    simulation.set_availability(&name, true);
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), NEW_SET_AVAILABLE);
    let deployment = simulation.deployment();
    assert_eq!(
        next_check(&deployment, &deployment.status, simulation.now()),
        None
    );
}

#[test]
fn deadline_of_the_completed_rollout_does_not_apply_to_the_next_one() {
    let mut simulation = Simulation::new(&json!({"replicas": 3, "progressDeadlineSeconds": 60}));
    for image in ["one", "two"] {
        simulation.update(&json!({"template": {"spec": {"image": image}}}));
        assert!(simulation.settle(|_| {}));
    }
    simulation.second += 6000;
    // Its ReplicaSet exists, so no creation is reported.
    simulation.update(&json!({"template": {"spec": {"image": "one"}}}));
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), NEW_SET_AVAILABLE);
}

#[test]
fn progress_restarts_the_deadline() {
    let mut simulation = stuck();
    let name = simulation.name_of("one");
    for _ in 0..2 {
        simulation.second += 50;
        simulation.set_availability(&name, true);
        simulation.step(|_| {});
        assert_eq!(reason(&simulation), "ReplicaSetUpdated");
    }
    simulation.second += 59;
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), "ReplicaSetUpdated");
}

#[test]
fn no_deadline_removes_the_progressing_condition() {
    for deadline in [json!(null), json!(i32::MAX)] {
        let mut simulation = stuck();
        simulation.update(&json!({"progressDeadlineSeconds": deadline}));
        simulation.step(|_| {});
        assert_eq!(reason(&simulation), "");
        let deployment = simulation.deployment();
        assert_eq!(
            next_check(&deployment, &deployment.status, simulation.now()),
            None
        );
    }
}

#[test]
fn paused_deployment_does_not_exceed_the_deadline() {
    let mut simulation = stuck();
    simulation.update(&json!({"paused": true}));
    simulation.step(|_| {});
    assert_eq!(
        progressing_of(&simulation),
        ("Unknown".to_owned(), PAUSED.to_owned())
    );
    simulation.second += 6000;
    assert_eq!(simulation.step(|_| {}), 0);
    simulation.update(&json!({"paused": false}));
    simulation.step(|_| {});
    assert_eq!(
        progressing_of(&simulation),
        ("Unknown".to_owned(), "DeploymentResumed".to_owned())
    );
    simulation.second += 61;
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), DEADLINE_EXCEEDED);
    // Pausing does not reset an exceeded deadline.
    simulation.update(&json!({"paused": true}));
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), DEADLINE_EXCEEDED);
}

#[test]
fn existing_set_is_reported_as_found() {
    let mut simulation = stuck();
    simulation.deployment["status"]["conditions"] = json!([]);
    simulation.deployment["status"]["replicas"] = json!(3);
    simulation.step(|_| {});
    assert_eq!(reason(&simulation), "FoundNewReplicaSet");
}

fn status_of(simulation: &Simulation, creation: &CreationReport) -> Status {
    let plan = simulation.plan();
    desired_status(
        &simulation.deployment(),
        &simulation.bounds(),
        &plan.sets,
        creation,
        false,
        simulation.now(),
    )
}

#[test]
fn failed_create_is_reported() {
    let simulation = Simulation::new(&json!({}));
    let failed = CreationReport::Failed {
        name: "web-x".into(),
        error: "no".to_owned(),
    };
    let status = status_of(&simulation, &failed);
    let progressing = condition::find(&status.conditions, PROGRESSING).expect("a condition");
    assert_eq!(
        (progressing.status, &*progressing.reason),
        (ConditionStatus::False, "ReplicaSetCreateError")
    );
    assert_eq!(
        &*progressing.message,
        r#"Failed to create new replica set "web-x": no"#
    );
}

#[test]
fn replica_failure_is_copied_and_removed() {
    let mut simulation = stuck();
    let name = simulation.name_of("one");
    let failing = |message: &str| {
        json!([{"type": REPLICA_FAILURE, "status": "True", "reason": "FailedCreate", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    };
    let conditions = |simulation: &mut Simulation, conditions: Value| {
        simulation.sets.get_mut(&name).expect("a ReplicaSet")["status"]["conditions"] = conditions;
        simulation.step(|_| {});
    };
    conditions(&mut simulation, failing("quota"));
    assert_eq!(
        simulation.condition(REPLICA_FAILURE),
        ("True".to_owned(), "FailedCreate".to_owned())
    );
    conditions(&mut simulation, failing("another quota"));
    assert_eq!(simulation.step(|_| {}), 0);
    conditions(&mut simulation, json!([]));
    assert_eq!(simulation.condition(REPLICA_FAILURE).1, "");
}

#[test]
fn conditions_of_other_clients_are_kept() {
    let mut simulation = Simulation::new(&json!({"replicas": 2}));
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    simulation.deployment["status"]["conditions"] = json!([theirs]);
    assert!(simulation.settle(|_| {}));
    simulation.update(&json!({"paused": true}));
    assert!(simulation.settle(|_| {}));
    let conditions = simulation.deployment["status"]["conditions"]
        .as_array()
        .expect("conditions");
    assert!(conditions.contains(&theirs));
}

#[test]
fn valid_spec_removes_the_invalid_reason() {
    let mut simulation = stuck();
    let status = invalid_spec_status(
        &simulation.deployment(),
        "InvalidStrategy",
        "no",
        simulation.now(),
    );
    assert_eq!(status.observed_generation, 1);
    simulation.deployment["status"]["conditions"] = json!(status.conditions);
    simulation.second += 6000;
    simulation.step(|_| {});
    assert_eq!(
        reason(&simulation),
        "FoundNewReplicaSet",
        "the deadline is not exceeded"
    );
}
