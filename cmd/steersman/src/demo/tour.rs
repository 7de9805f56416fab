//! `steersman tour`: shows the controllers at work, in a minute, on an API server in this process.
//!
//! [`Managers`] runs two managers on that server, [`Runner`] prints and checks one step at a time, and [`steps`] is the
//! script. The tour fails at the first step whose expected result is not observed within [`managers::STEP_TIMEOUT`].

mod managers;
mod runner;
mod steps;

use std::io;

use steersman_config::Known;
use steersman_manager::client::ClientError;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::manager::RunError;

use super::sandbox::SandboxError;
use super::snapshot::ReadError;
use managers::Managers;
use runner::{Runner, print};

#[derive(Debug, thiserror::Error)]
pub(crate) enum TourError {
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    #[error("invalid flags for the managers of the tour: {0}")]
    Flags(#[from] steersman_config::Error),
    #[error("cannot start the API server of the tour: {0}")]
    Sandbox(#[from] SandboxError),
    #[error("cannot start a manager of the tour: {0}")]
    Manager(#[from] RunError),
    #[error("a request to the API server of the tour failed: {0}")]
    Client(#[from] ClientError),
    #[error("cannot read the objects of the tour: {0}")]
    Read(#[from] ReadError),
    #[error("step {step} failed after {waited:.1} s: expected {expected}; observed: {observed}")]
    Step {
        step: usize,
        expected: String,
        waited: f64,
        observed: String,
    },
    #[error("no manager of the tour is the leader")]
    NoLeader,
}

pub(crate) async fn run(known: &Known) -> Result<(), TourError> {
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    print(
        "The lifecycle of an application, on an API server in this process, with two managers of which one is the leader. \
         No cluster is touched.\n",
    );
    let mut managers = Managers::start(&env, known).await?;
    let mut runner = Runner::new(managers.client(), env.clock.clone());
    steps::run(&mut runner, &mut managers).await?;
    print("All steps succeeded. To explore on your own: steersman --sandbox");
    Ok(())
}
