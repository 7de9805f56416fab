//! `coxswain tour`: what the controllers do, shown in a minute on an API server in this process.
//!
//! [`Crew`] is two managers on that server, [`Guide`] says what is expected, looks for it and says what was seen, and
//! [`steps`] are the life of an application. A step that is not seen within [`guide::PATIENCE`] ends the tour.

mod crew;
mod guide;
mod steps;

use std::io;

use coxswain_config::Known;
use coxswain_manager::client::ClientError;
use coxswain_manager::env::{Env, TaskSet};

use crate::process::ProcessError;
use crate::sandbox::SandboxError;
use crate::show::ReadError;
use crew::Crew;
use guide::{Guide, say};

/// Why the tour ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TourError {
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    #[error("the flags of the tour's managers are not understood: {0}")]
    Flags(#[from] coxswain_config::Error),
    #[error("the API server of the tour does not start: {0}")]
    Sandbox(#[from] SandboxError),
    #[error("a manager of the tour does not start: {0}")]
    Member(#[from] ProcessError),
    #[error("the API server of the tour did not take a request: {0}")]
    Client(#[from] ClientError),
    #[error("the API server of the tour was not understood: {0}")]
    Read(#[from] ReadError),
    #[error("step {step} was not seen after {waited:.1} s: expected {expected}; instead: {instead}")]
    NotSeen {
        step: usize,
        expected: String,
        waited: f64,
        instead: String,
    },
    #[error("there is no manager of the tour that leads")]
    NobodyLeads,
}

/// Shows it all.
pub(crate) async fn run(known: &[Known]) -> Result<(), TourError> {
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    say(
        "An application's life, on an API server in this process, with two managers of which one leads. Nothing else is \
         touched.\n",
    );
    let mut crew = Crew::start(&env, known).await?;
    let mut guide = Guide::new(crew.client(), env.clock.clone());
    steps::all(&mut guide, &mut crew).await?;
    say("All of it was seen. To look around yourself: coxswain --sandbox");
    Ok(())
}
