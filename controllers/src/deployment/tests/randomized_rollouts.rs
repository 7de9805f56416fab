//! Randomized rollouts: no step leaves the bounds, and every rollout completes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::simulation::Simulation;

#[derive(Clone, Debug)]
enum Event {
    Step,
    /// A `ReplicaSet` observes its size.
    SyncSet(usize),
    /// A number of pods of a `ReplicaSet` changes its availability.
    SetAvailability(usize, bool, u8),
    /// A user updates the Deployment.
    Update(Value),
    /// A user scales a `ReplicaSet`.
    ScaleSet(usize, u8),
    /// A user deletes a `ReplicaSet` and its pods.
    DeleteSet(usize),
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..5_i64).prop_map(|it| json!(it)),
        (0..130_i64).prop_map(|it| json!(format!("{it}%")))
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..15_i64).prop_map(|it| json!({"replicas": it})),
        (0..4_i64).prop_map(|it| json!({"template": {"spec": {"image": format!("image-{it}")}}})),
        (amount(), amount()).prop_map(
            |(surge, unavailable)| json!({"strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
        ),
        Just(json!({"strategy": {"type": "Recreate", "rollingUpdate": null}})),
        any::<bool>().prop_map(|it| json!({"paused": it})),
        (0..3_i64).prop_map(|it| json!({"revisionHistoryLimit": it})),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Step),
        6 => (0..4_usize).prop_map(Event::SyncSet),
        6 => (0..4_usize, prop::bool::weighted(0.8), 1..5_u8)
            .prop_map(|(set, available, count)| Event::SetAvailability(set, available, count)),
        2 => spec().prop_map(Event::Update),
        1 => (0..4_usize, 0..12_u8).prop_map(|(set, size)| Event::ScaleSet(set, size)),
        1 => (0..4_usize).prop_map(Event::DeleteSet),
    ]
}

fn apply(simulation: &mut Simulation, event: &Event) {
    let name = |at: usize| simulation.sets.keys().nth(at).cloned();
    match event {
        Event::Step => step(simulation),
        Event::Update(spec) => simulation.update(spec),
        Event::SyncSet(set) => {
            if let Some(name) = name(*set) {
                simulation.sync_set(&name);
            }
        }
        Event::SetAvailability(set, available, count) => {
            if let Some(name) = name(*set) {
                for _ in 0..*count {
                    simulation.set_availability(&name, *available);
                }
            }
        }
        Event::ScaleSet(set, size) => {
            if let Some(name) = name(*set) {
                let set = simulation.sets.get_mut(&name).expect("a ReplicaSet");
                set["spec"]["replicas"] = json!(size);
                set["metadata"]["generation"] =
                    json!(set["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
            }
        }
        Event::DeleteSet(set) => {
            if let Some(set) = name(*set).and_then(|it| simulation.sets.remove(&it)) {
                simulation
                    .pods
                    .remove(set["metadata"]["uid"].as_str().unwrap_or_default());
            }
        }
    }
}

/// Executes a step and checks the bounds after each write.
fn step(simulation: &mut Simulation) {
    let bounds = simulation.bounds();
    let old_pods: usize = simulation
        .plan()
        .sets
        .old
        .iter()
        .map(|it| simulation.pods[&it.object.metadata.uid.to_string()].len())
        .sum();
    let (mut total, mut available) = (simulation.total(), simulation.available());
    let paused = simulation.deployment["spec"]["paused"] == true;
    let image = simulation.deployment["spec"]["template"]["spec"]["image"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let had_new = simulation.sizes().contains_key(&image);
    simulation.step(|simulation| {
        let (after, left) = (simulation.total(), simulation.available());
        assert!(
            after <= total || after <= bounds.max_replicas(),
            "{after} of {bounds:?} after {total}: {simulation:#?}"
        );
        if bounds.rolling {
            let least = available.min(bounds.min_available());
            assert!(
                left >= least,
                "{left} available of {bounds:?} after {available}: {simulation:#?}"
            );
        } else if !paused && !had_new && simulation.sizes().contains_key(&image) {
            assert_eq!(old_pods, 0, "old pods still exist: {simulation:#?}");
        }
        (total, available) = (after, left);
    });
}

proptest! {
    #[test]
    fn rollout_keeps_the_bounds_and_completes(
        replicas in 0..15_i64,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut simulation = Simulation::new(&json!({"replicas": replicas}));
        simulation.settle(|_| {});
        simulation.update(&json!({"template": {"spec": {"image": "image-0"}}}));
        for event in &events {
            simulation.second += 1;
            apply(&mut simulation, event);
        }
        simulation.update(&json!({"paused": false}));
        let settled = (0..300).any(|_| {
            simulation.second += 1;
            let before = simulation.clone();
            step(&mut simulation);
            for name in simulation.sets.keys().cloned().collect::<Vec<_>>() {
                simulation.sync_set(&name);
                while simulation.set_availability(&name, true) {}
            }
            simulation.deployment == before.deployment && simulation.sets == before.sets
        });
        prop_assert!(settled, "the rollout does not end: {simulation:#?}");
        let deployment = simulation.deployment();
        prop_assert!(deployment.status.is_complete(&deployment), "{simulation:#?}");
        let image = simulation.deployment["spec"]["template"]["spec"]["image"].as_str().expect("an image");
        let replicas = deployment.replicas();
        let sizes = if replicas == 0 { [].into() } else { [(image.to_owned(), replicas)].into() };
        prop_assert_eq!(simulation.sizes(), sizes);
        prop_assert!(simulation.sets.len() <= 1 + deployment.history_limit().unwrap_or(usize::MAX), "{simulation:#?}");
        prop_assert_eq!(simulation.step(|_| {}), 0, "no writes are left");
    }
}
