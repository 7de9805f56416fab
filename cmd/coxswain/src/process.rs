//! Start and stop of the process. Endpoints start before the manager; the manager stops first, then webhooks, then
//! endpoints.

use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use coxswain_config::{Config, Webhook, WebhookCertificate};
use coxswain_controllers::garbage_collector::GraphPage;
use coxswain_manager::client::{ConnectError, Transport};
use coxswain_manager::env::{Env, TaskSet};
use coxswain_manager::metrics::Registry;
use coxswain_manager::serve::{CertificateMetrics, Checks, Endpoints};
use coxswain_manager::status;
use coxswain_manager::webhook::{self, Certificates, ServiceCertificate, ServiceName};
use prometheus::process_collector::ProcessCollector;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::NAME;
use crate::build::{BUILD, VERSION};
use crate::cluster::{self, ClusterError};
use crate::crds;
use crate::demo::Embedded;
use crate::error::ProcessError;
use crate::instance::{ManagerInstance, Transports};
use crate::log::Log;
use crate::pages;
use crate::reload::Reload;
use crate::runtime_metrics;
use crate::serving::{self, HttpsPort};
use crate::traces::Traces;
use coxswain_manager::signals::{Hangup, Signals};

/// Webhooks are served this long after the manager has stopped on a signal: API servers keep sending reviews until they
/// observe that this pod has left the Service.
const WEBHOOK_DRAIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(config: Config, arguments: Vec<OsString>, log: &Log) -> Result<(), ProcessError> {
    let mut signals = Signals::install()?;
    let hangup = Hangup::install()?;
    let stop = CancellationToken::new();
    let tasks = TaskSet::new();
    let env = Env::system(&tasks);
    let registry = Registry::new("coxswain");
    registry.register(Box::new(ProcessCollector::for_self()))?;
    BUILD.register(&registry)?;
    runtime_metrics::register(&registry)?;
    let certificates = CertificateMetrics::register(&registry)?;
    let checks = Checks::new();
    let traces = Traces::start(&config.tracing, &env, &registry)?;

    let port = serving::bind(&config).await?;
    let address = port.as_ref().map(|port| port.server.address());
    let webhooks = match &config.webhook {
        Some(webhook) => Some(bind_webhooks(webhook.clone(), &registry, &certificates, &checks).await?),
        None => None,
    };

    let connected = async {
        let (embedded, transports) = match config.sandbox.clone() {
            None => (
                None,
                connect(&config.client_connection, &env, &registry, &certificates).await?,
            ),
            Some(sandbox) => {
                let embedded = Embedded::start(sandbox, &env, &registry).await?;
                let transports = embedded.transports();
                (Some(embedded), transports)
            }
        };
        let access = serving::access(&config, &env, &transports.controllers).await?;
        Ok::<_, ProcessError>((embedded, transports, access))
    };
    let (embedded, mut transports, access) = tokio::select! {
        biased;
        // Nothing has been started that needs an orderly shutdown.
        () = signals.first() => return Ok(()),
        connected = connected => connected?,
    };

    let endpoints = Endpoints::new(&checks, registry.clone(), access, &env.clock)?;
    if let Some(traces) = &traces {
        transports.controllers = transports.controllers.traced(traces.tracer());
    }
    let mut instance = ManagerInstance::build(&config, &env, &registry, &checks, transports)?;
    let controllers = instance.controllers().to_vec();
    let hooks = instance.take_hooks();
    let endpoints = match instance.take_graph() {
        Some(page) => endpoints.mount(GraphPage::PATH, move |request| {
            std::future::ready(page.answer(&request))
        }),
        None => endpoints,
    };

    crds::watch(instance.manager(), &controllers);
    if let Some(webhooks) = &webhooks {
        webhooks.certificates().host(instance.manager());
    }
    // After the last controller was added.
    let reporter = instance.status(VERSION);
    let endpoints = endpoints
        .mount(status::PAGE_PATH, |_| std::future::ready(status::page()))
        .mount(status::STATUS_PATH, move |_| {
            std::future::ready(reporter.answer())
        });
    let (effective, shown) = watch::channel(Arc::new(config.clone()));
    let endpoints = pages::mount(endpoints, shown, &log.handle, &env, &stop);

    tracing::info!(
        version = VERSION,
        identity = instance.identity(),
        controllers = controllers.join(","),
        endpoints = address.map(|a| a.to_string()),
        webhooks = webhooks.as_ref().map(|it| it.address().to_string()),
        "Starting"
    );
    let stop_endpoints = CancellationToken::new();
    if let Some(port) = &port {
        port.certificates.watch(&env, &certificates);
    }
    let mut serving = port.map(|HttpsPort { server, .. }| {
        let (until, env) = (stop_endpoints.clone(), env.clone());
        let serving = async move { server.serve(env.clone(), endpoints, until.cancelled()).await };
        tasks.handle().spawn(serving)
    });
    let manager_stopped = CancellationToken::new();
    let mut reviewing = webhooks.map(|webhooks| {
        let (clock, stop, manager_stopped) = (env.clock.clone(), stop.clone(), manager_stopped.clone());
        let until = async move {
            manager_stopped.cancelled().await;
            if stop.is_cancelled() {
                tracing::info!(
                    seconds = WEBHOOK_DRAIN.as_secs(),
                    "Serving webhooks until the pod has left the Service"
                );
                clock.sleep(WEBHOOK_DRAIN).await;
            }
        };
        tasks.handle().spawn(webhooks.serve(env.clone(), hooks, until))
    });
    let reload = Reload {
        arguments,
        effective,
        log: log.handle.clone(),
        rate_limit: instance.manager().rate_limit().clone(),
    };
    let lifecycle = async {
        let demo = async {
            if let Some(embedded) = &embedded {
                embedded.print_summary(address, &controllers);
                embedded.run_sample(&controllers, &env.clock, &log.output).await;
            }
            pending::<()>().await;
        };
        let ended = tokio::select! {
            biased;
            error = failure(&mut serving) => return Err(ProcessError::EndpointsFailed(error)),
            error = failure(&mut reviewing) => return Err(ProcessError::WebhooksFailed(error)),
            ended = instance.run(stop.clone()) => ended,
            () = demo => return Ok(()),
            () = reload.run(hangup) => return Ok(()),
        };
        for (stop, serving) in [(manager_stopped, reviewing), (stop_endpoints, serving)] {
            stop.cancel();
            if let Some(serving) = serving {
                // A panic at the end changes nothing.
                let _ = serving.await;
            }
        }
        if let Some(embedded) = embedded {
            embedded.stop().await;
        }
        if let Some(traces) = traces {
            traces.stop().await;
        }
        Ok(ended?)
    };
    tokio::select! {
        biased;
        () = signals.second(stop.clone()) => return Err(ProcessError::SecondSignal),
        ended = lifecycle => ended?,
    }
    tracing::info!("Stopped");
    Ok(())
}

