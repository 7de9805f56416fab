//! The life of the process: endpoints first, then the manager; the manager ends first, then the endpoints.

use std::io;
use std::time::Duration;

use coxswain_config::{Config, Enablement, LeaderElection, Serving, Webhook, WebhookCertificate};
use coxswain_controllers::garbage_collector::{self, GraphPage};
use coxswain_controllers::hollow_kubelet;
use coxswain_controllers::names::Named;
use coxswain_controllers::registry::{self, Asked, Hosted, Settings};
use coxswain_manager::cache::Scope;
use coxswain_manager::client::{ConnectError, Limit, Transport};
use coxswain_manager::controller::ControllerError;
use coxswain_manager::election::{self, ElectionError, Elector};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::{Recorder, RecorderError};
use coxswain_manager::manager::{BuildError, Manager, ManagerError, Options};
use coxswain_manager::serve::{Checks, Endpoints, ServeError, Server, Tls, TlsError};
use coxswain_manager::webhook::{self, Certificates, ServiceName, WebhookError};
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::{self, ClusterError};
use crate::sandbox::{Embedded, SandboxError};
use crate::signals::Signals;
use crate::ways::Ways;

/// What the API server, and the metrics, know this program as.
const NAME: &str = "coxswain";
/// The version, as users write it.
const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// How long the last events may take at the end.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// Why the process ended badly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Election(#[from] ElectionError),
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error(transparent)]
    Events(#[from] RecorderError),
    #[error("cannot register the metrics of the process: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Manager(#[from] ManagerError),
    #[error("the endpoints died: {0}")]
    EndpointsDied(String),
    #[error("the webhooks died: {0}")]
    WebhooksDied(String),
    #[error("ended at once by a second signal")]
    SecondSignal,
}

impl ProcessError {
    /// Whether nothing was started: then it is shown as an error of the command line is.
    pub(crate) fn is_before_start(&self) -> bool {
        !matches!(
            self,
            Self::Manager(_) | Self::EndpointsDied(_) | Self::WebhooksDied(_) | Self::SecondSignal
        )
    }
}

pub(crate) async fn run(config: Config) -> Result<(), ProcessError> {
    let Config {
        generic,
        client_connection,
        leader_election,
        serving,
        webhook,
        logging: _,
        sandbox,
        app_services,
        deployments,
        garbage_collector,
        hollow_kubelet,
        replicas,
    } = config;
    let mut signals = Signals::take()?;
    let stop = CancellationToken::new();
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::for_self()))?;
    let checks = Checks::new();

    let server = bind(&serving).await?;
    let address = server.as_ref().map(Server::address);
    let endpoints = Endpoints::new(&checks, registry.clone(), serving.always_allow_paths)?;
    let webhooks = match webhook {
        Some(webhook) => Some(bind_webhooks(webhook, &registry, &checks).await?),
        None => None,
    };

    let in_sandbox = sandbox.is_some();
    let embedded = match sandbox {
        Some(sandbox) => Some(Embedded::start(sandbox, &env, &registry).await?),
        None => None,
    };
    let ways = if let Some(embedded) = &embedded {
        embedded.ways()
    } else {
        tokio::select! {
            biased;
            // Nothing has been started that would have to end in order.
            () = signals.first() => return Ok(()),
            ways = over_network(&client_connection, &env, &registry) => ways?,
        }
    };

    let limit = client_connection.rate.map(|rate| Limit {
        qps: rate.qps,
        burst: rate.burst,
    });
    let options = Options {
        name: NAME,
        limit,
        scope: Scope {
            namespaces: generic.namespaces,
            label_selector: generic.label_selector.unwrap_or_default(),
        },
        start_interval: generic.controller_start_interval,
        shutdown_timeout: generic.controller_shutdown_timeout,
    };
    // Its own tasks, which end with it: its caches must not complain that the sandbox goes.
    let work = TaskSet::new();
    let env_of_manager = Env {
        tasks: work.handle(),
        ..env.clone()
    };
    let mut manager = Manager::new(&env_of_manager, &registry, &checks, ways.controllers, options)?;
    let identity = election::identity(&hostname(), &env.rng);
    let recorder = Recorder::start(
        &env_of_manager,
        ways.election.unfenced("events", None),
        NAME,
        &identity,
        &registry,
    )?;
    let elector = elector(&manager, &leader_election, &ways.election, &identity)?;
    let elector = elector.map(|elector| elector.recording(recorder.clone()));
    let workers = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let settings = Settings {
        garbage_collector: garbage_collector.map(|it| garbage_collector::Options {
            workers: workers(it.concurrent_syncs),
            dry_run: it.dry_run,
        }),
        hollow_kubelet: (
            hollow_kubelet::Options {
                nodes: hollow_kubelet.nodes,
                delay: hollow_kubelet.ready_delay,
                sandbox: in_sandbox,
            },
            workers(hollow_kubelet.concurrent_syncs),
        ),
        app_replicaset: workers(replicas.concurrent_appreplicaset_syncs),
        app_service: workers(app_services.concurrent_syncs),
        deployment: workers(deployments.concurrent_syncs),
        replicaset: workers(replicas.concurrent_replicaset_syncs),
        replication_controller: workers(replicas.concurrent_rc_syncs),
        instance: identity.clone(),
    };
    let enabled = |it: &Named| match generic.controllers.enabled(it.name, it.off_by_default) {
        Enablement::No => None,
        Enablement::ByStar => Some(Asked::ByStar),
        Enablement::ByName => Some(Asked::ByName),
    };
    let Hosted {
        names: hosted,
        graph,
        hooks,
    } = registry::host(&mut manager, enabled, &settings)?;
    let endpoints = match graph {
        Some(page) => endpoints.mount(GraphPage::PATH, move |request| {
            std::future::ready(page.answer(&request))
        }),
        None => endpoints,
    };

    if let Some(webhooks) = &webhooks {
        webhooks.certificates().host(&mut manager);
    }

    tracing::info!(
        version = VERSION,
        identity,
        controllers = hosted.join(","),
        endpoints = address.map(|a| a.to_string()),
        webhooks = webhooks.as_ref().map(|it| it.address().to_string()),
        "Starting"
    );
    let endpoints_end = CancellationToken::new();
    let mut serving = server.map(|server| {
        let (until, env) = (endpoints_end.clone(), env.clone());
        let serving = async move { server.serve(env.clone(), endpoints, until.cancelled()).await };
        tasks.handle().spawn(serving)
    });
    let mut reviewing = webhooks.map(|webhooks| {
        let (until, env) = (endpoints_end.clone(), env.clone());
        let reviewing = async move { webhooks.serve(env, hooks, until.cancelled()).await };
        tasks.handle().spawn(reviewing)
    });
    if let Some(embedded) = &embedded {
        embedded.greet(address, &hosted);
    }
    let life = async {
        let ended = tokio::select! {
            biased;
            died = ended_early(&mut serving) => return Err(ProcessError::EndpointsDied(died)),
            died = ended_early(&mut reviewing) => return Err(ProcessError::WebhooksDied(died)),
            ended = manager.run(elector, stop.clone()) => ended,
        };
        recorder.flush(LAST_EVENTS).await;
        drop(work);
        endpoints_end.cancel();
        for serving in [serving, reviewing].into_iter().flatten() {
            // It has nothing to say any more; a panic at the end changes nothing.
            let _ = serving.await;
        }
        if let Some(embedded) = embedded {
            embedded.end().await;
        }
        Ok(ended?)
    };
    tokio::select! {
        biased;
        () = signals.second(stop.clone()) => return Err(ProcessError::SecondSignal),
        ended = life => ended?,
    }
    tracing::info!("Stopped");
    Ok(())
}

