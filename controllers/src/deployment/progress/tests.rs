use super::*;

use serde_json::{Value, json};

use crate::deployment::world::World;

fn progressing(world: &World) -> (String, String) {
    world.condition(PROGRESSING)
}

fn reason(world: &World) -> String {
    progressing(world).1
}

fn stuck() -> World {
    let mut world = World::new(&json!({"replicas": 3, "progressDeadlineSeconds": 60}));
    world.step(|_| {});
    assert_eq!(reason(&world), "NewReplicaSetCreated");
    let name = world.name_of("one");
    world.follow(&name);
    world.step(|_| {});
    assert_eq!(reason(&world), "ReplicaSetUpdated", "its pods are there");
    world
}

#[test]
fn a_rollout_that_stands_still_is_late_once_and_can_still_come_to_its_end() {
    let mut world = stuck();
    let deployment = world.deployment();
    assert_eq!(
        next_look(&deployment, &deployment.status, world.now()),
        Some(Duration::from_secs(61))
    );
    world.second += 60;
    assert_eq!(world.step(|_| {}), 0, "not yet");
    world.second += 1;
    assert_eq!(world.step(|_| {}), 1);
    assert_eq!(progressing(&world), ("False".to_owned(), EXCEEDED.to_owned()));
    let deployment = world.deployment();
    assert_eq!(next_look(&deployment, &deployment.status, world.now()), None);
    world.second += 600;
    assert_eq!(world.step(|_| {}), 0, "it is said once");
    let name = world.name_of("one");
    world.turn(&name, true);
    world.step(|_| {});
    assert_eq!(
        progressing(&world),
        ("True".to_owned(), "ReplicaSetUpdated".to_owned())
    );
    while world.turn(&name, true) {}
    world.step(|_| {});
    assert_eq!(reason(&world), AVAILABLE);
    // A pod that fails later is no rollout.
    world.turn(&name, false);
    world.second += 6000;
    world.step(|_| {});
    assert_eq!(reason(&world), AVAILABLE);
    let deployment = world.deployment();
    assert_eq!(next_look(&deployment, &deployment.status, world.now()), None);
}

#[test]
fn all_that_comes_further_gives_it_time() {
    let mut world = stuck();
    let name = world.name_of("one");
    for _ in 0..2 {
        world.second += 50;
        world.turn(&name, true);
        world.step(|_| {});
        assert_eq!(reason(&world), "ReplicaSetUpdated");
    }
    world.second += 59;
    world.step(|_| {});
    assert_eq!(reason(&world), "ReplicaSetUpdated");
}

#[test]
fn without_a_deadline_nothing_is_said() {
    for deadline in [json!(null), json!(i32::MAX)] {
        let mut world = stuck();
        world.want(&json!({"progressDeadlineSeconds": deadline}));
        world.step(|_| {});
        assert_eq!(reason(&world), "");
        let deployment = world.deployment();
        assert_eq!(next_look(&deployment, &deployment.status, world.now()), None);
    }
}

#[test]
fn what_is_paused_is_not_late() {
    let mut world = stuck();
    world.want(&json!({"paused": true}));
    world.step(|_| {});
    assert_eq!(progressing(&world), ("Unknown".to_owned(), PAUSED.to_owned()));
    world.second += 6000;
    assert_eq!(world.step(|_| {}), 0);
    world.want(&json!({"paused": false}));
    world.step(|_| {});
    assert_eq!(
        progressing(&world),
        ("Unknown".to_owned(), "DeploymentResumed".to_owned())
    );
    world.second += 61;
    world.step(|_| {});
    assert_eq!(reason(&world), EXCEEDED);
    // Late is late, paused or not.
    world.want(&json!({"paused": true}));
    world.step(|_| {});
    assert_eq!(reason(&world), EXCEEDED);
}

#[test]
fn one_that_was_there_is_found() {
    let mut world = stuck();
    world.deployment["status"]["conditions"] = json!([]);
    world.deployment["status"]["replicas"] = json!(3);
    world.step(|_| {});
    assert_eq!(reason(&world), "FoundNewReplicaSet");
}

fn wanted_of(world: &World, news: &News) -> Status {
    let plan = world.plan();
    wanted(
        &world.deployment(),
        &world.bounds(),
        &plan.sets,
        news,
        false,
        world.now(),
    )
}

#[test]
fn a_set_that_cannot_be_made_is_said() {
    let world = World::new(&json!({}));
    let failed = News::Failed {
        name: "web-x".into(),
        error: "no".to_owned(),
    };
    let status = wanted_of(&world, &failed);
    let said = condition::find(&status.conditions, PROGRESSING).expect("a condition");
    assert_eq!(
        (said.status, &*said.reason),
        (Holds::False, "ReplicaSetCreateError")
    );
    assert_eq!(&*said.message, r#"Failed to create new replica set "web-x": no"#);
}

#[test]
fn what_a_set_says_of_its_pods_is_said_again_and_taken_back() {
    let mut world = stuck();
    let name = world.name_of("one");
    let failing = |message: &str| {
        json!([{"type": REPLICA_FAILURE, "status": "True", "reason": "FailedCreate", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    };
    let conditions = |world: &mut World, conditions: Value| {
        world.sets.get_mut(&name).expect("it is there")["status"]["conditions"] = conditions;
        world.step(|_| {});
    };
    conditions(&mut world, failing("quota"));
    assert_eq!(
        world.condition(REPLICA_FAILURE),
        ("True".to_owned(), "FailedCreate".to_owned())
    );
    conditions(&mut world, failing("another quota"));
    assert_eq!(world.step(|_| {}), 0);
    conditions(&mut world, json!([]));
    assert_eq!(world.condition(REPLICA_FAILURE).1, "");
}

#[test]
fn what_others_say_survives_everything() {
    let mut world = World::new(&json!({"replicas": 2}));
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    world.deployment["status"]["conditions"] = json!([theirs]);
    assert!(world.settle(|_| {}));
    world.want(&json!({"paused": true}));
    assert!(world.settle(|_| {}));
    let conditions = world.deployment["status"]["conditions"]
        .as_array()
        .expect("conditions");
    assert!(conditions.contains(&theirs));
}

#[test]
fn what_was_refused_is_over_when_it_makes_sense_again() {
    let mut world = stuck();
    let status = refused(&world.deployment(), "InvalidStrategy", "no", world.now());
    assert_eq!(status.observed_generation, 1);
    world.deployment["status"]["conditions"] = json!(status.conditions);
    world.second += 6000;
    world.step(|_| {});
    assert_eq!(reason(&world), "FoundNewReplicaSet", "and it is not late");
}
