//! Prints what an item costs: `cargo bench -p coxswain-manager`.
//!
//! One add, get and done, in one thread without contention, on a queue that is measured (except where it says so). The
//! best and the median of many short batches: on a machine that does other things too, the best is what the code costs.
//! Compare two versions on one machine, not two machines; the first line says what this one asks for reading its clock.

use std::sync::Arc;
use std::time::Instant;

use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::queue::{Priority, Queue, default_limiter};
use prometheus::Registry;

const BATCHES: usize = 400;
const ROUNDS: usize = 5_000;
const BACKLOG: usize = 100_000;

/// As a controller would have it: namespace and name, cheap to clone.
type Key = (Arc<str>, Arc<str>);

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
        let bench = Bench {
            batches: BATCHES / scale,
            keys: keys(2 * BACKLOG / scale),
        };
        let tasks = TaskSet::new();
        let env = Env::system(&tasks);
        let (clock, registry) = (env.clock.clone(), Registry::new());
        let named = |name| Queue::named(&env, name, &registry, default_limiter()).expect("a queue");

        bench.run("reading the clock once", |_| {
            std::hint::black_box(clock.now());
        });
        bench.queue("add+get+done", &named("a"), Priority::Normal, 0);
        bench.queue("add+get+done, low priority", &named("b"), Priority::Low, 0);
        bench.queue(
            "add+get+done, 100,000 queued",
            &named("c"),
            Priority::Normal,
            BACKLOG / scale,
        );
        let unnamed = Queue::unnamed(&env, default_limiter());
        bench.queue("add+get+done, not measured", &unnamed, Priority::Normal, 0);
    });
}

struct Bench {
    batches: usize,
    keys: Vec<Key>,
}

impl Bench {
    fn queue(&self, what: &str, queue: &Queue<Key>, priority: Priority, backlog: usize) {
        for key in &self.keys[..backlog] {
            queue.add_with(key.clone(), priority);
        }
        self.run(what, |round| {
            queue.add_with(self.keys[(backlog + round) % self.keys.len()].clone(), priority);
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
            "{what:<32} best {:>5} ns, median {:>5} ns",
            batches[0],
            batches[batches.len() / 2]
        );
    }
}

fn keys(count: usize) -> Vec<Key> {
    let namespaces: Vec<Arc<str>> = (0..100).map(|n| format!("namespace-{n}").into()).collect();
    (0..count)
        .map(|n| {
            (
                Arc::clone(&namespaces[n % 100]),
                format!("web-7d4b9c6f5-{n:06}").into(),
            )
        })
        .collect()
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
