//! The manager: builds the parts that controllers share, starts them in order and stops them in reverse order.
//!
//! Start: the caches sync (on a standby too, so that a failover is fast); the Lease is acquired; the caches catch up with
//! the writes of the previous leader; the controllers run. When the Lease is lost, the controllers stop and the process
//! continues as a standby. On shutdown the controllers finish their current items, and the Lease is released if the outcome
//! of every write is known; otherwise it expires.
//!
//! [`Manager::new`] returns the manager only. [`Manager::builder`] adds the connection, the endpoints, the webhooks and the
//! signals; an [`Instance`] is the result.
//!
//! The manager fails if a reflector, the election or a source of a controller fails.
//!
//! [`ManagerBuilder::run`] connects to a cluster and runs until a signal, as a program does. The same on an API server in
//! this process:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_manager::client::Transport;
//! # use steersman_manager::controller::{Action, Context, Controller, ReconcileError};
//! # use k8s_openapi::api::core::v1::Namespace;
//! # let stop = tokio_util::sync::CancellationToken::new();
//! # let stop_at_first = stop.clone();
//! # let controller = Controller::<Namespace>::new("namespace").reconcile(move |_: Context<Namespace>| {
//! #     stop_at_first.cancel();
//! #     async { Ok::<_, ReconcileError>(Action::Done) }
//! # });
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! use steersman_manager::manager::{Manager, Process};
//!
//! let instance = Manager::builder("tenants")
//!     .leader_election("kube-system", "tenants")
//!     .endpoints("127.0.0.1:0")
//!     .controller(controller)
//!     .build(Process::new(&env, transport))
//!     .await?;
//! let address = instance.endpoints_address().expect("endpoints");
//! println!("{} serves https://{address}/readyz", instance.identity());
//! instance.run(stop).await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod control;
#[cfg(feature = "election")]
mod election;
#[cfg(feature = "serve")]
mod endpoints;
mod health;
mod identity;
mod instance;
mod metrics;
mod process;
mod run;
mod servers;
#[cfg(feature = "serve")]
mod status;
mod term;
#[cfg(feature = "webhook")]
mod webhooks;

pub use builder::{ManagerBuilder, RunError};
pub use control::ControlRuntime;
pub use identity::identity;
pub use instance::Instance;
pub use process::Process;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::Registry;

use self::metrics::ControllerStates;
use crate::cache::{CacheError, Caches, Scope};
use crate::client::{Fence, RateLimit, Reader, ServiceAccount, ServiceAccounts, SharedRateLimit, Transport};
use crate::controller::{ControllerError, Definition, Runnable};
use crate::env::Env;
use crate::events::{Recorder, RecorderError};
use crate::health::{Checks, Registration};

/// The options of a manager.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the manager in metrics.
    pub name: &'static str,
    /// The identity of this process in events.
    pub instance: String,
    /// The rate limit of each controller's client; none is unlimited.
    pub limit: Option<RateLimit>,
    /// The namespaces that are cached.
    pub scope: Scope,
    /// Each controller starts after a random delay between this and twice this.
    pub start_interval: Duration,
    /// The time for controllers to stop; none is unlimited.
    pub shutdown_timeout: Option<Duration>,
}

/// The shared parts and the controllers.
pub struct Manager {
    env: Env,
    registry: Registry,
    transport: Transport,
    limit: SharedRateLimit,
    options: Options,
    service_accounts: Option<ServiceAccounts>,
    caches: Caches,
    fence: Fence,
    #[cfg(feature = "election")]
    elector: Option<crate::election::Elector>,
    checks: Checks,
    states: ControllerStates,
    controllers: Vec<Arc<dyn Runnable>>,
    /// The health checks, removed on drop.
    registrations: Vec<Registration>,
}

