//! The options of a process with a manager: connection, endpoints, election and controllers, each with a default.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "serve")]
use super::endpoints::{InvalidAddress, RequestedEndpoints};
#[cfg(feature = "webhook")]
use super::webhooks::RequestedWebhooks;
use super::{BuildError, Manager, ManagerError, Options};
use crate::cache::{Caches, Scope};
use crate::client::{ConnectError, RateLimit};
use crate::controller::{ControllerError, Definition};
#[cfg(feature = "election")]
use crate::election::{self, ElectionError};
use crate::events::RecorderError;
use crate::health::{Health, Probes};
use crate::metrics::Registry;
#[cfg(feature = "serve")]
use crate::serve::{AuthorityError, ServeError, TlsError};
#[cfg(feature = "webhook")]
use crate::webhook::WebhookError;

/// The rate limit of each controller, unless another one is set: that of kube-controller-manager.
const RATE_LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 30 };
/// The time for controllers to stop, unless another one is set.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a manager and runs it as a process.
#[must_use]
pub struct ManagerBuilder {
    pub(super) options: Options,
    pub(super) version: &'static str,
    pub(super) identity: Option<String>,
    pub(super) config: Option<kube::Config>,
    pub(super) service_accounts: Option<String>,
    pub(super) registry: Registry,
    #[cfg(feature = "election")]
    pub(super) election: Option<election::Config>,
    #[cfg(feature = "serve")]
    pub(super) endpoints: RequestedEndpoints,
    #[cfg(feature = "webhook")]
    pub(super) webhooks: RequestedWebhooks,
    pub(super) controllers: Vec<Definition>,
    pub(super) background: Vec<Background>,
    pub(super) health_checks: Vec<HealthCheck>,
}

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A task, and its name.
pub(super) type Background =
    Box<dyn FnOnce(Caches, CancellationToken) -> BoxFuture<'static, (String, Result<(), BoxError>)> + Send>;

/// The name of a health check, its probes and the check.
pub(super) type HealthCheck = (String, Probes, Box<dyn Fn() -> Health + Send + Sync>);

/// The reason why a process failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum RunError {
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    #[error("no cluster is configured: {0}")]
    Config(#[from] Box<kube::config::InferConfigError>),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error(transparent)]
    Events(#[from] RecorderError),
    #[cfg(feature = "election")]
    #[error(transparent)]
    Election(#[from] ElectionError),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[cfg(feature = "webhook")]
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("cannot register the metrics of the process: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Manager(#[from] ManagerError),
    #[error("there is another health check {0:?}: choose another name")]
    SameHealthCheck(String),
    #[error("background task {name} failed: {reason}")]
    Background { name: String, reason: String },
    #[error("the {name} failed: {reason}")]
    Server { name: &'static str, reason: String },
    #[error("stopped immediately by a second signal")]
    SecondSignal,
}

impl Manager {
    /// Returns a builder. The name is that of the manager in metrics, in the user agent, and as a component of events.
    pub fn builder(name: &'static str) -> ManagerBuilder {
        ManagerBuilder {
            options: Options {
                limit: Some(RATE_LIMIT),
                shutdown_timeout: Some(SHUTDOWN_TIMEOUT),
                ..Options::new(name)
            },
            version: "",
            identity: None,
            config: None,
            service_accounts: None,
            registry: Registry::new(name),
            #[cfg(feature = "election")]
            election: None,
            #[cfg(feature = "serve")]
            endpoints: RequestedEndpoints::default(),
            #[cfg(feature = "webhook")]
            webhooks: RequestedWebhooks::default(),
            controllers: Vec::new(),
            background: Vec::new(),
            health_checks: Vec::new(),
        }
    }
}

impl ManagerBuilder {
    /// Adds a controller, or a [task](Definition::task) that runs while this process is the leader.
    pub fn controller(mut self, controller: Definition) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Adds a task that runs in every process, whether or not it is the leader, until its token is cancelled, which
    /// happens after the controllers have stopped. It may end early. An error ends the process.
    pub fn background<F, R>(mut self, name: impl Into<String>, run: F) -> Self
    where
        F: FnOnce(Caches, CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let name = name.into();
        self.background.push(Box::new(move |caches, stop| {
            let task = run(caches, stop);
            Box::pin(async move { (name, task.await) })
        }));
        self
    }

    /// Adds a health check. It runs on every probe and must not block. Its name must differ from those of other checks, such as
    /// `caches`, `leaderElection` and the names of controllers.
    pub fn health_check(
        mut self,
        name: impl Into<String>,
        probes: Probes,
        check: impl Fn() -> Health + Send + Sync + 'static,
    ) -> Self {
        self.health_checks.push((name.into(), probes, Box::new(check)));
        self
    }

    /// Connects to this cluster. Defaults to the current context of the kubeconfig, or to the cluster of the pod.
    pub fn kube_config(self, config: kube::Config) -> Self {
        Self {
            config: Some(config),
            ..self
        }
    }

    /// Sets the version of the program, for its log and its status page.
    pub fn version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    /// Sets the identity of this process in the election and in events. It must be unique, also among earlier processes
    /// of the same pod. Defaults to the host name and a random UUID.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self {
            identity: Some(identity.into()),
            ..self
        }
    }

    /// Sends the requests of each controller and task as the service account of the same name in `namespace`. Defaults to the identity of
    /// the process.
    pub fn service_accounts(self, namespace: impl Into<String>) -> Self {
        Self {
            service_accounts: Some(namespace.into()),
            ..self
        }
    }

    /// Limits the requests of each controller; none is unlimited. Defaults to 20 per second, and 30 at once.
    pub fn rate_limit(mut self, limit: Option<RateLimit>) -> Self {
        self.options.limit = limit;
        self
    }

    /// Caches only a part of the cluster. Defaults to all objects.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.options.scope = scope;
        self
    }

    /// Starts each controller after a random delay between `interval` and twice `interval`. Defaults to no delay.
    pub fn start_interval(mut self, interval: Duration) -> Self {
        self.options.start_interval = interval;
        self
    }

    /// Sets the time for controllers to stop; none is unlimited. Defaults to 30 s.
    pub fn shutdown_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.options.shutdown_timeout = timeout;
        self
    }

    /// Adds the metrics to this registry, for programs with metrics of their own. Defaults to a registry whose prefix is the
    /// name of the manager.
    pub fn registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }
}

impl std::fmt::Debug for ManagerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagerBuilder")
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}
