//! In place of the sandbox in a build without it, such as the container image: `--sandbox` is refused.

use std::future::{Ready, ready};
use std::net::SocketAddr;

use coxswain_config::Sandbox as Flags;
use coxswain_manager::env::{Clock, Env};
use prometheus::Registry;

use crate::log::Output;
use crate::ways::Ways;

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    #[error("this build has no sandbox: --sandbox and the tour need one with the cargo feature `sandbox`")]
    NotBuilt,
}

/// A running sandbox, of which there is none.
pub(crate) enum Embedded {}

impl Embedded {
    pub(crate) fn start(_: Flags, _: &Env, _: &Registry) -> Ready<Result<Self, SandboxError>> {
        ready(Err(SandboxError::NotBuilt))
    }

    pub(crate) fn ways(&self) -> Ways {
        match *self {}
    }

    pub(crate) fn greet(&self, _: Option<SocketAddr>, _: &[&str]) {
        match *self {}
    }

    pub(crate) fn show(&self, _: &[&str], _: &Clock, _: &Output) -> Ready<()> {
        match *self {}
    }

    pub(crate) fn end(self) -> Ready<()> {
        match self {}
    }
}
