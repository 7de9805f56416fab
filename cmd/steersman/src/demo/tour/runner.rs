//! Runs one step at a time: prints the expected result, waits for it, and prints the observed one.

use std::io::{self, Write as _};

use steersman_manager::client::Client;
use steersman_manager::env::Clock;

use super::TourError;
use super::managers::{Managers, POLL_INTERVAL, STEP_TIMEOUT};
use crate::demo::snapshot::Snapshot;

/// Minimum number of checks before a step times out: a suspended machine waits without checking.
const MIN_CHECKS: usize = 100;

/// The outcome of one check, with the observed state.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The expected result.
    Done(String),
    /// The expected result may still follow.
    Pending(String),
    /// A state that must never occur.
    Failed(String),
}

/// Prints a line. A closed pipe is ignored: the exit code reports the result too.
pub(super) fn print(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

pub(super) struct Runner {
    pub(super) client: Client,
    clock: Clock,
    step: usize,
}

impl Runner {
    pub(super) fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            step: 0,
        }
    }

    /// Runs `act`, then checks snapshots of the application until the expected result is observed.
    pub(super) async fn step(
        &mut self,
        title: &str,
        expected: &str,
        act: impl Future<Output = Result<(), TourError>>,
        mut check: impl FnMut(&Snapshot) -> Outcome,
    ) -> Result<(), TourError> {
        let client = self.client.clone();
        let check = async || Ok(check(&Snapshot::read(&client).await?));
        self.run(title, expected, act, check).await
    }

    /// Runs `act`, then waits until another manager than `former` is the leader.
    pub(super) async fn leader_changes(
        &mut self,
        title: &str,
        expected: &str,
        former: &str,
        act: impl Future<Output = Result<(), TourError>>,
    ) -> Result<(), TourError> {
        let client = self.client.clone();
        let check = async || {
            let leader = Managers::lease_holder(&client).await?;
            Ok(match leader.as_str() {
                "" => Outcome::Pending("there is no leader".to_owned()),
                leader if leader == former => {
                    Outcome::Pending("the former leader holds the lease".to_owned())
                }
                _ => Outcome::Done("the other manager is the leader".to_owned()),
            })
        };
        self.run(title, expected, act, check).await
    }

    async fn run(
        &mut self,
        title: &str,
        expected: &str,
        act: impl Future<Output = Result<(), TourError>>,
        mut check: impl AsyncFnMut() -> Result<Outcome, TourError>,
    ) -> Result<(), TourError> {
        self.step += 1;
        print(&format!("{:>2}. {title}\n    expected: {expected}", self.step));
        let start = self.clock.now();
        act.await?;
        let mut checks = 0;
        loop {
            checks += 1;
            let outcome = check().await?;
            let waited = self.clock.now().duration_since(start);
            let observed = match outcome {
                Outcome::Done(observed) => {
                    let observed = observed.replace('\n', "\n    ");
                    print(&format!(
                        "    observed: after {:.1} s, {observed}\n",
                        waited.as_secs_f64()
                    ));
                    return Ok(());
                }
                Outcome::Pending(_) if waited < STEP_TIMEOUT || checks < MIN_CHECKS => {
                    self.clock.sleep(POLL_INTERVAL).await;
                    continue;
                }
                Outcome::Pending(observed) | Outcome::Failed(observed) => observed,
            };
            return Err(TourError::Step {
                step: self.step,
                expected: expected.to_owned(),
                waited: waited.as_secs_f64(),
                observed,
            });
        }
    }
}
