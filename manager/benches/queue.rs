//! Prints what an item costs: `cargo bench -p steersman-manager --bench queue`.
//!
//! One add, get and done, in one thread without contention, on a queue that is measured (except where it says so). The
//! best and the median of many short batches: on a machine that does other things too, the best is what the code costs.
//! Compare two versions on one machine, not two machines; the first line says what this one asks for reading its clock.

use std::time::Instant;

use steersman_manager::env::{Env, Rng, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_manager::queue::{Item, Priority, Queue, default_limiter};

const BATCHES: usize = 400;
const ROUNDS: usize = 5_000;
const BACKLOG: usize = 100_000;

fn main() {
    // `cargo test --benches` only wants to know that it builds and runs.
    let scale = if std::env::args().any(|a| a == "--bench") {
        1
    } else {
        100
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let batches = BATCHES / scale;
        let numbers = Bench {
            batches,
            keys: (0..2 * BACKLOG / scale).collect(),
        };
        let names = Bench {
            batches,
            keys: names(2 * BACKLOG / scale),
        };
        let tasks = TaskSet::new();
        let env = Env::system(&tasks);
        let (clock, registry) = (env.clock.clone(), Registry::new("test"));
        let (normal, low) = (Priority::Normal, Priority::Low);

        numbers.run("reading the clock once", |_| {
            std::hint::black_box(clock.now());
        });
        numbers.queue(
            "add+get+done of a number",
            &named(&env, "a", &registry),
            normal,
            0,
        );
        names.queue("add+get+done of a name", &named(&env, "b", &registry), normal, 0);
        names.queue("  of low priority", &named(&env, "c", &registry), low, 0);
        let backlog = BACKLOG / scale;
        names.queue(
            "  with 100,000 queued, in order",
            &named(&env, "d", &registry),
            normal,
            backlog,
        );
        let shuffled = Bench {
            batches,
            keys: shuffled(names.keys.clone()),
        };
        shuffled.queue(
            "  with 100,000 queued, in no order",
            &named(&env, "e", &registry),
            normal,
            backlog,
        );
        names.queue(
            "  not measured",
            &Queue::unnamed(&env, default_limiter()),
            normal,
            0,
        );
    });
}

fn named<K: Item>(env: &Env, name: &str, registry: &Registry) -> Queue<K> {
    Queue::named(env, name, registry, default_limiter()).expect("a queue")
}

struct Bench<K> {
    batches: usize,
    keys: Vec<K>,
}

impl<K: Item> Bench<K> {
    fn queue(&self, what: &str, queue: &Queue<K>, priority: Priority, backlog: usize) {
        // Twice as many as are queued, so that what is added is not queued already. Few without a backlog: the cost of the
        // queue, not that of the memory of its keys.
        let keys = &self.keys[..(2 * backlog).clamp(1000.min(self.keys.len()), self.keys.len())];
        for key in &keys[..backlog] {
            queue.add_with_priority(key.clone(), priority);
        }
        self.run(what, |round| {
            queue.add_with_priority(keys[(backlog + round) % keys.len()].clone(), priority);
            let key = ready(queue.get()).expect("an item");
            queue.done(&key);
        });
    }

    fn run(&self, what: &str, mut round: impl FnMut(usize)) {
        let mut batches: Vec<u128> = (0..self.batches)
            .map(|batch| {
                let started = now();
                (0..ROUNDS).for_each(|n| round(batch * ROUNDS + n));
                started.elapsed().as_nanos() / ROUNDS as u128
            })
            .collect();
        batches.sort_unstable();
        println!(
            "{what:<36} best {:>5} ns, median {:>5} ns",
            batches[0],
            batches[batches.len() / 2]
        );
    }
}

fn names(count: usize) -> Vec<Key> {
    (0..count)
        .map(|n| Key::new(format!("namespace-{}", n % 100), format!("web-7d4b9c6f5-{n:06}")))
        .collect()
}

/// In an order that the names do not tell, the same in every run.
fn shuffled(mut keys: Vec<Key>) -> Vec<Key> {
    let rng = Rng::from_seed(0);
    for n in (1..keys.len()).rev() {
        let other = usize::try_from(rng.below(n as u64 + 1)).unwrap_or(n);
        keys.swap(n, other);
    }
    keys
}

/// The output of a future that need not wait.
fn ready<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => None,
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark is about real time")]
fn now() -> Instant {
    Instant::now()
}
