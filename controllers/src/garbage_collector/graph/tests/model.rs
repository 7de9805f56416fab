//! Randomized tests: any cluster whose events are late or merged is collected safely and completely.

mod assertions;
mod cluster;
mod collector;

use steersman_harness::seeds;
use steersman_manager::client::Propagation;

use self::cluster::Cluster;
use self::collector::Collector;
use super::*;

const CLUSTERS: u64 = 500;

#[test]
fn any_cluster_is_collected_safely_and_completely() {
    let (mut deletes, mut unblocked, mut orphaned) = (0, 0, 0);
    let start = Fixture::fresh().now;
    let mut clusters = 0;
    for seed in seeds::of(CLUSTERS) {
        let collector = run(seed, start);
        clusters += 1;
        deletes += collector.deletes;
        unblocked += collector.unblocked;
        orphaned += collector.orphaned;
    }
    println!("{clusters} clusters: {deletes} deleted, {orphaned} orphaned, {unblocked} cycles broken");
    assert!(
        clusters == 1 || deletes > clusters && orphaned > 0,
        "too little happened"
    );
}

fn run(seed: u64, start: Instant) -> Collector {
    let mut collector = Collector::new(Cluster::new(seed, start));
    for resource in WATCHED {
        for _ in 0..collector.cluster.rng.below(5) {
            collector.cluster.mutate();
        }
        let events = collector.cluster.events.entry(resource).or_default();
        events.push_back(cluster::CacheEvent::Synced);
    }
    for _ in 0..120 {
        match collector.cluster.rng.below(12) {
            0..=2 => collector.cluster.mutate(),
            3..=6 => {
                let resources = collector.cluster.watched();
                let resource = collector.cluster.pick(&resources).expect("some").clone();
                collector.deliver(&resource);
            }
            7..=9 => collector.work(true),
            10 => {
                let time = collector.cluster.rng.between(Duration::ZERO, 2 * FRESH);
                collector.advance(time);
            }
            _ if collector.cluster.chance(10) => collector.change_widget_version(),
            _ => {}
        }
        collector.assert_exact();
    }
    collector.cluster.widget = Some(WIDGET);
    collector.update_kinds();
    finish(&mut collector);
    collector
}

/// Works until no write happens for a long time.
fn finish(collector: &mut Collector) {
    let mut quiet = 0;
    for round in 0.. {
        assert!(round < 2000, "it never ends");
        let writes = collector.cluster.writes;
        collector.deliver_all();
        while !collector.is_idle() {
            collector.work(false);
            collector.deliver_all();
        }
        collector.advance(Duration::from_secs(5));
        quiet = if collector.cluster.writes == writes {
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
fn any_cycle_is_deleted_with_any_of_its_members() {
    let start = Fixture::fresh().now;
    for seed in seeds::of(100) {
        for length in 1..=5 {
            let mut collector = Collector::new(Cluster::new(seed, start));
            for resource in WATCHED {
                collector
                    .cluster
                    .events
                    .entry(resource)
                    .or_default()
                    .push_back(cluster::CacheEvent::Synced);
            }
            let members: Vec<Object> = (0..length).map(|n| object(&SET, &n.to_string())).collect();
            for (n, member) in members.iter().enumerate() {
                let owner = &members[(n + 1) % length];
                collector
                    .cluster
                    .put(&SET, member.clone().refers(&[owner.blocking()]).meta);
            }
            collector.deliver_all();
            for turn in 0..=collector.cluster.rng.below(3) {
                let there: Vec<_> = collector.cluster.objects.values().cloned().collect();
                if let Some(meta) = collector.cluster.pick(&there) {
                    collector.cluster.delete(&SET, meta, Propagation::Foreground);
                }
                for _ in 0..turn {
                    collector.deliver(&SET);
                    collector.work(false);
                }
            }
            finish(&mut collector);
            let left = &collector.cluster.objects;
            assert!(left.is_empty(), "seed {seed}, {length}: {left:?}");
        }
    }
}
