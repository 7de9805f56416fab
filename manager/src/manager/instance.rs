//! A built manager with its event recorder, election and servers. The servers are bound, and serve while it runs.

use std::io;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::builder::{Background, BoxError, ManagerBuilder, RunError};
use super::endpoints::BoundEndpoints;
use super::process::Process;
use super::webhooks::BoundWebhooks;
use super::{Manager, identity};
use crate::client::ServiceAccounts;
use crate::election::Elector;
use crate::env::{Env, TaskSet};
use crate::events::Recorder;
use crate::serve::{CertificateMetrics, Checks, Endpoints};
use crate::webhook::Hooks;

/// The time for sending the remaining events after the manager has stopped.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A manager that has not been started yet.
pub struct Instance {
    manager: Manager,
    version: &'static str,
    identity: String,
    recorder: Recorder,
    elector: Option<Elector>,
    endpoints: Option<BoundEndpoints>,
    webhooks: Option<BoundWebhooks>,
    background: Vec<Background>,
    control_env: Env,
    /// End with the instance: its caches must not log errors when an API server in the same process stops after it.
    tasks: TaskSet,
}

/// A server that serves until it is stopped.
pub(super) struct RunningServer {
    pub(super) name: &'static str,
    pub(super) stop: CancellationToken,
    pub(super) ended: JoinHandle<()>,
}

impl ManagerBuilder {
    /// Binds the servers and builds the manager with its controllers.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn build(mut self, process: Process) -> Result<Instance, RunError> {
        let Process {
            env,
            transport,
            control_env,
            control_transport,
            service_accounts,
            auth_info,
        } = process;
        let tasks = TaskSet::new();
        let env = Env {
            tasks: tasks.handle(),
            ..env
        };
        let identity =
            { self.identity }.unwrap_or_else(|| identity::identity(&identity::hostname(), &env.rng));
        self.options.instance.clone_from(&identity);
        let (name, registry, checks) = (self.options.name, self.registry, Checks::new());
        let certificates = CertificateMetrics::register(&registry)?;
        certificates.observe_client(&auth_info);
        let endpoints = match self.endpoints {
            Some(endpoints) => {
                let files = self.certificate;
                let bound = endpoints.bind(
                    files,
                    &control_env,
                    &control_transport,
                    &registry,
                    &checks,
                    &certificates,
                );
                Some(bound.await?)
            }
            None => None,
        };
        let webhooks = match self.webhooks {
            Some(webhooks) => {
                let client_ca = self.webhook_client_ca;
                let bound = webhooks.bind(client_ca, &control_env, &certificates, &checks, &registry);
                Some(bound.await?)
            }
            None => None,
        };
        let events = control_transport.unfenced("events", None);
        let recorder = Recorder::start(&control_env, events, name, &identity, &registry)?;
        let issuer = transport.unfenced("service-account-tokens", None);
        let mut manager = Manager::new(&env, &registry, &checks, transport, self.options)?;
        manager.run_election_by(control_env.tasks.clone());
        if let Some(namespace) = self.service_accounts {
            manager.use_service_accounts(ServiceAccounts::new(&env, issuer, service_accounts, &namespace));
        }
        for controller in self.controllers {
            manager.add_controller(controller)?;
        }
        if let Some(webhooks) = &webhooks {
            webhooks.server.certificates().host(&mut manager);
        }
        let elector = match self.election {
            None => None,
            Some(mut config) => {
                if config.identity.is_empty() {
                    config.identity.clone_from(&identity);
                }
                let client = control_transport.unfenced("leader-election", None);
                let fence = manager.fence().clone();
                let elector = Elector::new(&control_env, client, fence, config, &registry)?;
                Some(elector.with_recorder(recorder.clone()))
            }
        };
        Ok(Instance {
            manager,
            version: self.version,
            identity,
            recorder,
            elector,
            endpoints,
            webhooks,
            background: self.background,
            control_env,
            tasks,
        })
    }
}

