//! The manager: builds what controllers share, starts it in order and stops it in the reverse order.
//!
//! Start: caches fill (on a standby too, so that it is warm), then the lease is waited for, then what the last leader
//! wrote, then the controllers run. When the lease is lost the controllers stop and the process goes on as a standby. At
//! the end the controllers finish what they are at, and the lease is released if the outcome of every write is known;
//! otherwise it is left to expire. The endpoints are the caller's: they come before all this and go after it.
//!
//! What the manager cannot do without ends it when it dies: a reflector, the election, the source of a controller.

mod health;
mod term;

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::cache::{CacheError, Caches, Scope};
use crate::client::{Client, Fence, Limit, Transport};
use crate::controller::Runnable;
use crate::election::{Elector, Leadership, Takeover};
use crate::env::Env;
use crate::serve::Checks;

/// How long the caches are waited for before the lease is asked for. Each controller waits for its own all the same.
const WARM: Duration = Duration::from_secs(30);

/// How a manager works.
#[derive(Clone, Debug)]
pub struct Options {
    /// The requests that each controller may send; none is no limit.
    pub limit: Option<Limit>,
    /// The part of the cluster that is looked at.
    pub scope: Scope,
    /// Each controller starts after a random time between this and twice this.
    pub start_interval: Duration,
    /// How long the controllers may take to stop; none is for ever.
    pub shutdown_timeout: Option<Duration>,
}

/// What controllers share, and who starts and stops them.
pub struct Manager {
    env: Env,
    registry: Registry,
    transport: Transport,
    options: Options,
    caches: Caches,
    fence: Fence,
    checks: Checks,
    controllers: Vec<Arc<dyn Runnable>>,
}

/// Why a manager ended.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Something that the manager cannot do without has died.
    #[error("{what} died: {reason}")]
    Died {
        /// What it was.
        what: String,
        /// What it said.
        reason: String,
    },
    /// Controllers did not stop in time. The lease, if there is one, was not released.
    #[error("controller shutdown timeout reached: {} still running", .laggards.join(", "))]
    ShutdownTimeout {
        /// What still ran, with the objects that it was at.
        laggards: Vec<String>,
    },
}