/// Errors while a manager is built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The caches cannot be built.
    #[error(transparent)]
    Caches(#[from] CacheError),
    /// The metrics are registered already, which is a programming error.
    #[error("failed to register metrics of the manager: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Errors of a running manager.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "plain data")]
pub enum ManagerError {
    /// An essential part has failed, which is a programming error. The process should exit.
    #[error("{what} failed: {reason}")]
    Failed { what: String, reason: String },
    /// Controllers did not stop in time. The Lease was not released.
    #[error("controller shutdown timeout reached, still running: {}", .still_running.join(", "))]
    ShutdownTimeout {
        /// The controllers, with the keys they were processing.
        still_running: Vec<String>,
    },
}

impl Options {
    /// Returns the options of a manager of this name: all objects, no limits. The name is the instance, too.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            instance: name.to_owned(),
            limit: None,
            scope: Scope::default(),
            start_interval: Duration::ZERO,
            shutdown_timeout: None,
        }
    }
}

impl Manager {
    /// Returns a manager without controllers. It adds its health checks to `checks` and its metrics to `registry`.
    pub fn new(
        env: &Env,
        registry: &Registry,
        checks: &Checks,
        transport: Transport,
        options: Options,
    ) -> Result<Self, BuildError> {
        // The reflectors have their own client without a rate limit.
        let reader = transport.reader("shared-informers", None);
        let caches = Caches::for_manager(options.name, env, reader, options.scope.clone(), registry)?;
        let states = ControllerStates::register(options.name, registry)?;
        let registrations = vec![health::add_cache_check(checks, &caches)];
        Ok(Self {
            env: env.clone(),
            registry: registry.clone(),
            transport,
            limit: SharedRateLimit::new(options.limit),
            fence: Fence::new(env.clock.clone()),
            caches,
            checks: checks.clone(),
            states,
            controllers: Vec::new(),
            registrations,
            service_accounts: None,
            #[cfg(feature = "election")]
            elector: None,
            options,
        })
    }

    /// Gives each controller the identity of a service account. The caches keep the identity of the process. Call it before
    /// the controllers are built.
    pub fn use_service_accounts(&mut self, accounts: ServiceAccounts) {
        self.service_accounts = Some(accounts);
    }

    /// Returns the service account of a controller, with a token of its own; none if the controllers have the identity of
    /// the process.
    #[must_use]
    pub fn service_account(&self, name: &str) -> Option<ServiceAccount> {
        let accounts = self.service_accounts.as_ref()?;
        Some(accounts.account(name))
    }

    #[expect(missing_docs, reason = "accessor")]
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    #[expect(missing_docs, reason = "accessor")]
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the shared caches. A cache starts when it is first requested.
    #[must_use]
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// Returns the fence that the election opens and closes.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Returns a read-only client with its own rate limiter. The reconciles of a controller get one that writes.
    #[must_use]
    pub fn reader(&self, name: &str) -> Reader {
        self.reader_with_qps_factor(name, 1.0)
    }

    /// [`Manager::reader`] with `factor` times the rate limit.
    #[must_use]
    pub fn reader_with_qps_factor(&self, name: &str, factor: f64) -> Reader {
        self.transport.reader(name, None).with_limit(&self.limit, factor)
    }

    /// Returns the rate limit of the clients, which can be changed while the manager runs.
    #[must_use]
    pub fn rate_limit(&self) -> &SharedRateLimit {
        &self.limit
    }

    /// Starts an event recorder for `component` (a controller) on this instance, which writes as `account`. It is not fenced: events describe writes that were fenced, and the last ones are written after the term.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn recorder(
        &self,
        component: &str,
        account: Option<&ServiceAccount>,
    ) -> Result<Recorder, RecorderError> {
        let client = self.reader(component).authenticated_as(account).unfenced();
        Recorder::start(
            &self.env,
            client,
            component,
            &self.options.instance,
            &self.registry,
        )
    }

    /// Builds a controller and adds it. It runs while this process is the leader.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn add_controller(&mut self, controller: Definition) -> Result<(), ControllerError> {
        let Definition { name, add } = controller;
        if self.controllers.iter().any(|it| it.name() == name) {
            return Err(ControllerError::SameName { name });
        }
        add(self)
    }

    /// Adds a controller with its health checks. It runs while this process is the leader.
    pub fn add(&mut self, controller: impl Runnable + 'static) {
        let controller: Arc<dyn Runnable> = Arc::new(controller);
        let checks = health::add_controller_checks(&self.checks, &self.caches, &controller);
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
