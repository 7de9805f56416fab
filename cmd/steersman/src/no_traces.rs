//! Replaces `traces` in builds without the cargo feature `otlp`: `--tracing-endpoint` is rejected.

use std::future::Ready;

use steersman_config::Tracing;
use steersman_manager::env::Env;
use steersman_manager::metrics::Registry;
use steersman_manager::trace::Tracer;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    #[error(
        "this build does not export traces: build it with the cargo feature `otlp` to use --tracing-endpoint"
    )]
    NotBuilt,
}

/// Cannot be constructed.
pub(crate) enum Traces {}

impl Traces {
    pub(crate) fn start(config: &Tracing, _: &Env, _: &Registry) -> Result<Option<Self>, TracesError> {
        match config.endpoint {
            None => Ok(None),
            Some(_) => Err(TracesError::NotBuilt),
        }
    }

    pub(crate) fn tracer(&self) -> Tracer {
        match *self {}
    }

    pub(crate) fn stop(self) -> Ready<()> {
        match self {}
    }
}
