//! Comparison with a simple model of lists.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::{Polled, env, getter, ms, settle};
use steersman_manager::queue::{Bucket, Exponential, Item, LOW_PRIORITY_INTERVAL, MaxOf, Priority, Queue};

const BASE: u64 = 5;
const MAX: u64 = 40;
const INTERVAL: u64 = 10;
const BURST: u64 = 4;

/// Three items of namespace "a", two of "b", one without a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Numbered(u32);

impl Item for Numbered {
    fn namespace(&self) -> &'static str {
        NAMESPACES[self.0 as usize]
    }
}

const NAMESPACES: [&str; 6] = ["a", "a", "a", "b", "b", ""];

#[derive(Clone, Copy, Debug)]
enum Op {
    Add(u32, Priority),
    AddAfter(u32, u64),
    AddRateLimited(u32),
    Forget(u32),
    /// An idle worker waits for an item.
    Get,
    /// A waiting worker is cancelled.
    Cancel(usize),
    /// A worker finishes its item.
    Done(usize),
    /// Done for an item that may not be processing.
    DoneOf(u32),
    Advance(u64),
    ShutDown,
}

fn op() -> impl Strategy<Value = Op> {
    let item = 0..6_u32;
    let priority = prop_oneof![Just(Priority::Low), Just(Priority::Normal)];
    prop_oneof![
        6 => (item.clone(), priority).prop_map(|(item, priority)| Op::Add(item, priority)),
        3 => (item.clone(), 0..50_u64).prop_map(|(item, after)| Op::AddAfter(item, after)),
        4 => item.clone().prop_map(Op::AddRateLimited),
        1 => item.clone().prop_map(Op::Forget),
        8 => Just(Op::Get),
        1 => any::<usize>().prop_map(Op::Cancel),
        6 => any::<usize>().prop_map(Op::Done),
        1 => item.prop_map(Op::DoneOf),
        4 => (1..60_u64).prop_map(Op::Advance),
        // Rare, because little happens afterwards.
        1 => prop_oneof![9 => Just(Op::Advance(1)), 1 => Just(Op::ShutDown)],
    ]
}

/// Times are milliseconds since the start.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    /// The queued items, in order of arrival.
    ready: VecDeque<(u32, Priority)>,
    /// The namespaces with queued items of each priority, the next one first.
    rotation: [VecDeque<&'static str>; 2],
    /// The processing items with their priority, and the priority of an add while processing.
    processing: Vec<(u32, Priority, Option<Priority>)>,
    /// The delayed items: due time, item, priority; in order of arrival.
    delayed: Vec<(u64, u32, Priority)>,
    /// Failures and the end of the backoff, by item.
    failures: [u32; 6],
    windows: [u64; 6],
    /// The refill time of each used token.
    tokens: VecDeque<u64>,
    since_low: u32,
    down: bool,
}

impl Model {
    fn add(&mut self, item: u32, priority: Priority) {
        if self.down {
            return;
        }
        if let Some((_, _, again)) = self.processing.iter_mut().find(|r| r.0 == item) {
            *again = (*again).max(Some(priority));
        } else if let Some(at) = self.ready.iter().position(|r| r.0 == item) {
            if priority > self.ready[at].1 {
                self.take(at);
                self.push(item, priority);
            }
        } else {
            self.push(item, priority);
        }
    }

    fn push(&mut self, item: u32, priority: Priority) {
        let (namespace, rotation) = (NAMESPACES[item as usize], &mut self.rotation[priority as usize]);
        if !rotation.contains(&namespace) {
            rotation.push_back(namespace);
        }
        self.ready.push_back((item, priority));
    }

    /// Removes a queued item. The last item removes its namespace from the rotation.
    fn take(&mut self, at: usize) -> (u32, Priority) {
        let (item, priority) = self.ready.remove(at).expect("a ready item");
        let namespace = NAMESPACES[item as usize];
        if self.first(namespace, priority).is_none() {
            self.rotation[priority as usize].retain(|it| *it != namespace);
        }
        (item, priority)
    }

    /// Returns the first queued item of a namespace.
    fn first(&self, namespace: &str, priority: Priority) -> Option<usize> {
        let matches = |it: &(u32, Priority)| NAMESPACES[it.0 as usize] == namespace && it.1 == priority;
        self.ready.iter().position(matches)
    }

    fn add_after(&mut self, item: u32, after: u64) {
        if self.down {
            return;
        }
        let priority = self
            .processing
            .iter()
            .find(|r| r.0 == item)
            .map_or(Priority::Normal, |r| r.1);
        if after == 0 {
            return self.add(item, priority);
        }
        let mut entry = (self.now + after, item, priority);
        if let Some(at) = self.delayed.iter().position(|w| w.1 == item) {
            entry.2 = priority.max(self.delayed[at].2);
            if entry.0 >= self.delayed[at].0 {
                self.delayed[at].2 = entry.2;
                return;
            }
            self.delayed.remove(at);
        }
        self.delayed.push(entry);
    }

