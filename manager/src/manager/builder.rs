//! The options of a process with a manager: connection, endpoints, election and controllers, each with a default.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::metrics::Registry;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::webhooks::Webhooks;
use super::{BuildError, Manager, ManagerError, Options};
use crate::cache::{Caches, Scope};
use crate::client::{ConnectError, RateLimit};
use crate::controller::{ControllerError, Definition};
use crate::election::{self, ElectionError};
use crate::events::RecorderError;
use crate::serve::{AuthorityError, CertificateFiles, ServeError, TlsError};
use crate::webhook::{self, Hooks, WebhookError};

/// The rate limit of each controller, unless another one is set: that of kube-controller-manager.
const RATE_LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 30 };
/// The time for controllers to stop, unless another one is set.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a manager and runs it as a process.
#[must_use]
pub struct ManagerBuilder {
    pub(super) options: Options,
    pub(super) config: Option<kube::Config>,
    pub(super) election: Option<election::Config>,
    pub(super) endpoints: Option<Address>,
    pub(super) certificate: Option<CertificateFiles>,
    pub(super) webhooks: Option<Webhooks>,
    pub(super) registry: Registry,
    pub(super) controllers: Vec<Definition>,
    pub(super) background: Vec<Background>,
}

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A task, and its name.
pub(super) type Background =
    Box<dyn FnOnce(Caches, CancellationToken) -> BoxFuture<'static, (String, Result<(), BoxError>)> + Send>;

/// The address of a server.
pub(super) type Address = Result<SocketAddr, InvalidAddress>;

/// The text is not a socket address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid address {0:?}: it must have an IP address and a port, such as 0.0.0.0:8443")]
pub struct InvalidAddress(String);

/// The reason why a process failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RunError {
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
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
    #[error(transparent)]
    Election(#[from] ElectionError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("cannot register the metrics of the process: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Manager(#[from] ManagerError),
    #[error("the health and metrics endpoints failed: {0}")]
    Endpoints(String),
    #[error("background task {name} failed: {reason}")]
    Background { name: String, reason: String },
    #[error("the webhook server failed: {0}")]
    Webhooks(String),
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
            config: None,
            election: None,
            endpoints: None,
            certificate: None,
            webhooks: None,
            registry: Registry::new(name),
            controllers: Vec::new(),
            background: Vec::new(),
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

    /// Runs the controllers only while this process holds a Lease. Without it, every process that is started acts: writes
    /// that carry a resourceVersion conflict, others are sent several times.
    pub fn leader_election(self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        // The identity is set when the process starts.
        self.leader_election_with(election::Config::new(namespace, name, ""))
    }

    /// [`ManagerBuilder::leader_election`] with other times. An empty identity is replaced by the host name and a random
    /// UUID.
    pub fn leader_election_with(self, config: election::Config) -> Self {
        Self {
            election: Some(config),
            ..self
        }
    }

    /// Serves health, metrics and status over HTTPS at an address such as `0.0.0.0:8443`. Health checks need no
    /// authorization; for all other paths, the API server authenticates and authorizes the client. Without a
    /// [certificate](ManagerBuilder::certificate), the server generates one.
    pub fn endpoints(self, address: &str) -> Self {
        Self {
            endpoints: Some(parse(address)),
            ..self
        }
    }

    /// Serves the endpoints with the certificate in these files, which are reloaded when they change.
    pub fn certificate(self, files: CertificateFiles) -> Self {
        Self {
            certificate: Some(files),
            ..self
        }
    }

    /// Serves webhooks over HTTPS at an address such as `0.0.0.0:9443`, on the leader and on standbys. A replica is ready when
    /// it has the certificate. After a signal, the webhooks are served for 5 s after the controllers have stopped: API servers
    /// send reviews until the pod has left the Service.
    pub fn webhooks(self, address: &str, certificate: webhook::Source, hooks: Hooks) -> Self {
        Self {
            webhooks: Some(Webhooks {
                address: parse(address),
                certificate,
                hooks,
            }),
            ..self
        }
    }

    /// Connects to this cluster. Defaults to the current context of the kubeconfig, or to the cluster of the pod.
    pub fn kube_config(self, config: kube::Config) -> Self {
        Self {
            config: Some(config),
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

fn parse(address: &str) -> Address {
    { address.parse() }.map_err(|_| InvalidAddress(address.to_owned()))
}
