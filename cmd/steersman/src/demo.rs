//! `steersman --sandbox` and `steersman tour`: the controllers on an API server in this process.

mod progress;
mod sandbox;
mod snapshot;
mod tour;
mod tree;

pub(crate) use sandbox::{Embedded, SandboxError};
pub(crate) use tour::run as tour;
