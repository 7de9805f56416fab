//! What can go wrong with a reconcile, with a controller, and with building one.

use std::error::Error;
use std::time::Duration;

use tokio::task::JoinError;

use crate::client::ClientError;
use crate::events::RecorderError;
use crate::object::Key;
use crate::panics;
use crate::queue::QueueError;

type BoxError = Box<dyn Error + Send + Sync>;

/// Why a reconcile has failed. It says whether it is worth another try.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct ReconcileError {
    terminal: bool,
    within: Option<Duration>,
    source: BoxError,
}

/// Why a controller cannot be built. All are mistakes in the program or its options.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// There is nothing that could work.
    #[error("controller {name} has no workers; at least 1 is needed")]
    NoWorkers {
        /// The controller.
        name: String,
    },
    /// Every reconcile would be given up before it has begun.
    #[error("controller {name} has no time for a reconcile; its timeout must be longer than 0")]
    NoTime {
        /// The controller.
        name: String,
    },
    /// Its series are not to be had; most likely there is a second controller of that name.
    #[error("cannot register the metrics of controller {name}")]
    Metrics {
        /// The controller.
        name: String,
        /// What the registry says.
        source: prometheus::Error,
    },
    /// It cannot record events.
    #[error("controller {name} cannot record events")]
    Events {
        /// The controller.
        name: String,
        /// Why.
        source: RecorderError,
    },
    /// Its queue cannot be built.
    #[error("cannot build the queue of controller {name}")]
    Queue {
        /// The controller.
        name: String,
        /// Why.
        source: QueueError,
    },
}

/// A controller cannot go on, and must not seem to: the process has to end. Its reconciles were cut off, so that nothing is
/// known of the writes that were under way; a lease must not be released.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// A part of it has panicked, outside of any reconcile.
    #[error("controller {controller}: {part} panicked: {message}")]
    Panicked {
        /// The controller.
        controller: String,
        /// Which part.
        part: String,
        /// What the panic said.
        message: String,
    },
    /// A cache that it watches is gone.
    #[error("controller {controller}: nothing more comes from its source {origin}")]
    Ended {
        /// The controller.
        controller: String,
        /// The source.
        origin: String,
    },
}

/// Why a controller that runs makes no progress.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// A reconcile has not come to an end, not even by its timeout: it blocks its thread.
    #[error("the reconcile of {key} has run for {} s, its timeout is {} s", .since.as_secs(), .timeout.as_secs())]
    Stuck {
        /// The object.
        key: Key,
        /// How long it has run.
        since: Duration,
        /// How long it may.
        timeout: Duration,
    },
    /// It must not run here.
    #[error("{reason}")]
    Refused {
        /// Why not, and what to do.
        reason: String,
    },
    /// There is work, and a worker that is free, and nothing happens.
    #[error("nothing was taken from the queue for {} s, although there are free workers", .since.as_secs())]
    Stalled {
        /// How long the first in line has waited.
        since: Duration,
    },
}

impl Fatal {
    /// What to make of a task of `controller` that did not end by itself; none if it was cancelled, because the runtime is
    /// shutting down.
    #[must_use]
    pub fn of_task(controller: &str, part: &str, error: JoinError) -> Option<Self> {
        let panic = error.try_into_panic().ok()?;
        Some(Self::Panicked {
            controller: controller.to_owned(),
            part: part.to_owned(),
            message: panics::message(&*panic).to_owned(),
        })
    }
}

impl ReconcileError {
    /// A failure that may pass: tried again after the backoff of the object.
    pub fn retryable(error: impl Into<BoxError>) -> Self {
        Self {
            terminal: false,
            within: None,
            source: error.into(),
        }
    }

    /// A failure that stays until something changes: not tried again before the next event.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self {
            terminal: true,
            within: None,
            source: error.into(),
        }
    }

    /// Requests another reconcile within this time, and no sooner than a second from now, whatever the backoff of the object
    /// is: a failed reconcile keeps the wake-ups that it computed. The backoff goes on, and no reconcile comes earlier than
    /// the API server asked for. A terminal error ignores it.
    #[must_use]
    pub fn again_within(mut self, time: Option<Duration>) -> Self {
        self.within = time;
        self
    }

    /// The time within which another reconcile was requested.
    #[must_use]
    pub fn within(&self) -> Option<Duration> {
        self.within
    }

    /// Whether another try is of no use.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How long the API server asked to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.client()?.retry_after()
    }

    /// Whether the term is over, in which it was begun.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self.client(), Some(ClientError::Fenced { .. }))
    }

    /// The failed request at the bottom, however the reconciler has wrapped it.
    fn client(&self) -> Option<&ClientError> {
        let mut next: Option<&(dyn Error + 'static)> = Some(&*self.source);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref() {
                return Some(error);
            }
            next = error.source();
        }
        None
    }
}

impl From<ClientError> for ReconcileError {
    fn from(error: ClientError) -> Self {
        Self::retryable(error)
    }
}