async fn bind(serving: &Serving) -> Result<Option<Server>, ProcessError> {
    let Serving {
        listen,
        certificate,
        always_allow_paths: _,
    } = serving;
    let Some(address) = *listen else {
        return Ok(None);
    };
    let tls = match certificate {
        Some(files) => Tls::from_files(&files.certificate, &files.private_key)?,
        None => Tls::self_signed(["localhost".to_owned(), address.ip().to_string()])?,
    };
    Ok(Some(Server::bind(address, tls).await?))
}

async fn bind_webhooks(
    webhook: Webhook,
    registry: &Registry,
    checks: &Checks,
) -> Result<webhook::Server, ProcessError> {
    let Webhook { listen, certificate } = webhook;
    let source = match certificate {
        WebhookCertificate::Service { namespace, name } => {
            webhook::Source::Service(ServiceName { namespace, name })
        }
        WebhookCertificate::Folder(folder) => webhook::Source::Folder(folder),
    };
    let certificates = Certificates::new(source, registry, checks).await?;
    Ok(webhook::Server::bind(listen, certificates, registry).await?)
}

async fn over_network(
    connection: &coxswain_config::ClientConnection,
    env: &Env,
    registry: &Registry,
) -> Result<Ways, ProcessError> {
    let config = cluster::config(connection).await?;
    let agent = format!(
        "{NAME}/{VERSION} ({}/{})",
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    let (clock, registry) = (env.clock.clone(), registry.clone());
    let connect = move || {
        let controllers = Transport::connect(&config, &agent, &clock, &registry)?;
        let election = controllers.reconnect(&config)?;
        Ok(Ways {
            controllers,
            election,
        })
    };
    // Not on this thread: an exec plugin of the user is run and waited for, and signals count meanwhile.
    let connected = tokio::task::spawn_blocking(connect)
        .await
        .map_err(io::Error::other)?;
    connected.map_err(|error| match error {
        ConnectError::Config { reason, .. } => ClusterError::unusable(connection, reason).into(),
        error @ ConnectError::Metrics(_) => ProcessError::Connect(error),
    })
}

fn elector(
    manager: &Manager,
    flags: &LeaderElection,
    way: &Transport,
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
    let client = way.unfenced("leader-election", None);
    let elector = Elector::new(
        manager.env(),
        client,
        manager.fence().clone(),
        config,
        manager.registry(),
    )?;
    Ok(Some(elector))
}

/// Resolves, with what it said, if a server ends before it was told to.
async fn ended_early(serving: &mut Option<JoinHandle<()>>) -> String {
    match serving {
        None => std::future::pending().await,
        Some(serving) => match serving.await {
            Ok(()) => "ended by themselves".to_owned(),
            Err(error) => error.to_string(),
        },
    }
}

fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
