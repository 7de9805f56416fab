//! The manager: builds what controllers share, starts it in order and stops it in the reverse order.
//!
//! Start: caches fill (on a standby too, so that it is warm), then the lease is waited for, then what the last leader
//! wrote, then the controllers run. When the lease is lost the controllers stop and the process goes on as a standby. At
//! the end the controllers finish what they are at, and the lease is released if the outcome of every write is known;
//! otherwise it is left to expire. The endpoints are the caller's: they come before all this and go after it.
//!
//! What the manager cannot do without ends it when it dies: a reflector, the election, the source of a controller.

mod health;
mod metrics;
mod run;
mod term;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use self::metrics::States;
use crate::cache::{CacheError, Caches, Scope};
use crate::client::{Client, Fence, RateLimit, Transport};
use crate::controller::Runnable;
use crate::env::Env;
use crate::events::{Recorder, RecorderError};
use crate::serve::{Checks, Registration};

/// How a manager works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name in metrics.
    pub name: &'static str,
    /// The requests that each controller may send; none is no limit.
    pub limit: Option<RateLimit>,
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
    states: States,
    controllers: Vec<Arc<dyn Runnable>>,
    /// The checks end with the manager.
    registrations: Vec<Registration>,
}

/// Why a manager cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There are no caches.
    #[error(transparent)]
    Caches(#[from] CacheError),
    /// The series are there already: a mistake in the program.
    #[error("cannot register the metrics of the manager: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Why a manager ended before it was told to, or not in order.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Something that the manager cannot do without has died. A mistake in the program: the process should end.
    #[error("{what} died: {reason}")]
    Died {
        /// What it was.
        what: String,
        /// What it said.
        reason: String,
    },
    /// Controllers did not stop in time. The lease, if there is one, was not released.
    #[error("controller shutdown timeout reached, still running: {}", .laggards.join(", "))]
    ShutdownTimeout {
        /// What still ran, with the objects that it was at.
        laggards: Vec<String>,
    },
}

impl Manager {
    /// A manager without controllers. Its checks are added to `checks`, its series to `registry`.
    pub fn new(
        env: &Env,
        registry: &Registry,
        checks: &Checks,
        transport: Transport,
        options: Options,
    ) -> Result<Self, BuildError> {
        // What fills the caches is not held up by any controller, and holds up none.
        let reader = transport.client("shared-informers", None);
        let caches = Caches::new(env, reader, options.scope.clone(), registry)?;
        let states = States::register(options.name, registry)?;
        let registrations = vec![health::of_caches(checks, &caches)];
        Ok(Self {
            env: env.clone(),
            registry: registry.clone(),
            transport,
            fence: Fence::new(env.clock.clone()),
            caches,
            checks: checks.clone(),
            states,
            controllers: Vec::new(),
            registrations,
            options,
        })
    }

    /// Time, chance and tasks.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Where series are registered.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The caches that all controllers share. One begins to fill when it is first asked for.
    #[must_use]
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// What the election opens and shuts.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The client of a controller, with a token bucket of its own.
    #[must_use]
    pub fn client(&self, name: &str) -> Client {
        self.transport.client(name, self.options.limit)
    }

    /// [`Manager::client`] for a controller that may send `factor` times as many requests per second.
    #[must_use]
    pub fn client_with_qps_factor(&self, name: &str, factor: f64) -> Client {
        let limit = self.options.limit.map(|limit| RateLimit {
            qps: limit.qps * factor,
            ..limit
        });
        self.transport.client(name, limit)
    }

    /// Records events of `component` (a controller) on `instance` (this process). Not behind the fence: an event is only
    /// about what was done behind it, and the last ones are written after the term is over.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn recorder(&self, component: &str, instance: &str) -> Result<Recorder, RecorderError> {
        let client = self.transport.unfenced(component, self.options.limit);
        Recorder::start(&self.env, client, component, instance, &self.registry)
    }

    /// Hosts a controller: it is checked by its name from now on, and runs when this process leads.
    pub fn add(&mut self, controller: impl Runnable + 'static) {
        let controller: Arc<dyn Runnable> = Arc::new(controller);
        let checks = health::of_controller(&self.checks, &self.caches, &controller);
        self.registrations.extend(checks);
        self.states.add(&controller);
        self.controllers.push(controller);
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controllers: Vec<_> = self.controllers.iter().map(|c| c.name()).collect();
        f.debug_struct("Manager")
            .field("controllers", &controllers)
            .field("caches", &self.caches)
            .finish_non_exhaustive()
    }
}
