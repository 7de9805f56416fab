//! Rollouts at random: whatever users, pods and those who follow do, no step leaves the bounds, and all come to their end.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::World;

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A step is made.
    Step,
    /// A set takes note of its size.
    Follow(usize),
    /// So many pods of a set come to serve, or cease to.
    Turn(usize, bool, u8),
    /// The user wants something else.
    Want(Value),
    /// The user scales a set by hand.
    Meddle(usize, u8),
    /// The user deletes a set by hand, and its pods go with it.
    Delete(usize),
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
        6 => (0..4_usize).prop_map(Event::Follow),
        6 => (0..4_usize, prop::bool::weighted(0.8), 1..5_u8)
            .prop_map(|(set, serves, count)| Event::Turn(set, serves, count)),
        2 => spec().prop_map(Event::Want),
        1 => (0..4_usize, 0..12_u8).prop_map(|(set, size)| Event::Meddle(set, size)),
        1 => (0..4_usize).prop_map(Event::Delete),
    ]
}

fn happen(world: &mut World, event: &Event) {
    let name = |at: usize| world.sets.keys().nth(at).cloned();
    match event {
        Event::Step => step(world),
        Event::Want(spec) => world.want(spec),
        Event::Follow(set) => {
            if let Some(name) = name(*set) {
                world.follow(&name);
            }
        }
        Event::Turn(set, serves, count) => {
            if let Some(name) = name(*set) {
                for _ in 0..*count {
                    world.turn(&name, *serves);
                }
            }
        }
        Event::Meddle(set, size) => {
            if let Some(name) = name(*set) {
                let set = world.sets.get_mut(&name).expect("it is there");
                set["spec"]["replicas"] = json!(size);
                set["metadata"]["generation"] =
                    json!(set["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
            }
        }
        Event::Delete(set) => {
            if let Some(set) = name(*set).and_then(|it| world.sets.remove(&it)) {
                world
                    .pods
                    .remove(set["metadata"]["uid"].as_str().unwrap_or_default());
            }
        }
    }
}

/// Makes a step, of which no write leaves the bounds.
fn step(world: &mut World) {
    let bounds = world.bounds();
    let old_pods: usize = world
        .plan()
        .sets
        .old
        .iter()
        .map(|it| world.pods[&it.object.metadata.uid.to_string()].len())
        .sum();
    let (mut total, mut serving) = (world.total(), world.serving());
    let paused = world.deployment["spec"]["paused"] == true;
    let image = world.deployment["spec"]["template"]["spec"]["image"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let had_new = world.sizes().contains_key(&image);
    world.step(|world| {
        let (after, left) = (world.total(), world.serving());
        assert!(
            after <= total || after <= bounds.limit(),
            "{after} of {bounds:?} after {total}: {world:#?}"
        );
        if bounds.rolling {
            let least = serving.min(bounds.min_available());
            assert!(
                left >= least,
                "{left} serve of {bounds:?} after {serving}: {world:#?}"
            );
        } else if !paused && !had_new && world.sizes().contains_key(&image) {
            assert_eq!(old_pods, 0, "the old ones are still there: {world:#?}");
        }
        (total, serving) = (after, left);
    });
}

proptest! {
    #[test]
    fn no_step_leaves_the_bounds_and_every_rollout_ends(
        replicas in 0..15_i64,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut world = World::new(&json!({"replicas": replicas}));
        world.settle(|_| {});
        world.want(&json!({"template": {"spec": {"image": "image-0"}}}));
        for event in &events {
            world.second += 1;
            happen(&mut world, event);
        }
        world.want(&json!({"paused": false}));
        let settled = (0..300).any(|_| {
            world.second += 1;
            let before = world.clone();
            step(&mut world);
            for name in world.sets.keys().cloned().collect::<Vec<_>>() {
                world.follow(&name);
                while world.turn(&name, true) {}
            }
            world.deployment == before.deployment && world.sets == before.sets
        });
        prop_assert!(settled, "it goes on for ever: {world:#?}");
        let deployment = world.deployment();
        prop_assert!(deployment.status.is_complete(&deployment), "{world:#?}");
        let image = world.deployment["spec"]["template"]["spec"]["image"].as_str().expect("an image");
        let wanted = deployment.replicas();
        let sizes = if wanted == 0 { [].into() } else { [(image.to_owned(), wanted)].into() };
        prop_assert_eq!(world.sizes(), sizes);
        prop_assert!(world.sets.len() <= 1 + deployment.history_limit().unwrap_or(usize::MAX), "{world:#?}");
        prop_assert_eq!(world.step(|_| {}), 0, "and nothing is left to do");
    }
}
