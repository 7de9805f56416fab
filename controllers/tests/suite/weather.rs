//! What all storms have in common: seeds, trouble, and what could be known when.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use coxswain_manager::cache::Caches;
use coxswain_manager::client::Fence;
use coxswain_manager::controller::Runnable;
use coxswain_manager::env::{Env, Rng, TaskSet};
use coxswain_tests::seeds;
use http::Method;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::door::Answer;
use crate::ground::Ground;

/// Runs a storm with each of its seeds; returns the number of seeds and the sum of the audited writes. Each seed has a runtime
/// of its own: timers are rounded relative to the start of the runtime, and a seed must do the same when it is replayed alone.
/// All seeds are run before the test fails, so that one run names every seed that fails.
pub fn seeds<T: AddAssign + Default>(
    count: u64,
    storm: impl AsyncFn(u64) -> Result<T, String>,
) -> (usize, T) {
    let (mut run, mut audited, mut failed) = (0, T::default(), Vec::new());
    for seed in seeds::of(count) {
        run += 1;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        match runtime.block_on(storm(seed)) {
            Ok(more) => audited += more,
            Err(error) => {
                println!("seed {seed} failed");
                failed.push(format!(
                    "seed {seed}: {error}\nreplay it with: {}",
                    seeds::replay(seed)
                ));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {run} seeds failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    (run, audited)
}

/// What may become of a request that goes wrong.
pub fn trouble(chance: &Rng, method: &Method) -> Answer {
    let refused = |code, reason: &str| Answer::Refused(code, json!({"reason": reason, "message": "no"}));
    match chance.below(if *method == Method::GET { 3 } else { 10 }) {
        0 => Answer::Broken,
        1 => refused(500, "InternalError"),
        2 => refused(429, "TooManyRequests"),
        3 => refused(409, "Conflict"),
        4 if *method == Method::POST => refused(409, "AlreadyExists"),
        5 if *method == Method::POST => Answer::Late,
        6 => Answer::Hung,
        _ => Answer::Lost,
    }
}

/// How long nothing happens.
pub fn pause(chance: &Rng) -> Duration {
    Duration::from_millis(match chance.below(3) {
        0 => chance.below(20),
        1 => chance.below(2000),
        _ => chance.below(20_000),
    })
}

/// The environment of a new process, and its life.
pub fn process(ground: &Ground) -> (Env, TaskSet) {
    ground.door.cut();
    let tasks = TaskSet::new();
    let env = Env {
        tasks: tasks.handle(),
        ..ground.env.clone()
    };
    (env, tasks)
}

/// Begins as its manager would: with caches that have seen what the process before has written.
pub fn begin(env: &Env, caches: Caches, controller: impl Runnable + 'static) {
    let fence = Fence::new(env.clock.clone());
    let run = async move {
        let _ = caches.catch_up(&BTreeMap::new()).await;
        let term = fence.open_for_ever();
        controller.run(&fence, term, CancellationToken::new()).await
    };
    drop(env.tasks.spawn(run));
}

/// What an answer is; none if it never comes, which is told at once: what is to be done has been done then.
pub async fn at_once<T>(answer: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        answer = answer => Some(answer),
        () = tokio::task::yield_now() => None,
    }
}

/// Whether nothing is asked for once all that was not answered is given up, which takes so long.
pub async fn is_over(ground: &Ground) -> Result<(), String> {
    ground.door.reset();
    ground.sleep(Duration::from_mins(10)).await;
    let counts = ground.door.counts();
    if counts.is_empty() {
        Ok(())
    } else {
        Err(format!("it is at rest, and asks: {counts:?}"))
    }
}

/// What was asked for since when, and when that could not be seen.
pub struct Asked<T> {
    wants: Vec<(Instant, T)>,
    /// From, to.
    held: Vec<(Instant, Option<Instant>)>,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self {
            wants: Vec::new(),
            held: Vec::new(),
        }
    }
}

impl<T: Copy> Asked<T> {
    pub fn push(&mut self, now: Instant, want: T) {
        self.wants.push((now, want));
    }

    pub fn hold(&mut self, now: Instant, held: bool) {
        match self.held.last_mut() {
            Some((_, to @ None)) if !held => *to = Some(now),
            Some((_, None)) => {}
            _ if held => self.held.push((now, None)),
            _ => {}
        }
    }

    /// All that a request which arrives now may have been made for, if it was begun at most `sync` ago.
    pub fn within(&self, now: Instant, sync: Duration) -> impl Iterator<Item = T> {
        let mut from = now.checked_sub(sync).unwrap_or(now);
        for (begin, end) in self.held.iter().rev() {
            if end.is_none_or(|end| end >= from) {
                from = from.min(*begin);
            }
        }
        let before = self.wants.iter().rev().find(move |(at, _)| *at <= from);
        let since = self.wants.iter().filter(move |(at, _)| *at > from);
        before.into_iter().chain(since).map(|(_, want)| *want)
    }
}
