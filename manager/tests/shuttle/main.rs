//! The queue's own sources, with shuttle's mutex, tasks and a clock of its own, under many schedules.
//!
//! It switches at every lock, every unlock and every await. What is not modelled: the inside of tokio's `Notify`, which is tested
//! with loom by its authors. `COXSWAIN_SCHEDULES=1000000 cargo test -p coxswain-manager --release --test shuttle` runs as
//! many schedules of each kind; the default is few enough for every day.

#[path = "../../src"]
mod library {
    #[allow(
        dead_code,
        unused_imports,
        reason = "the library's modules, of which this needs a part"
    )]
    pub(crate) mod queue;
}

mod env;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coxswain_manager::backoff;
use shuttle::future::{block_on, spawn, yield_now};

use env::Env;
use library::queue::{Exponential, Item, Priority, Queue};

/// Runs a model under random schedules, and under those that need at most three switches at the wrong moment.
fn explore(model: impl Fn() + Send + Sync + Copy + 'static) {
    let schedules = std::env::var("COXSWAIN_SCHEDULES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(2000);
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules, 3);
}

/// An even and an odd number are of two namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Number(u32);

impl Item for Number {
    fn namespace(&self) -> &'static str {
        if self.0.is_multiple_of(2) { "even" } else { "odd" }
    }
}

fn new_queue(env: &Env) -> Queue<Number> {
    Queue::unnamed(
        env,
        Exponential::new(Duration::from_millis(5), Duration::from_secs(1)),
    )
}

/// Who has which item, and how often it was seen since its last add.
#[derive(Default)]
struct Floor([AtomicUsize; 3]);

impl Floor {
    async fn work(&self, queue: &Queue<Number>, item: Number) {
        let here = &self.0[item.0 as usize];
        assert_eq!(
            here.fetch_add(1, Ordering::SeqCst),
            0,
            "{item:?} is in two workers"
        );
        yield_now().await;
        here.fetch_sub(1, Ordering::SeqCst);
        queue.done(&item);
    }
}

/// Producers change a version and then add; the last version must be seen by a worker after the last add.
#[test]
fn no_add_is_lost_and_no_item_is_in_two_workers() {
    explore(|| {
        block_on(async {
            let env = Env::new();
            let queue = new_queue(&env);
            let floor = Arc::new(Floor::default());
            let versions: Arc<[AtomicUsize; 3]> = Arc::default();
            let seen: Arc<[AtomicUsize; 3]> = Arc::default();
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let (queue, floor) = (queue.clone(), Arc::clone(&floor));
                    let (versions, seen) = (Arc::clone(&versions), Arc::clone(&seen));
                    spawn(async move {
                        while let Some(item) = queue.get().await {
                            let version = versions[item.0 as usize].load(Ordering::SeqCst);
                            seen[item.0 as usize].fetch_max(version, Ordering::SeqCst);
                            floor.work(&queue, item).await;
                        }
                    })
                })
                .collect();
            let producers: Vec<_> = (0..2)
                .map(|producer| {
                    let (queue, versions) = (queue.clone(), Arc::clone(&versions));
                    spawn(async move {
                        for n in 0..4 {
                            let item = (producer + n) % 3;
                            versions[item as usize].fetch_add(1, Ordering::SeqCst);
                            let low = (producer + n) % 2 == 0;
                            let priority = if low { Priority::Low } else { Priority::Normal };
                            queue.add_with_priority(Number(item), priority);
                            yield_now().await;
                        }
                    })
                })
                .collect();
            for producer in producers {
                producer.await.expect("a producer");
            }
            queue.shut_down();
            for worker in workers {
                worker.await.expect("a worker");
            }
            for (version, seen) in versions.iter().zip(seen.iter()) {
                assert_eq!(
                    version.load(Ordering::SeqCst),
                    seen.load(Ordering::SeqCst),
                    "an add was lost"
                );
            }
        });
    });
}

/// As many items as workers, each of which keeps its item: all must be handed out, or a wake-up was lost. Deadlocks if so.
#[test]
fn every_item_wakes_a_worker_also_when_others_give_up() {
    explore(|| {
        block_on(async {
            let env = Env::new();
            let queue = new_queue(&env);
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let queue = queue.clone();
                    spawn(async move { queue.get().await })
                })
                .collect();
            let quitter = {
                let queue = queue.clone();
                spawn(async move { queue.get().await.expect("not shut down") })
            };
            let producers: Vec<_> = (0..2)
                .map(|item| {
                    let queue = queue.clone();
                    spawn(async move { queue.add(Number(item)) })
                })
                .collect();
            for producer in producers {
                producer.await.expect("a producer");
            }
            quitter.abort();
            if let Ok(item) = quitter.await {
                // It was quicker than the one who aborted it: someone else needs an item.
                assert!(item < Number(2));
                queue.add(Number(2));
            }
            let mut got = Vec::new();
            for worker in workers {
                got.extend(worker.await.expect("a worker"));
            }
            got.sort_unstable();
            got.dedup();
            assert_eq!(got.len(), 2);
        });
    });
}

/// Delayed items come, not early, and one that is due in process waits; the task that moves them ends.
#[test]
fn what_falls_due_is_handed_out_once_and_not_early() {
    explore(|| {
        block_on(async {
            let env = Env::new();
            let queue = new_queue(&env);
            let floor = Arc::new(Floor::default());
            let start = env.clock.now();
            let runs = Arc::new(AtomicUsize::new(0));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let (queue, floor) = (queue.clone(), Arc::clone(&floor));
                    let (clock, runs) = (env.clock.clone(), Arc::clone(&runs));
                    spawn(async move {
                        while let Some(item) = queue.get().await {
                            let due = Duration::from_millis(10 * u64::from(item.0));
                            assert!(clock.now() >= start + due, "{item:?} is early");
                            floor.work(&queue, item).await;
                            if runs.fetch_add(1, Ordering::SeqCst) == 2 {
                                queue.shut_down();
                            }
                        }
                    })
                })
                .collect();
            let producers: Vec<_> = [(2, 20), (1, 10), (1, 30), (0, 0)]
                .map(|(item, millis)| {
                    let queue = queue.clone();
                    spawn(async move { queue.add_after(Number(item), Duration::from_millis(millis)) })
                })
                .into();
            for producer in producers {
                producer.await.expect("a producer");
            }
            for worker in workers {
                worker.await.expect("a worker");
            }
            assert!(runs.load(Ordering::SeqCst) >= 3);
            env.tasks.join().await;
        });
    });
}

/// A drain is over when nothing is in process; and the workers end.
#[test]
fn draining_waits_and_ends() {
    explore(|| {
        block_on(async {
            let env = Env::new();
            let queue = new_queue(&env);
            let in_process = Arc::new(AtomicUsize::new(0));
            queue.add(Number(0));
            queue.add(Number(1));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let (queue, in_process) = (queue.clone(), Arc::clone(&in_process));
                    spawn(async move {
                        while let Some(item) = queue.get().await {
                            in_process.fetch_add(1, Ordering::SeqCst);
                            queue.add(item); // once or twice more, until the shutdown
                            yield_now().await;
                            in_process.fetch_sub(1, Ordering::SeqCst);
                            queue.done(&item);
                        }
                    })
                })
                .collect();
            queue.shut_down_with_drain().await;
            for worker in workers {
                worker.await.expect("a worker");
            }
            assert_eq!(in_process.load(Ordering::SeqCst), 0);
            assert!(queue.is_empty());
        });
    });
}
