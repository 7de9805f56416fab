//! The life of the process: endpoints first, then the manager; the manager ends first, then the webhooks, then the endpoints.

use std::future::pending;
use std::io;
use std::time::Duration;

use coxswain_config::{Config, Serving, Webhook, WebhookCertificate};
use coxswain_controllers::garbage_collector::GraphPage;
use coxswain_manager::client::{ConnectError, Transport};
use coxswain_manager::controller::ControllerError;
use coxswain_manager::election::ElectionError;
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::events::RecorderError;
use coxswain_manager::manager::{BuildError, ManagerError};
use coxswain_manager::serve::{Checks, Endpoints, ServeError, Server, Tls, TlsError};
use coxswain_manager::webhook::{self, Certificates, ServiceName, WebhookError};
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::{self, ClusterError};
use crate::log::Output;
use crate::member::Member;
use crate::sandbox::{Embedded, SandboxError};
use crate::signals::Signals;
use crate::ways::Ways;

/// What the API server, and the metrics, know this program as.
pub(crate) const NAME: &str = "coxswain";
/// The version, as users write it.
const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// How long webhooks are served after the manager has ended on a signal: API servers keep sending reviews here until they see
/// that this pod has left the Service.
const WEBHOOK_LINGER: Duration = Duration::from_secs(5);

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

pub(crate) async fn run(config: Config, log: &Output) -> Result<(), ProcessError> {
    let mut signals = Signals::take()?;
    let stop = CancellationToken::new();
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::for_self()))?;
    let checks = Checks::new();

    let server = bind(&config.serving).await?;
    let address = server.as_ref().map(Server::address);
    let endpoints = Endpoints::new(
        &checks,
        registry.clone(),
        config.serving.always_allow_paths.clone(),
    )?;
    let webhooks = match &config.webhook {
        Some(webhook) => Some(bind_webhooks(webhook.clone(), &registry, &checks).await?),
        None => None,
    };

    let found = async {
        let Some(sandbox) = config.sandbox.clone() else {
            let ways = over_network(&config.client_connection, &env, &registry).await?;
            return Ok::<_, ProcessError>((None, ways));
        };
        let embedded = Embedded::start(sandbox, &env, &registry).await?;
        let ways = embedded.ways();
        Ok((Some(embedded), ways))
    };
    let (embedded, ways) = tokio::select! {
        biased;
        // Nothing has been started that would have to end in order.
        () = signals.first() => return Ok(()),
        found = found => found?,
    };

    let mut member = Member::build(&config, &env, &registry, &checks, ways)?;
    let hosted = member.controllers().to_vec();
    let hooks = member.hooks();
    let endpoints = match member.graph() {
        Some(page) => endpoints.mount(GraphPage::PATH, move |request| {
            std::future::ready(page.answer(&request))
        }),
        None => endpoints,
    };

    if let Some(webhooks) = &webhooks {
        webhooks.certificates().host(member.manager());
    }

    tracing::info!(
        version = VERSION,
        identity = member.identity(),
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
    let manager_end = CancellationToken::new();
    let mut reviewing = webhooks.map(|webhooks| {
        let (clock, stop, manager_end) = (env.clock.clone(), stop.clone(), manager_end.clone());
        let until = async move {
            manager_end.cancelled().await;
            if stop.is_cancelled() {
                tracing::info!(
                    seconds = WEBHOOK_LINGER.as_secs(),
                    "Serving webhooks until the Service has dropped this pod"
                );
                clock.sleep(WEBHOOK_LINGER).await;
            }
        };
        tasks.handle().spawn(webhooks.serve(env.clone(), hooks, until))
    });
    let life = async {
        let shown = async {
            if let Some(embedded) = &embedded {
                embedded.greet(address, &hosted);
                embedded.show(&hosted, &env.clock, log).await;
            }
            pending::<()>().await;
        };
        let ended = tokio::select! {
            biased;
            died = ended_early(&mut serving) => return Err(ProcessError::EndpointsDied(died)),
            died = ended_early(&mut reviewing) => return Err(ProcessError::WebhooksDied(died)),
            ended = member.run(stop.clone()) => ended,
            () = shown => return Ok(()),
        };
        for (end, serving) in [(manager_end, reviewing), (endpoints_end, serving)] {
            end.cancel();
            if let Some(serving) = serving {
                // A panic at the end changes nothing.
                let _ = serving.await;
            }
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
    let Webhook {
        listen,
        certificate,
        client_ca,
    } = webhook;
    let source = match certificate {
        WebhookCertificate::Service { namespace, name } => {
            webhook::Source::Service(ServiceName { namespace, name })
        }
        WebhookCertificate::Folder(folder) => webhook::Source::Folder(folder),
    };
    let mut certificates = Certificates::new(source, registry, checks).await?;
    if let Some(client_ca) = client_ca {
        certificates = certificates.verifying_clients(&client_ca)?;
    }
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

/// Resolves, with what it said, if the endpoints end before they were told to.
async fn ended_early(serving: &mut Option<JoinHandle<()>>) -> String {
    match serving {
        None => std::future::pending().await,
        Some(serving) => match serving.await {
            Ok(()) => "ended by themselves".to_owned(),
            Err(error) => error.to_string(),
        },
    }
}
