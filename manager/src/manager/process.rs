//! The process of a built manager: logging and signals, the start of its parts, and their end in reverse order.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use prometheus::process_collector::ProcessCollector;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::builder::{BoxError, ManagerBuilder, RunError};
use super::control::ControlThread;
use super::{Manager, webhooks};
use crate::client::{ConnectError, RateLimit, Transport};
use crate::election::{self, Elector};
use crate::env::{Env, TaskSet};
use crate::events::Recorder;
use crate::serve::{
    ALWAYS_ALLOW_PATHS, Access, AuthenticationOptions, Authenticator, AuthorizationOptions, Authorizer,
    CertificateFiles, CertificateMetrics, Checks, Endpoints, Server, ServingCertificates, TlsOptions,
};
use crate::signals::Signals;
use crate::status;

/// The rate limit of reviews of requests to the endpoints.
const REVIEW_LIMIT: RateLimit = RateLimit { qps: 20.0, burst: 40 };
/// The time for which a decision about a request to the endpoints is not reviewed again.
const REVIEW_TTL: Duration = Duration::from_secs(10);
/// The time for sending the remaining events after the manager has stopped.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The environments and connections of a process.
struct Process {
    /// Of the caches and controllers.
    env: Env,
    transport: Transport,
    /// Of the election, the endpoints and the webhooks.
    control_env: Env,
    control_transport: Transport,
}

