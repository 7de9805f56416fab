//! A built manager with its event recorder, election and servers. The servers are bound, and serve while it runs.

use std::io;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::builder::{Background, BoxError, ManagerBuilder, RunError};
#[cfg(feature = "serve")]
use super::endpoints::BoundEndpoints;
use super::process::Process;
#[cfg(feature = "webhook")]
use super::webhooks::BoundWebhooks;
use super::{Manager, identity, servers};
use crate::client::ServiceAccounts;
use crate::env::{Env, TaskSet};
use crate::events::Recorder;
use crate::health::Checks;

/// The time for sending the remaining events after the manager has stopped.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A manager that has not been started yet.
pub struct Instance {
    manager: Manager,
    version: &'static str,
    identity: String,
    recorder: Recorder,
    background: Vec<Background>,
    #[cfg(feature = "serve")]
    pub(super) endpoints: Option<BoundEndpoints>,
    #[cfg(feature = "webhook")]
    pub(super) webhooks: Option<BoundWebhooks>,
    #[cfg(feature = "webhook")]
    webhook_env: Env,
    #[cfg(feature = "serve")]
    control_env: Env,
    /// The tasks of the caches and controllers. They end with the instance, so that its caches log no errors when an API server in
    /// the same process stops after it.
    tasks: TaskSet,
}

impl ManagerBuilder {
    /// Binds the servers and builds the manager with its controllers.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[cfg_attr(
        not(feature = "serve"),
        expect(clippy::unused_async, reason = "servers are bound asynchronously")
    )]
    pub async fn build(mut self, process: Process) -> Result<Instance, RunError> {
        let Process {
            env,
            transport,
            control_env,
            #[cfg(feature = "webhook")]
            webhook_env,
            control_transport,
            service_accounts,
            #[cfg(feature = "serve")]
            auth_info,
        } = process;
        let tasks = env.tasks.another_set();
        let env = Env {
            tasks: tasks.handle(),
            ..env
        };
        #[cfg(feature = "election")]
        let given = self.election.as_ref().map(|it| it.identity.clone());
        #[cfg(not(feature = "election"))]
        let given = None;
        let given = self.identity.or(given).filter(|it| !it.is_empty());
        let identity = given.unwrap_or_else(|| identity::identity(&identity::hostname(), &env.rng));
        self.options.instance.clone_from(&identity);
        let (name, registry, checks) = (self.options.name, self.registry, Checks::new());
        #[cfg(feature = "serve")]
        let certificates = crate::serve::CertificateMetrics::register(&registry)?;
        #[cfg(feature = "serve")]
        certificates.observe_client(&auth_info);
        #[cfg(feature = "serve")]
        let endpoints = {
            let bound = self.endpoints.bind(
                &control_env,
                &control_transport,
                &registry,
                &checks,
                &certificates,
            );
            bound.await?
        };
        #[cfg(feature = "webhook")]
        let webhooks = {
            let bound = self
                .webhooks
                .bind(&webhook_env, &certificates, &checks, &registry);
            bound.await?
        };
        let events = control_transport.unfenced("events", None);
        let recorder = Recorder::start(&control_env, events, name, &identity, &registry)?;
        let issuer = transport.unfenced("service-account-tokens", None);
        let mut manager = Manager::new(&env, &registry, &checks, transport, self.options)?;
        if let Some(namespace) = self.service_accounts {
            manager.use_service_accounts(ServiceAccounts::new(&env, issuer, service_accounts, &namespace));
        }
        for controller in self.controllers {
            manager.add_controller(controller)?;
        }
        #[cfg(feature = "webhook")]
        if let Some(webhooks) = &webhooks {
            webhooks.server.certificates().host(&mut manager);
        }
        #[cfg(feature = "election")]
        if let Some(mut config) = self.election {
            config.identity.clone_from(&identity);
            let client = control_transport.unfenced("leader-election", None);
            let fence = manager.fence().clone();
            let elector = crate::election::Elector::new(&control_env, client, fence, config, &registry)?;
            manager.elect(elector.with_recorder(recorder.clone()));
        }
        for (name, probes, check) in self.health_checks {
            if checks.contains(&name) {
                return Err(RunError::SameHealthCheck(name));
            }
            manager.registrations.push(checks.add(name, probes, check));
        }
        Ok(Instance {
            manager,
            version: self.version,
            identity,
            recorder,
            background: self.background,
            #[cfg(feature = "serve")]
            endpoints,
            #[cfg(feature = "webhook")]
            webhooks,
            #[cfg(feature = "webhook")]
            webhook_env,
            #[cfg(feature = "serve")]
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

    /// Runs until `stop`, and then stops in order: the manager, the background tasks, the webhooks and the endpoints.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let controllers: Vec<_> = self.manager.controllers.iter().map(|it| it.name()).collect();
        tracing::info!(
            version = Some(self.version).filter(|it| !it.is_empty()),
            identity = self.identity,
            controllers = controllers.join(","),
            "Starting"
        );
        let mut running = Vec::new();
        // In shutdown order.
        #[cfg(feature = "webhook")]
        running.extend(self.webhooks.map(|it| it.start(&self.webhook_env, &stop)));
        #[cfg(feature = "serve")]
        running.extend({ self.endpoints }.map(|it| {
            // After the last controller was added.
            it.start(&self.control_env, self.manager.status(self.version))
        }));
        // Cancelled after the controllers have stopped.
        let stop_background = CancellationToken::new();
        let mut background = JoinSet::new();
        for run in self.background {
            background.spawn(run(self.manager.caches().clone(), stop_background.clone()));
        }
        let ended = tokio::select! {
            biased;
            error = servers::first_end(&mut running) => return Err(error),
            error = first_failure(&mut background) => return Err(error),
            ended = self.manager.run(stop) => ended,
        };
        stop_background.cancel();
        while let Some(ended) = background.join_next().await {
            check_ended(ended)?;
        }
        self.recorder.flush(EVENT_FLUSH_TIMEOUT).await;
        servers::stop(running).await;
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
