//! Shared parts of the randomized tests: seeds, random faults, and the desired states that a write may be based on.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use http::Method;
use serde_json::json;
use steersman_harness::seeds;
use steersman_manager::cache::Caches;
use steersman_manager::client::Fence;
use steersman_manager::controller::Runnable;
use steersman_manager::env::{Env, Rng, TaskSet};
use steersman_sandbox::faults::Effect;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fault_injector::{FaultInjector, status_reply};
use crate::fixture::ApiFixture;

/// Runs a test with each of its seeds; returns the number of seeds and the sum of the audited writes. Each seed has a runtime
/// of its own: timers are rounded relative to the start of the runtime, and a seed must do the same when it is replayed alone.
/// All seeds run before the test fails, so that one run names every failing seed.
pub fn run_seeds<T: AddAssign + Default>(
    count: u64,
    test: impl AsyncFn(u64) -> Result<T, String>,
) -> (usize, T) {
    let (mut run, mut audited, mut failed) = (0, T::default(), Vec::new());
    for seed in seeds::of(count) {
        run += 1;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        match runtime.block_on(test(seed)) {
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

pub fn random_fault(api: &FaultInjector, rng: &Rng, method: &Method) -> Effect {
    let status = |code, reason: &str| status_reply(code, json!({"reason": reason, "message": "injected"}));
    match rng.below(if *method == Method::GET { 3 } else { 10 }) {
        0 => Effect::LoseRequest,
        1 => status(500, "InternalError"),
        2 => status(429, "TooManyRequests"),
        3 => status(409, "Conflict"),
        4 if *method == Method::POST => status(409, "AlreadyExists"),
        5 if *method == Method::POST => api.delay_until_post(),
        6 => Effect::HangAnswer,
        _ => Effect::LoseAnswer,
    }
}

pub fn random_pause(rng: &Rng) -> Duration {
    Duration::from_millis(match rng.below(3) {
        0 => rng.below(20),
        1 => rng.below(2000),
        _ => rng.below(20_000),
    })
}

/// Returns the environment of a new process. Dropping the task set is a crash.
pub fn new_process(fixture: &ApiFixture) -> (Env, TaskSet) {
    fixture.api.drop_delayed();
    let tasks = TaskSet::new();
    let env = Env {
        tasks: tasks.handle(),
        ..fixture.env.clone()
    };
    (env, tasks)
}

/// Runs a controller as a manager does: after its caches have caught up with the writes of the previous process.
pub fn run_controller(env: &Env, caches: Caches, controller: impl Runnable + 'static) {
    let fence = Fence::new(env.clock.clone());
    let run = async move {
        let _ = caches.catch_up(&BTreeMap::new()).await;
        let term = fence.open_forever();
        controller.run(&fence, term, CancellationToken::new()).await
    };
    drop(env.tasks.spawn(run));
}

/// Checks that the controller sends no requests for ten minutes, the longest that a hanging request takes to time out.
pub async fn check_idle(fixture: &ApiFixture) -> Result<(), String> {
    fixture.api.reset();
    fixture.sleep(Duration::from_mins(10)).await;
    let counts = fixture.api.counts();
    if counts.is_empty() {
        Ok(())
    } else {
        Err(format!("requests without a change: {counts:?}"))
    }
}

/// The desired states over time, and the times in which the controller's view lagged.
pub struct DesiredStates<T> {
    states: Vec<(Instant, T)>,
    /// Start and end.
    lagged: Vec<(Instant, Option<Instant>)>,
}

impl<T> Default for DesiredStates<T> {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            lagged: Vec::new(),
        }
    }
}

impl<T: Copy> DesiredStates<T> {
    pub fn push(&mut self, now: Instant, state: T) {
        self.states.push((now, state));
    }

    pub fn set_lagging(&mut self, now: Instant, lagging: bool) {
        match self.lagged.last_mut() {
            Some((_, to @ None)) if !lagging => *to = Some(now),
            Some((_, None)) => {}
            _ if lagging => self.lagged.push((now, None)),
            _ => {}
        }
    }

    /// Returns the states that a request which arrives now may be based on, if its sync started at most `sync` ago.
    pub fn within(&self, now: Instant, sync: Duration) -> impl Iterator<Item = T> {
        let mut from = now.checked_sub(sync).unwrap_or(now);
        for (begin, end) in self.lagged.iter().rev() {
            if end.is_none_or(|end| end >= from) {
                from = from.min(*begin);
            }
        }
        let before = self.states.iter().rev().find(move |(at, _)| *at <= from);
        let since = self.states.iter().filter(move |(at, _)| *at > from);
        before.into_iter().chain(since).map(|(_, state)| *state)
    }
}