async fn bind_webhooks(
    webhook: Webhook,
    registry: &Registry,
    metrics: &CertificateMetrics,
    checks: &Checks,
) -> Result<webhook::Server, ProcessError> {
    let Webhook {
        listen,
        certificate,
        client_ca,
    } = webhook;
    let source = match certificate {
        WebhookCertificate::Service { namespace, name } => {
            let mut certificate = ServiceCertificate::new(ServiceName { namespace, name });
            let managed_by = ("app.kubernetes.io/managed-by".to_owned(), NAME.to_owned());
            certificate.secret_labels = [managed_by].into();
            certificate.authority_name = format!("{NAME}-webhook-ca");
            webhook::Source::Service(certificate)
        }
        WebhookCertificate::Folder(folder) => webhook::Source::Folder(folder),
    };
    let certificates = Certificates::new(source, metrics, checks);
    let mut certificates = certificates.map_err(ProcessError::webhook_certificate)?;
    if let Some(client_ca) = client_ca {
        let verifying = certificates.verifying_clients(&client_ca);
        certificates = verifying.map_err(ProcessError::webhook_client_ca)?;
    }
    Ok(webhook::Server::bind(listen, certificates, registry).await?)
}

async fn connect(
    connection: &coxswain_config::ClientConnection,
    env: &Env,
    registry: &Registry,
    certificates: &CertificateMetrics,
) -> Result<Transports, ProcessError> {
    let config = cluster::config(connection).await?;
    certificates.observe_client(&config.auth_info);
    let agent = format!(
        "{NAME}/{VERSION} ({}/{})",
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    let (clock, registry) = (env.clock.clone(), registry.clone());
    let connect = move || {
        let controllers = Transport::connect(&config, &agent, &clock, &registry)?;
        let election = controllers.reconnect(&config)?;
        let service_accounts = controllers.without_credentials(&config)?;
        Ok(Transports {
            controllers,
            election,
            service_accounts,
        })
    };
    // Connecting may run an exec credential plugin and block: signals must be handled meanwhile.
    let connected = tokio::task::spawn_blocking(connect)
        .await
        .map_err(io::Error::other)?;
    connected.map_err(|error| match error {
        ConnectError::Config { reason, .. } => ClusterError::unusable(connection, reason).into(),
        error @ ConnectError::Metrics(_) => ProcessError::Connect(error),
    })
}

/// Resolves with the error if a server ends before it was stopped.
async fn failure(serving: &mut Option<JoinHandle<()>>) -> String {
    match serving {
        None => std::future::pending().await,
        Some(serving) => match serving.await {
            Ok(()) => "ended unexpectedly".to_owned(),
            Err(error) => error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests;
