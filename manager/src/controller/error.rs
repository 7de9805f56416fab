//! Errors of a reconcile, of a running controller, and of building one.

use std::error::Error;
use std::time::Duration;

use tokio::task::JoinError;

use crate::cache::Status;
use crate::client::{ClientError, TokenError};
use crate::events::RecorderError;
use crate::object::Key;
use crate::panics;
use crate::queue::QueueError;

type BoxError = Box<dyn Error + Send + Sync>;

/// A failed reconcile, and whether it is retried.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct ReconcileError {
    terminal: bool,
    within: Option<Duration>,
    source: BoxError,
}

/// A controller cannot be built. All variants are mistakes in the program or its options.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ControllerError {
    #[error("controller {name} has no workers; at least 1 is needed")]
    NoWorkers { name: String },
    #[error("controller {name} has a reconcile timeout of 0")]
    NoTimeout { name: String },
    #[error("there are two controllers {name}; choose another name for one of them")]
    SameName { name: String },
    /// Most likely there is a second controller of that name.
    #[error("cannot register the metrics of controller {name}")]
    Metrics { name: String, source: prometheus::Error },
    #[error("controller {name} cannot record events")]
    Events { name: String, source: RecorderError },
    #[error("cannot build the queue of controller {name}")]
    Queue { name: String, source: QueueError },
}

/// An error after which the process has to end. Reconciles were cancelled, so that the outcome of their writes is unknown: the
/// Lease must not be released.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Fatal {
    /// A panic outside of any reconcile.
    #[error("controller {controller}: {part} panicked: {message}")]
    Panicked {
        controller: String,
        part: String,
        message: String,
    },
    /// A task failed.
    #[error("task {controller}: {reason}")]
    Failed { controller: String, reason: String },
    /// The cache behind a source was dropped.
    #[error("controller {controller}: source {origin} ended")]
    Ended { controller: String, origin: String },
}

/// The reason why a running controller is unhealthy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "plain data")]
pub enum Unhealthy {
    /// A reconcile did not end at its timeout: it blocks its thread.
    #[error("the reconcile of {key} has run for {} s, its timeout is {} s", .since.as_secs(), .timeout.as_secs())]
    Stuck {
        key: Key,
        since: Duration,
        timeout: Duration,
    },
    /// The controller refuses to run.
    #[error("{reason}")]
    Refused {
        /// The cause, and a way to resolve it.
        reason: String,
    },
    /// The service account of the controller has no valid token.
    #[error(transparent)]
    Unauthenticated(TokenError),
    /// An item waits, workers are free, and no reconcile starts.
    #[error("{key} has waited in the queue for {} s although workers are free", .since.as_secs())]
    Stalled { key: Key, since: Duration },
    /// An item waits for too long: the workers are too few or too slow.
    #[error("{key} has waited in the queue for {} s, the limit is {} s", .since.as_secs(), .limit.as_secs())]
    Overdue {
        key: Key,
        since: Duration,
        limit: Duration,
    },
    /// The list and watch of a resource does not work, so that the controller does not observe changes.
    #[error("the watch of {resource} has had no event, bookmark or reconnect for {} s ({status})", .since.as_secs())]
    StaleWatch {
        resource: String,
        since: Duration,
        status: Status,
    },
}

impl Unhealthy {
    /// Returns true if the process itself is the cause, and not its configuration, the load or the API server.
    #[must_use]
    pub fn is_fixed_by_restart(&self) -> bool {
        match self {
            Self::Stuck { .. } | Self::Stalled { .. } => true,
            Self::Refused { .. }
            | Self::Unauthenticated(_)
            | Self::Overdue { .. }
            | Self::StaleWatch { .. } => false,
        }
    }
}

impl Fatal {
    /// Converts the error of a task. None if the task was cancelled: the tokio runtime is shutting down.
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
    /// A failure that is retried after the backoff of the object.
    pub fn retryable(error: impl Into<BoxError>) -> Self {
        Self {
            terminal: false,
            within: None,
            source: error.into(),
        }
    }

    /// A failure that is not retried before the next event or resync.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self {
            terminal: true,
            within: None,
            source: error.into(),
        }
    }

    /// Requests another reconcile within this time, but not within a second, even if the backoff of the object is longer: a
    /// failed reconcile keeps the wake-ups that it computed. The backoff continues, and Retry-After is honoured. A terminal
    /// error ignores it.
    #[must_use]
    pub fn again_within(mut self, time: Option<Duration>) -> Self {
        self.within = time;
        self
    }

    /// The time of [`ReconcileError::again_within`].
    #[must_use]
    pub fn within(&self) -> Option<Duration> {
        self.within
    }

    /// Whether the error is not retried.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The Retry-After of the failed request.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.client()?.retry_after()
    }

    /// Whether the end of the term caused the error.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self.client(), Some(ClientError::Fenced { .. }))
    }

    /// The client error in the chain of sources.
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

/// The error is retried, unless it is a [`ReconcileError`] that says otherwise.
impl From<BoxError> for ReconcileError {
    fn from(error: BoxError) -> Self {
        match error.downcast() {
            Ok(error) => *error,
            Err(error) => Self::retryable(error),
        }
    }
}
