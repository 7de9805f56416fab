//! The queue's own sources with shuttle's mutex and tasks and a simulated clock, under many schedules.
//!
//! Shuttle switches tasks at every lock, unlock and await. The internals of tokio's `Notify` are not modelled; tokio tests
//! them with loom. `STEERSMAN_SCHEDULES=1000000 cargo test -p steersman-manager --release --test shuttle` runs that many
//! schedules of each kind; the default is small.

#[path = "../../src"]
mod library {
    #[allow(dead_code, unused_imports, reason = "only a part of the library is used")]
    pub(crate) mod queue;
}

mod env;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::future::{block_on, spawn, yield_now};
use steersman_manager::{backoff, metrics};

use env::Env;
use library::queue::{Exponential, Item, Priority, Queue};

/// Runs a model under random schedules, and under schedules with at most three preemptions.
fn explore(model: impl Fn() + Send + Sync + Copy + 'static) {
    let schedules = std::env::var("STEERSMAN_SCHEDULES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(2000);
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules, 3);
}

/// Even and odd numbers belong to different namespaces.
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

/// Asserts that no item is processing twice at once.
#[derive(Default)]
struct Exclusion([AtomicUsize; 3]);

impl Exclusion {
    async fn process(&self, queue: &Queue<Number>, item: Number) {
        let count = &self.0[item.0 as usize];
        assert_eq!(
            count.fetch_add(1, Ordering::SeqCst),
            0,
            "{item:?} is processing twice"
        );
        yield_now().await;
        count.fetch_sub(1, Ordering::SeqCst);
        queue.done(&item);
    }
}

/// Producers change a version and then add; a worker must see the last version after the last add.
#[test]
fn no_add_is_lost_and_no_item_is_processing_twice() {
    explore(|| {
        block_on(async {
            let env = Env::new();
            let queue = new_queue(&env);
            let exclusion = Arc::new(Exclusion::default());
            let versions: Arc<[AtomicUsize; 3]> = Arc::default();
            let seen: Arc<[AtomicUsize; 3]> = Arc::default();
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let (queue, exclusion) = (queue.clone(), Arc::clone(&exclusion));
                    let (versions, seen) = (Arc::clone(&versions), Arc::clone(&seen));
                    spawn(async move {
                        while let Some(item) = queue.get().await {
                            let version = versions[item.0 as usize].load(Ordering::SeqCst);
                            seen[item.0 as usize].fetch_max(version, Ordering::SeqCst);
                            exclusion.process(&queue, item).await;
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

/// As many items as workers, which all keep their items. A lost wake-up would deadlock.
#[test]
fn every_item_wakes_a_worker_even_if_others_are_cancelled() {
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
            let cancelled = {
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
            cancelled.abort();
            if let Ok(item) = cancelled.await {
                // It got an item before it was aborted: the workers need another one.
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

/// Delayed items are handed out, never early; a delayed item that is processing waits; the task of the queue ends.
#[test]
fn delayed_items_are_handed_out_once_and_never_early() {
    explore(|| {
        block_on(async {
            let env = Env::new();
            let queue = new_queue(&env);
            let exclusion = Arc::new(Exclusion::default());
            let start = env.clock.now();
            let runs = Arc::new(AtomicUsize::new(0));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let (queue, exclusion) = (queue.clone(), Arc::clone(&exclusion));
                    let (clock, runs) = (env.clock.clone(), Arc::clone(&runs));
                    spawn(async move {
                        while let Some(item) = queue.get().await {
                            let due = Duration::from_millis(10 * u64::from(item.0));
                            assert!(clock.now() >= start + due, "{item:?} is early");
                            exclusion.process(&queue, item).await;
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

/// A drain ends when no item is processing, and the workers end.
#[test]
fn drain_waits_for_processing_items() {
    explore(|| {
        block_on(async {
            let env = Env::new();
            let queue = new_queue(&env);
            let processing = Arc::new(AtomicUsize::new(0));
            queue.add(Number(0));
            queue.add(Number(1));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let (queue, processing) = (queue.clone(), Arc::clone(&processing));
                    spawn(async move {
                        while let Some(item) = queue.get().await {
                            processing.fetch_add(1, Ordering::SeqCst);
                            queue.add(item); // again, until the shutdown
                            yield_now().await;
                            processing.fetch_sub(1, Ordering::SeqCst);
                            queue.done(&item);
                        }
                    })
                })
                .collect();
            queue.shut_down_with_drain().await;
            for worker in workers {
                worker.await.expect("a worker");
            }
            assert_eq!(processing.load(Ordering::SeqCst), 0);
            assert!(queue.is_empty());
        });
    });
}