impl ManagerBuilder {
    /// Runs until SIGINT or SIGTERM, and stops in order; a second signal stops immediately. Logs to standard error at the
    /// level in `RUST_LOG` (default `info`), unless the program has set a subscriber. An error is logged.
    pub async fn run(self) -> ExitCode {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        // Fails if the program has set a subscriber.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .try_init();
        let name = self.options.name;
        match self.run_as_process().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, manager = name, "Manager failed");
                ExitCode::FAILURE
            }
        }
    }

    async fn run_as_process(mut self) -> Result<(), RunError> {
        let mut signals = Signals::install()?;
        let (stop, tasks) = (CancellationToken::new(), TaskSet::new());
        let env = Env::system(&tasks);
        self.registry.register(Box::new(ProcessCollector::for_self()))?;
        let control = ControlThread::start()?;
        let connected = async {
            let config = match self.config.take() {
                Some(config) => config,
                None => kube::Config::infer().await.map_err(Box::new)?,
            };
            let (name, clock, registry) = (self.options.name, env.clock.clone(), self.registry.clone());
            // Connecting may run an exec credential plugin and block.
            let connect = move || {
                let transport = Transport::connect(&config, name, &clock, &registry)?;
                Ok::<_, ConnectError>((transport, config))
            };
            let connected = tokio::task::spawn_blocking(connect).await;
            let (transport, config) = connected.map_err(io::Error::other)??;
            let of_control = control.enter(|| transport.reconnect(&config))?;
            Ok::<_, RunError>((transport, of_control))
        };
        let (transport, control_transport) = tokio::select! {
            biased;
            // Nothing has been started that needs an orderly shutdown.
            () = signals.first() => return Ok(()),
            connected = connected => connected?,
        };
        let process = Process {
            control_env: control.env(&env),
            control_transport,
            env,
            transport,
        };
        tokio::select! {
            biased;
            () = signals.second(stop.clone()) => Err(RunError::SecondSignal),
            ended = Box::pin(self.run_in(process, stop.clone())) => ended,
        }
    }

    /// Runs in this environment and over this transport until `stop`, without endpoints. For tests: on a paused clock, against
    /// an API server in the same process. Webhooks need a clock that is not paused while a review is sent.
    pub async fn run_with(
        mut self,
        env: &Env,
        transport: Transport,
        stop: CancellationToken,
    ) -> Result<(), RunError> {
        self.endpoints = None;
        let process = Process {
            env: env.clone(),
            transport: transport.clone(),
            control_env: env.clone(),
            control_transport: transport,
        };
        Box::pin(self.run_in(process, stop)).await
    }

    async fn run_in(mut self, process: Process, stop: CancellationToken) -> Result<(), RunError> {
        let Process {
            env,
            transport,
            control_env,
            control_transport,
        } = process;
        let identity = election::identity(&hostname(), &env.rng);
        self.options.instance.clone_from(&identity);
        let (name, registry, checks) = (self.options.name, self.registry, Checks::new());
        let server = match self.endpoints {
            Some(address) => {
                // The listener belongs to the runtime on which it is bound.
                let bound = control_env.tasks.spawn(bind(address?, self.certificate));
                Some(bound.await.map_err(io::Error::other)??)
            }
            None => None,
        };
        let certificate_metrics = CertificateMetrics::register(&registry)?;
        let webhooks = match self.webhooks {
            Some(webhooks) => {
                let bound = webhooks.bind(&control_env, &certificate_metrics, &checks, &registry);
                Some(bound.await?)
            }
            None => None,
        };
        let recorder = Recorder::start(
            &control_env,
            control_transport.unfenced("events", None),
            name,
            &identity,
            &registry,
        )?;
        let mut manager = Manager::new(&env, &registry, &checks, transport, self.options)?;
        manager.run_election_by(control_env.tasks.clone());
        for controller in self.controllers {
            manager.add_controller(controller)?;
        }
        if let Some((server, _)) = &webhooks {
            server.certificates().host(&mut manager);
        }
        let elector = match self.election {
            None => None,
            Some(mut config) => {
                if config.identity.is_empty() {
                    config.identity = identity;
                }
                let client = control_transport.unfenced("leader-election", None);
                let fence = manager.fence().clone();
                let elector = Elector::new(&control_env, client, fence, config, &registry)?;
                Some(elector.with_recorder(recorder.clone()))
            }
        };
        let reporter = manager.status("", elector.as_ref());
        let stop_endpoints = CancellationToken::new();
        let mut serving = match server {
            None => None,
            Some((server, certificates)) => {
                tracing::info!(address = %server.address(), "Serving endpoints");
                certificates.watch(&control_env, &certificate_metrics);
                let access = access(&control_env, &control_transport)?;
                let endpoints = Endpoints::new(&checks, registry, access, &control_env.clock)?
                    .mount(status::PAGE_PATH, |_| std::future::ready(status::page()))
                    .mount(status::STATUS_PATH, move |_| {
                        std::future::ready(reporter.answer())
                    });
                let (env, until) = (control_env.clone(), stop_endpoints.clone());
                let serve = async move { server.serve(env, endpoints, until.cancelled()).await };
                Some(control_env.tasks.spawn(serve))
            }
        };
        let manager_stopped = CancellationToken::new();
        let mut reviewing = webhooks.map(|(server, hooks)| {
            tracing::info!(address = %server.address(), "Serving webhooks");
            let clock = control_env.clock.clone();
            let until = webhooks::shutdown(clock, stop.clone(), manager_stopped.clone());
            let serve = server.serve(control_env.clone(), hooks, until);
            control_env.tasks.spawn(serve)
        });
        // Cancelled after the controllers have stopped.
        let stop_background = CancellationToken::new();
        let mut background = JoinSet::new();
        for run in self.background {
            background.spawn(run(manager.caches().clone(), stop_background.clone()));
        }
        let ended = tokio::select! {
            biased;
            reason = failure(&mut serving) => return Err(RunError::Endpoints(reason)),
            reason = failure(&mut reviewing) => return Err(RunError::Webhooks(reason)),
            error = first_failure(&mut background) => return Err(error),
            ended = manager.run(elector, stop) => ended,
        };
        stop_background.cancel();
        while let Some(ended) = background.join_next().await {
            check_ended(ended)?;
        }
        recorder.flush(EVENT_FLUSH_TIMEOUT).await;
        for (stop, server) in [(manager_stopped, reviewing), (stop_endpoints, serving)] {
            stop.cancel();
            if let Some(server) = server {
                // A panic at the end changes nothing.
                let _ = server.await;
            }
        }
        Ok(ended?)
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

/// Resolves with the reason if a server ends before it was stopped.
async fn failure(server: &mut Option<JoinHandle<()>>) -> String {
    match server {
        None => std::future::pending().await,
        Some(server) => match server.await {
            Ok(()) => "ended unexpectedly".to_owned(),
            Err(error) => error.to_string(),
        },
    }
}

async fn bind(
    address: SocketAddr,
    files: Option<CertificateFiles>,
) -> Result<(Server, ServingCertificates), RunError> {
    let certificates = match files {
        Some(files) => ServingCertificates::from_files(files)?,
        None => ServingCertificates::self_signed(["localhost".to_owned(), address.ip().to_string()])?,
    };
    let tls = certificates.tls(&TlsOptions {
        request_client_certificates: true,
        ..TlsOptions::default()
    })?;
    Ok((Server::bind(address, tls).await?, certificates))
}

/// Returns the access to the endpoints: the API server authenticates and authorizes clients.
fn access(env: &Env, transport: &Transport) -> Result<Access, RunError> {
    let reviews = |name: &str| transport.unfenced(name, Some(REVIEW_LIMIT));
    let authentication = AuthenticationOptions {
        token_ttl: REVIEW_TTL,
        client_ca: None,
        request_header: None,
        lookup: true,
    };
    let authorization = AuthorizationOptions {
        authorized_ttl: REVIEW_TTL,
        unauthorized_ttl: REVIEW_TTL,
    };
    // The page is static; its data are not.
    let access = Access::new(ALWAYS_ALLOW_PATHS.into_iter().chain([status::PAGE_PATH]))?;
    Ok(access.delegated(
        Authenticator::start(env, reviews("authentication"), authentication)?,
        Authorizer::new(env, reviews("authorization"), authorization),
    ))
}

fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
