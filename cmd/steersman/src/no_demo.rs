//! Replaces `demo` in builds without the sandbox, such as the container image: `--sandbox` and `tour` are rejected.

use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;

use steersman_config::{Known, Sandbox as Flags};
use steersman_manager::env::{Clock, Env};
use steersman_manager::manager::Process;
use steersman_manager::metrics::Registry;

use crate::log::Output;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    #[error(
        "this build has no sandbox: build it with the cargo feature `sandbox` to use --sandbox or the tour"
    )]
    NotBuilt,
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Cannot be constructed.
pub(crate) enum Embedded {}

impl Embedded {
    pub(crate) fn start(_: Flags, _: &Env, _: &Registry) -> Ready<Result<Self, SandboxError>> {
        ready(Err(SandboxError::NotBuilt))
    }

    pub(crate) fn process(&self, _: &Env, _: &Env) -> Process {
        match *self {}
    }

    pub(crate) fn print_summary(&self, _: Option<SocketAddr>, _: &[&str]) {
        match *self {}
    }

    pub(crate) fn run_sample(&self, _: &[&str], _: &Clock, _: &Output) -> Ready<()> {
        match *self {}
    }

    pub(crate) fn stop(self) -> Ready<()> {
        match self {}
    }
}

pub(crate) fn tour(_: &Known) -> Ready<Result<(), SandboxError>> {
    ready(Err(SandboxError::NotBuilt))
}