impl Instance {
    /// Returns the manager, for controllers that are built from its parts.
    pub fn manager(&mut self) -> &mut Manager {
        &mut self.manager
    }

    /// Returns the identity of this process in the election and in events.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Adds endpoints, or replaces those of the same path. Without a server of endpoints, nothing happens.
    pub fn extend_endpoints(&mut self, extend: impl FnOnce(Endpoints) -> Endpoints + Send + 'static) {
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.extensions.push(Box::new(extend));
        }
    }

    /// Returns the address of the endpoints.
    #[must_use]
    pub fn endpoints_address(&self) -> Option<std::net::SocketAddr> {
        self.endpoints.as_ref().map(|it| it.server.address())
    }

    /// Adds webhooks, or replaces those of the same path. Without a server of webhooks, nothing happens.
    pub fn extend_webhooks(&mut self, hooks: Hooks) {
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.hooks.extend(hooks);
        }
    }

    /// Runs until `stop`, and then stops in order: the manager, the background tasks, the webhooks and the endpoints.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let controllers: Vec<_> = self.manager.controllers.iter().map(|it| it.name()).collect();
        tracing::info!(
            version = self.version,
            identity = self.identity,
            controllers = controllers.join(","),
            endpoints = self.endpoints_address().map(|it| it.to_string()),
            webhooks = self.webhooks.as_ref().map(|it| it.server.address().to_string()),
            "Starting"
        );
        let reporter = self.manager.status(self.version, self.elector.as_ref());
        // In the order of their end.
        let mut servers = Vec::new();
        servers.extend(self.webhooks.map(|it| it.start(&self.control_env, &stop)));
        servers.extend(self.endpoints.map(|it| it.start(&self.control_env, reporter)));
        // Cancelled after the controllers have stopped.
        let stop_background = CancellationToken::new();
        let mut background = JoinSet::new();
        for run in self.background {
            background.spawn(run(self.manager.caches().clone(), stop_background.clone()));
        }
        let ended = tokio::select! {
            biased;
            error = first_end(&mut servers) => return Err(error),
            error = first_failure(&mut background) => return Err(error),
            ended = self.manager.run(self.elector, stop) => ended,
        };
        stop_background.cancel();
        while let Some(ended) = background.join_next().await {
            check_ended(ended)?;
        }
        self.recorder.flush(EVENT_FLUSH_TIMEOUT).await;
        for server in servers {
            server.stop.cancel();
            // A panic at the end changes nothing.
            let _ = server.ended.await;
        }
        drop(self.tasks);
        Ok(ended?)
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("manager", &self.manager)
            .finish_non_exhaustive()
    }
}

/// Resolves when a server has ended before it was stopped.
async fn first_end(servers: &mut [RunningServer]) -> RunError {
    if servers.is_empty() {
        return std::future::pending().await;
    }
    let names: Vec<_> = servers.iter().map(|it| it.name).collect();
    let ends = servers.iter_mut().map(|it| &mut it.ended);
    let (ended, index, _) = futures_util::future::select_all(ends).await;
    RunError::Server {
        name: names[index],
        reason: match ended {
            Ok(()) => "ended unexpectedly".to_owned(),
            Err(error) => error.to_string(),
        },
    }
}

/// Resolves when a background task has failed.
async fn first_failure(tasks: &mut JoinSet<(String, Result<(), BoxError>)>) -> RunError {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = check_ended(ended) {
            return error;
        }
    }
    std::future::pending().await
}

fn check_ended(ended: Result<(String, Result<(), BoxError>), JoinError>) -> Result<(), RunError> {
    match ended {
        Ok((_, Ok(()))) => Ok(()),
        Ok((name, Err(error))) => Err(RunError::Background {
            name,
            reason: error.to_string(),
        }),
        Err(error) => Err(RunError::Start(io::Error::other(error))),
    }
}
