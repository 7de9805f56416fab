//! Any world, told late and out of order, is collected without harm and to the end.

mod collector;
mod settled;
mod world;

use coxswain_manager::client::Propagation;
use coxswain_tests::seeds;

use self::collector::Collector;
use self::world::World;
use super::*;

/// How many worlds are tried.
const WORLDS: u64 = 500;

#[test]
fn any_world_is_collected_without_harm_and_to_the_end() {
    let (mut deletes, mut unblocked, mut released) = (0, 0, 0);
    let start = Scene::fresh().now;
    let mut worlds = 0;
    for seed in seeds::of(WORLDS) {
        let collector = run(seed, start);
        worlds += 1;
        deletes += collector.deletes;
        unblocked += collector.unblocked;
        released += collector.released;
    }
    println!("{worlds} worlds: {deletes} deleted, {released} let go, {unblocked} circles cut");
    assert!(
        worlds == 1 || deletes > worlds && released > 0,
        "too little happened"
    );
}

fn run(seed: u64, start: Instant) -> Collector {
    let mut collector = Collector::new(World::new(seed, start));
    for resource in WATCHED {
        for _ in 0..collector.world.rng.below(5) {
            collector.world.stir();
        }
        let news = collector.world.news.entry(resource).or_default();
        news.push_back(world::News::Synced);
    }
    for _ in 0..120 {
        match collector.world.rng.below(12) {
            0..=2 => collector.world.stir(),
            3..=6 => {
                let resources = collector.world.watched();
                let resource = collector.world.pick(&resources).expect("some").clone();
                collector.deliver(&resource);
            }
            7..=9 => collector.work(true),
            10 => {
                let time = collector.world.rng.between(Duration::ZERO, 2 * FRESH);
                collector.pass(time);
            }
            _ if collector.world.chance(10) => collector.reserve(),
            _ => {}
        }
        collector.assert_exact();
    }
    collector.world.widget = Some(WIDGET);
    collector.rewatch();
    finish(&mut collector);
    collector
}

/// Until nothing happens any more, whatever time passes.
fn finish(collector: &mut Collector) {
    let mut quiet = 0;
    for round in 0.. {
        assert!(round < 2000, "it never ends");
        let writes = collector.world.writes;
        collector.deliver_all();
        while !collector.is_idle() {
            collector.work(false);
            collector.deliver_all();
        }
        collector.pass(Duration::from_secs(5));
        quiet = if collector.world.writes == writes {
            quiet + 1
        } else {
            0
        };
        if quiet > 10 {
            break;
        }
    }
    collector.assert_exact();
    collector.assert_settled();
}

#[test]
fn any_circle_goes_whoever_of_it_is_deleted() {
    let start = Scene::fresh().now;
    for seed in seeds::of(100) {
        for length in 1..=5 {
            let mut collector = Collector::new(World::new(seed, start));
            for resource in WATCHED {
                collector
                    .world
                    .news
                    .entry(resource)
                    .or_default()
                    .push_back(world::News::Synced);
            }
            let members: Vec<Thing> = (0..length).map(|n| thing(&SET, &n.to_string())).collect();
            for (n, member) in members.iter().enumerate() {
                let owner = &members[(n + 1) % length];
                collector
                    .world
                    .put(&SET, member.clone().refers(&[owner.blocking()]).meta);
            }
            collector.deliver_all();
            for turn in 0..=collector.world.rng.below(3) {
                let there: Vec<_> = collector.world.objects.values().cloned().collect();
                if let Some(meta) = collector.world.pick(&there) {
                    collector.world.delete(&SET, meta, Propagation::Foreground);
                }
                for _ in 0..turn {
                    collector.deliver(&SET);
                    collector.work(false);
                }
            }
            finish(&mut collector);
            let left = &collector.world.objects;
            assert!(left.is_empty(), "seed {seed}, {length}: {left:?}");
        }
    }
}
