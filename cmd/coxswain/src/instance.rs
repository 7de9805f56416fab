//! A manager with its controllers, event recorder and election. A process runs one instance, the tour two.

use std::time::Duration;

use coxswain_config::{Config, Enablement, LeaderElection};
use coxswain_controllers::garbage_collector::{self, GraphPage};
use coxswain_controllers::hollow_kubelet;
use coxswain_controllers::registry::{self, Descriptor, EnabledBy, Hosted, Settings};
use coxswain_manager::cache::Scope;
use coxswain_manager::client::{ServiceAccounts, Transport};
use coxswain_manager::election::{self, Elector};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::Recorder;
use coxswain_manager::manager::{Manager, ManagerError, Options};
use coxswain_manager::metrics::Registry;
use coxswain_manager::serve::Checks;
use coxswain_manager::status::StatusReporter;
use coxswain_manager::webhook::Hooks;
use tokio_util::sync::CancellationToken;

use crate::NAME;
use crate::error::ProcessError;
use crate::reload::rate_limit;

/// Bounds sending the remaining events after the manager has stopped.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Transports to one API server. The election has a connection of its own: slow requests of controllers must not delay a
/// renewal.
pub(crate) struct Transports {
    pub(crate) controllers: Transport,
    pub(crate) election: Transport,
    /// Without the credentials of the process, for requests as service accounts.
    pub(crate) service_accounts: Transport,
}

/// A manager that has not been started yet.
pub(crate) struct ManagerInstance {
    manager: Manager,
    elector: Option<Elector>,
    recorder: Recorder,
    identity: String,
    hosted: Hosted,
    /// End with the instance, so that its caches do not log errors when the sandbox stops after it.
    tasks: TaskSet,
}

impl ManagerInstance {
    pub(crate) fn build(
        config: &Config,
        env: &Env,
        registry: &Registry,
        checks: &Checks,
        transports: Transports,
    ) -> Result<Self, ProcessError> {
        let Config {
            generic,
            client_connection,
            leader_election,
            serving: _,
            authentication: _,
            authorization: _,
            webhook: _,
            logging: _,
            tracing: _,
            debugging: _,
            sandbox,
            app_services,
            deployments,
            garbage_collector,
            hollow_kubelet,
            replicas,
            flags: _,
            document: _,
        } = config;
        let identity = election::identity(&hostname(), &env.rng);
        let options = Options {
            name: NAME,
            instance: identity.clone(),
            limit: rate_limit(client_connection),
            scope: Scope {
                namespaces: generic.namespaces.clone(),
                label_selector: generic.label_selector.clone().unwrap_or_default(),
            },
            start_interval: generic.controller_start_interval,
            shutdown_timeout: generic.controller_shutdown_timeout,
        };
        let tasks = TaskSet::new();
        let env_of_manager = Env {
            tasks: tasks.handle(),
            ..env.clone()
        };
        let issuer = transports.controllers.unfenced("service-account-tokens", None);
        let mut manager = Manager::new(&env_of_manager, registry, checks, transports.controllers, options)?;
        if generic.use_service_account_credentials {
            let namespace = leader_election.resource_namespace.as_str();
            let transport = transports.service_accounts;
            let accounts = ServiceAccounts::new(&env_of_manager, issuer, transport, namespace);
            manager.use_service_accounts(accounts);
        }
        let recorder = Recorder::start(
            &env_of_manager,
            transports.election.unfenced("events", None),
            NAME,
            &identity,
            registry,
        )?;
        let elector = elector(&manager, leader_election, &transports.election, &identity)?;
        let elector = elector.map(|elector| elector.with_recorder(recorder.clone()));
        let workers = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let settings = Settings {
            garbage_collector: garbage_collector.as_ref().map(|it| garbage_collector::Options {
                workers: workers(it.concurrent_syncs),
                dry_run: it.dry_run,
            }),
            hollow_kubelet: hollow_kubelet::Options {
                nodes: hollow_kubelet.nodes,
                delay: hollow_kubelet.ready_delay,
                sandbox: sandbox.is_some(),
            },
            hollow_kubelet_workers: workers(hollow_kubelet.concurrent_syncs),
            appreplicaset_workers: workers(replicas.concurrent_appreplicaset_syncs),
            appservice_workers: workers(app_services.concurrent_syncs),
            deployment_workers: workers(deployments.concurrent_syncs),
            replicaset_workers: workers(replicas.concurrent_replicaset_syncs),
            replicationcontroller_workers: workers(replicas.concurrent_rc_syncs),
            assume_no_kube_controller_manager: generic.assume_no_kube_controller_manager,
        };
        let enabled = |it: &Descriptor| match generic.controllers.enabled(it.name, it.enabled_by_default) {
            Enablement::No => None,
            Enablement::ByStar => Some(EnabledBy::Star),
            Enablement::ByName => Some(EnabledBy::Name),
        };
        let hosted = registry::host(&mut manager, enabled, &settings)?;
        Ok(Self {
            manager,
            elector,
            recorder,
            identity,
            hosted,
            tasks,
        })
    }

    pub(crate) fn controllers(&self) -> &[&'static str] {
        &self.hosted.names
    }

    pub(crate) fn manager(&mut self) -> &mut Manager {
        &mut self.manager
    }

    /// Moves the admission webhooks of the controllers out.
    pub(crate) fn take_hooks(&mut self) -> Hooks {
        std::mem::take(&mut self.hosted.hooks)
    }

    /// Moves the debug page of the garbage collector out.
    pub(crate) fn take_graph(&mut self) -> Option<GraphPage> {
        self.hosted.graph.take()
    }

    /// Starts a reporter of the manager's status.
    pub(crate) fn status(&self, version: &'static str) -> StatusReporter {
        self.manager.status(version, self.elector.as_ref())
    }

    /// The identity in the election.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Runs until `stop` and then shuts down in order.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), ManagerError> {
        let ended = self.manager.run(self.elector, stop).await;
        self.recorder.flush(EVENT_FLUSH_TIMEOUT).await;
        drop(self.tasks);
        ended
    }
}

fn elector(
    manager: &Manager,
    flags: &LeaderElection,
    transport: &Transport,
    identity: &str,
) -> Result<Option<Elector>, ProcessError> {
    let LeaderElection {
        leader_elect,
        lease_duration,
        renew_deadline,
        retry_period,
        resource_name,
        resource_namespace,
    } = flags;
    if !leader_elect {
        return Ok(None);
    }
    let config = election::Config {
        identity: identity.to_owned(),
        namespace: resource_namespace.clone(),
        name: resource_name.clone(),
        lease_duration: *lease_duration,
        renew_deadline: *renew_deadline,
        retry_period: *retry_period,
    };
    let client = transport.unfenced("leader-election", None);
    let elector = Elector::new(
        manager.env(),
        client,
        manager.fence().clone(),
        config,
        manager.registry(),
    )?;
    Ok(Some(elector))
}

fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