    fn add_rate_limited(&mut self, item: u32) {
        let i = item as usize;
        if self.windows[i] <= self.now {
            let backoff = (BASE << self.failures[i].min(20)).min(MAX);
            self.failures[i] += 1;
            self.windows[i] = self.now + backoff.max(self.token());
        }
        self.add_after(item, self.windows[i] - self.now);
    }

    /// Returns the delay until a token is available: tokens are refilled one per interval.
    fn token(&mut self) -> u64 {
        while self.tokens.front().is_some_and(|back| *back <= self.now) {
            self.tokens.pop_front();
        }
        let last = self.tokens.back().copied().unwrap_or(self.now);
        self.tokens.push_back(last + INTERVAL);
        let missing = last + INTERVAL - self.now;
        missing.saturating_sub(BURST * INTERVAL)
    }

    fn get(&mut self) -> Option<u32> {
        let next = |priority| {
            let namespace = self.rotation[priority as usize].front()?;
            self.first(namespace, priority)
        };
        let (normal, low) = (next(Priority::Normal), next(Priority::Low));
        let at = match (normal, low) {
            (Some(_), Some(low)) if self.since_low + 1 == LOW_PRIORITY_INTERVAL => low,
            (Some(normal), _) => normal,
            (None, low) => low?,
        };
        let (item, priority) = self.take(at);
        let rotation = &mut self.rotation[priority as usize];
        if rotation.front() == Some(&NAMESPACES[item as usize]) {
            rotation.rotate_left(1);
        }
        self.since_low = if priority == Priority::Low || low.is_none() {
            0
        } else {
            self.since_low + 1
        };
        self.processing.push((item, priority, None));
        Some(item)
    }

    fn done(&mut self, item: u32) {
        if let Some(at) = self.processing.iter().position(|r| r.0 == item)
            && let (_, _, Some(priority)) = self.processing.remove(at)
        {
            self.push(item, priority);
        }
    }

    fn advance(&mut self, millis: u64) {
        self.now += millis;
        // Stable, so that items with the same due time keep their order.
        self.delayed.sort_by_key(|w| w.0);
        while self.delayed.first().is_some_and(|w| w.0 <= self.now) {
            let (_, item, priority) = self.delayed.remove(0);
            self.add(item, priority);
        }
    }
}

async fn check(workers: usize, ops: Vec<Op>) {
    let (env, _tasks) = env();
    let queue = Queue::unnamed(
        &env,
        MaxOf::new(vec![
            Box::new(Exponential::new(ms(BASE), ms(MAX))),
            Box::new(Bucket::new(ms(INTERVAL), u32::try_from(BURST).unwrap_or(0))),
        ]),
    );
    let mut model = Model::default();
    let mut waiting: Vec<Polled<dyn Future<Output = Option<Numbered>>>> = Vec::new();
    for op in ops {
        match op {
            Op::Add(item, priority) => {
                queue.add_with_priority(Numbered(item), priority);
                model.add(item, priority);
            }
            Op::AddAfter(item, after) => {
                queue.add_after(Numbered(item), ms(after));
                model.add_after(item, after);
            }
            Op::AddRateLimited(item) => {
                queue.add_rate_limited(Numbered(item));
                model.add_rate_limited(item);
            }
            Op::Forget(item) => {
                queue.forget(&Numbered(item));
                model.failures[item as usize] = 0;
                model.windows[item as usize] = 0;
            }
            Op::Get if waiting.len() + model.processing.len() < workers => waiting.push(getter(&queue)),
            Op::Cancel(n) if !waiting.is_empty() => drop(waiting.remove(n % waiting.len())),
            Op::Done(n) if !model.processing.is_empty() => {
                let item = model.processing[n % model.processing.len()].0;
                queue.done(&Numbered(item));
                model.done(item);
            }
            Op::Get | Op::Cancel(_) | Op::Done(_) => {}
            Op::DoneOf(item) => {
                queue.done(&Numbered(item));
                model.done(item);
            }
            Op::Advance(millis) => {
                tokio::time::advance(Duration::from_millis(millis)).await;
                model.advance(millis);
            }
            Op::ShutDown => {
                queue.shut_down();
                model.down = true;
                model.delayed.clear();
            }
        }
        settle().await;
        // Poll woken workers; afterwards no worker may wait while items are queued.
        waiting.retain_mut(|worker| match worker.poll() {
            None => true,
            Some(item) => {
                let expected = model.get();
                assert_eq!(item.map(|it| it.0), expected, "after {op:?}: {model:?}");
                assert!(
                    item.is_some() || model.down,
                    "after {op:?}: end before the shutdown"
                );
                false
            }
        });
        let idle = waiting.is_empty() || (model.ready.is_empty() && !model.down);
        assert!(
            idle,
            "after {op:?}: a worker waits while items are queued: {model:?}"
        );
        assert_eq!(queue.len(), model.ready.len(), "after {op:?}: {model:?}");
        for item in 0..6 {
            assert_eq!(
                queue.num_requeues(&Numbered(item)),
                model.failures[item as usize],
                "after {op:?}: {model:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn queue_matches_the_model(workers in 1..=4_usize, ops in prop::collection::vec(op(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(check(workers, ops));
    }
}
